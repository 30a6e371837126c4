package httpsink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// A lost answer at a fail point is an unknown outcome: same key, carried out
// once.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	for _, point := range []failpoint.Point{failpoint.SinkTxnBefore, failpoint.SinkTxnAfter} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			var hits atomic.Int64
			o := testOwner
			o.Failpoints = failpoint.New(func(_ context.Context, p failpoint.Point, _ int32, epoch int64) error {
				if p == point && epoch == 1 && hits.Add(1) <= 2 {
					return errors.New("lost")
				}
				return nil
			})
			p := newPartner(t, nil)
			e := entry(0, "a", "x")
			mustApply(t, openTask(t, newTestSink(t, quick(p.URL)), o), batchOf(e))
			p.wantExecuted(t, 1, "a")
			p.wantSameBytes(t, "a", e.Value)
			if hits.Load() != 3 {
				t.Errorf("hits: got %d, want 3", hits.Load())
			}
		})
	}
}

// A panic at a fail point reaches the caller of Apply, and the next attempt
// carries on with the same keys.
func TestCrashAtFailpoint(t *testing.T) {
	t.Parallel()
	p := newPartner(t, nil)
	s := newTestSink(t, quick(p.URL))
	var hits atomic.Int64
	o := testOwner
	o.Failpoints = failpoint.New(func(_ context.Context, p failpoint.Point, _ int32, _ int64) error {
		if p == failpoint.SinkTxnAfter && hits.Add(1) == 5 {
			panic("crash")
		}
		return nil
	})
	var es []sink.Entry
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("r%d", i))
		es = append(es, entry(i, ids[i], ids[i]))
	}
	func() {
		defer func() {
			if got := recover(); got != "crash" {
				t.Errorf("recovered: got %v, want crash", got)
			}
		}()
		_, _ = openTask(t, s, o).Apply(t.Context(), batchOf(es...))
	}()
	o.Failpoints, o.Attempt, o.Generation = nil, 2, 2
	mustApply(t, openTask(t, s, o), batchOf(es...))
	p.wantExecuted(t, 1, ids...)
}

// The control: no key is sent, so that a lost answer doubles the call.
func TestAtLeastOnceSendsNoKey(t *testing.T) {
	t.Parallel()
	p := newPartner(t, func(q query) act { return act{cut: q.nth == 1} })
	o := testOwner
	o.Guarantee = sink.AtLeastOnce
	mustApply(t, openTask(t, newTestSink(t, quick(p.URL)), o), batchOf(entry(0, "a", "x")))
	p.wantExecuted(t, 2, "a")
	for _, q := range p.all() {
		if _, ok := q.header["Idempotency-Key"]; ok {
			t.Errorf("a key was sent: %q", q.key)
		}
	}
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	gone := entry(1, "a", "x")
	gone.Value = nil
	b := batchOf(entry(0, "a", "x"), gone, entry(2, "b", "x"))

	t.Run("dropped", func(t *testing.T) {
		t.Parallel()
		p := newPartner(t, nil)
		s := newTestSink(t, quick(p.URL))
		if s.Features().Deletes {
			t.Error("Features.Deletes: got true, want false without a delete block")
		}
		mustApply(t, openTask(t, s, testOwner), b)
		if len(p.all()) != 2 {
			t.Errorf("requests: got %d, want 2", len(p.all()))
		}
	})
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		p := newPartner(t, func(q query) act {
			if q.method == http.MethodDelete && q.nth == 1 {
				return act{refuse: http.StatusNotFound}
			}
			return act{}
		})
		c := quick(p.URL + "/v1")
		c.Delete = &Delete{Path: `"x"`}
		s := newTestSink(t, c)
		if !s.Features().Deletes {
			t.Error("Features.Deletes: got false, want true")
		}
		mustApply(t, openTask(t, s, testOwner), b)
		qs := p.asked("/v1/x")
		if len(qs) != 1 || qs[0].method != http.MethodDelete || qs[0].body != "" || qs[0].header.Get("Content-Type") != "" {
			t.Fatalf("delete: got %+v, want one DELETE without a body", qs)
		}
		if want := DefaultKey(testOwner, &gone.Record); qs[0].key != want {
			t.Errorf("key: got %q, want %q", qs[0].key, want)
		}
	})
}

// A huge answer is neither kept in memory nor in the dead letter.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 8<<20)
	p := newPartner(t, func(q query) act {
		if q.id == "bad" {
			return act{refuse: http.StatusBadRequest, body: huge}
		}
		return act{refuse: http.StatusOK, body: huge}
	})
	res, err := openTask(t, newTestSink(t, quick(p.URL)), testOwner).
		Apply(t.Context(), batchOf(entry(0, "good", "x"), entry(1, "bad", "y")))
	if err != nil || res.Through != pos(1) || len(res.Verdicts) != 1 {
		t.Fatalf("apply: got %+v, %v; want through 1/1 with one verdict", res, err)
	}
	if n := len(res.Verdicts[0].Reason); n > 500 {
		t.Errorf("reason: got %d bytes, want at most 500", n)
	}
}
