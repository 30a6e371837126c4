package httpsink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"exactly/sink"
)

// Whatever fails in between, each record is carried out once, those of a key in
// order and never two at a time, and never more calls than allowed.
func TestOrderAndConcurrency(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 4, 32} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, func(q query) act {
				r := rand.New(rand.NewPCG(uint64(len(q.id)*1000+q.nth), uint64(q.id[len(q.id)-1])))
				switch n := r.IntN(10); {
				case q.nth > 8:
					return act{}
				case n < 2:
					return act{refuse: http.StatusServiceUnavailable}
				case n < 4:
					return act{cut: true}
				}
				return act{}
			})
			c := quick(p.URL)
			c.Concurrency = concurrency
			c.Retry.Budget = 10 * time.Millisecond
			task := openTask(t, newTestSink(t, c), testOwner)
			var es []sink.Entry
			want := map[string][]string{}
			for i := range 200 {
				lane, id := fmt.Sprintf("k%d", i%7), fmt.Sprintf("r%d", i)
				es = append(es, entry(i, id, lane))
				want[lane] = append(want[lane], id)
			}
			if v := drive(t, task, batchOf(es...)); len(v) != 0 {
				t.Errorf("verdicts: got %v, want none", v)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			lane := map[string]string{}
			for _, q := range p.requests {
				lane[q.id] = q.lane
			}
			got := map[string][]string{}
			for _, id := range p.order {
				got[lane[id]] = append(got[lane[id]], id)
			}
			for k, ids := range want {
				if !slices.Equal(got[k], ids) {
					t.Errorf("order of %s: got %v, want %v", k, got[k], ids)
				}
			}
			if p.overlaps != 0 {
				t.Errorf("calls of one key at a time: got %d overlaps, want 0", p.overlaps)
			}
			if p.peak > concurrency {
				t.Errorf("calls at a time: got %d, want at most %d", p.peak, concurrency)
			}
		})
	}
}

// Calls of different keys do run at the same time: each waits for the other.
func TestCallsRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	const n = 8
	var here atomic.Int64
	all := make(chan struct{})
	p := newPartner(t, func(query) act {
		if here.Add(1) == n {
			close(all)
		}
		<-all
		return act{}
	})
	c := quick(p.URL)
	c.Concurrency = n
	var es []sink.Entry
	for i := range n {
		es = append(es, entry(i, fmt.Sprintf("r%d", i), ""))
	}
	mustApply(t, openTask(t, newTestSink(t, c), testOwner), batchOf(es...))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns > n {
		t.Errorf("connections: got %d, want at most %d", p.conns, n)
	}
}

// A verdict stops its lane until it was decided; the others go on, and a
// verdict beyond the prefix is kept until the prefix reaches it.
func TestVerdictStopsItsLane(t *testing.T) {
	t.Parallel()
	p := newPartner(t, func(q query) act {
		switch {
		case q.id == "bad" || q.id == "bad2":
			return act{refuse: http.StatusBadRequest}
		case q.id == "late" && q.nth == 1:
			return act{refuse: http.StatusBadGateway}
		}
		return act{}
	})
	c := quick(p.URL)
	c.Retry.Budget = time.Nanosecond
	task := openTask(t, newTestSink(t, c), testOwner)
	b := batchOf(
		entry(0, "bad", "x"), entry(1, "late", "y"), entry(2, "bad2", "z"),
		entry(3, "after-bad", "x"), entry(4, "after-bad2", "z"), entry(5, "other", "w"),
	)
	res, err := task.Apply(t.Context(), b)
	if err == nil || res.Through != pos(0) || len(res.Verdicts) != 1 || res.Verdicts[0].Pos != pos(0) {
		t.Fatalf("first apply: got %+v, %v; want through 1/0 with its verdict, and an error", res, err)
	}
	p.wantExecuted(t, 0, "after-bad", "after-bad2", "late")
	p.wantExecuted(t, 1, "other")

	b = rest(b, res)
	res, err = task.Apply(t.Context(), b)
	if err != nil || res.Through != pos(3) || len(res.Verdicts) != 1 || res.Verdicts[0].Pos != pos(2) {
		t.Fatalf("second apply: got %+v, %v; want through 1/3 with the verdict on 1/2", res, err)
	}
	p.wantExecuted(t, 0, "after-bad2")

	mustApply(t, task, rest(b, res))
	p.wantExecuted(t, 1, "after-bad", "after-bad2", "late", "other")
	for _, id := range []string{"bad", "bad2", "other", "after-bad", "after-bad2"} {
		if n := len(p.asked(id)); n != 1 {
			t.Errorf("requests for %s: got %d, want 1", id, n)
		}
	}
}

// A record in doubt stops its lane only, and is asked again in the next call.
func TestInDoubtStopsItsLane(t *testing.T) {
	t.Parallel()
	p := newPartner(t, func(q query) act {
		if q.id == "odd" && q.nth == 1 {
			return act{refuse: http.StatusUnprocessableEntity}
		}
		return act{}
	})
	task := openTask(t, newTestSink(t, quick(p.URL)), testOwner)
	b := batchOf(entry(0, "a", "x"), entry(1, "odd", "y"), entry(2, "behind", "y"), entry(3, "b", "z"))
	res, err := task.Apply(t.Context(), b)
	if sink.Classify(err) != sink.ClassInDoubt || res.Through != pos(0) {
		t.Fatalf("first apply: got %+v, %v; want through 1/0, in doubt", res, err)
	}
	p.wantExecuted(t, 0, "behind")
	p.wantExecuted(t, 1, "b")
	mustApply(t, task, rest(b, res))
	p.wantExecuted(t, 1, "a", "odd", "behind", "b")
}

// A partner that is down as a whole is not asked once per record and budget.
func TestOutageEndsApplySoon(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	p := newPartner(t, func(query) act {
		if down.Load() {
			return act{refuse: http.StatusServiceUnavailable}
		}
		return act{}
	})
	c := quick(p.URL)
	c.Concurrency = 4
	c.Retry.Budget = 20 * time.Millisecond
	task := openTask(t, newTestSink(t, c), testOwner)
	var es []sink.Entry
	for i := range 500 {
		es = append(es, entry(i, fmt.Sprintf("r%d", i), fmt.Sprintf("k%d", i)))
	}
	res, err := task.Apply(t.Context(), batchOf(es...))
	if err == nil || res.Through != (sink.Pos{Epoch: 1, Index: -1}) {
		t.Fatalf("apply: got %+v, %v; want no progress and an error", res, err)
	}
	touched := map[string]bool{}
	for _, q := range p.all() {
		touched[q.id] = true
	}
	if len(touched) > 12 {
		t.Errorf("records asked during an outage: got %d, want at most a few", len(touched))
	}
	down.Store(false)
	mustApply(t, task, batchOf(es...))
}

// Cancelling ends Apply at once, with the progress so far.
func TestCancel(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	release := make(chan struct{})
	defer close(release)
	p := newPartner(t, func(q query) act {
		if q.id == "stuck" {
			close(arrived)
			<-release
		}
		return act{}
	})
	c := quick(p.URL)
	c.Concurrency, c.Timeout = 1, time.Minute
	task := openTask(t, newTestSink(t, c), testOwner)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	start := time.Now()
	res, err := task.Apply(ctx, batchOf(entry(0, "a", "x"), entry(1, "stuck", "y"), entry(2, "b", "z")))
	if !errors.Is(err, context.Canceled) || sink.Classify(err) != sink.ClassTransient {
		t.Errorf("error: got %v, want a transient one that wraps context.Canceled", err)
	}
	if res.Through != pos(0) {
		t.Errorf("through: got %s, want 1/0", res.Through)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Apply returned %s after the start, want at once", took)
	}
	if n := len(p.asked("b")); n != 0 {
		t.Errorf("requests after the cancelling: got %d, want 0", n)
	}
}

// Retry-After holds back all calls of the task, also in the next Apply, and an
// Apply does not sit it out beyond its budget.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	p := newPartner(t, func(q query) act {
		if q.id == "a" && q.nth == 1 {
			return act{refuse: http.StatusTooManyRequests, header: http.Header{"Retry-After": {"2"}}}
		}
		return act{}
	})
	c := quick(p.URL)
	c.Concurrency = 1
	c.Retry.Budget = 50 * time.Millisecond
	task := openTask(t, newTestSink(t, c), testOwner)
	b := batchOf(entry(0, "a", "x"), entry(1, "b", "y"))
	start := time.Now()
	for range 3 {
		if _, err := task.Apply(t.Context(), b); sink.Classify(err) != sink.ClassTransient || err == nil {
			t.Fatalf("apply during the pause: got %v, want a transient error", err)
		}
	}
	if n := len(p.all()); n != 1 {
		t.Errorf("requests during the pause: got %d, want 1", n)
	}
	drive(t, task, b)
	if waited := time.Since(start); waited < 2*time.Second {
		t.Errorf("asked again after %s, want at least 2s", waited)
	}
	p.wantExecuted(t, 1, "a", "b")
}
