package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/deadletter"
	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/sinktest"
)

var errInjected = sink.Transient(errors.New("the answer was lost"))

// run starts a worker and gives a function that stops it and returns its error.
func (b *bench) run(c engine.Config) (stop func() error) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.New(c).Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// At every point of the protocol the answer is lost, twice, in the first and a
// later epoch; the attempt ends there and the next one finds out what happened.
func TestLostAnswerAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, p := range failpoint.Points() {
		if name := string(p.Point); strings.HasPrefix(name, "sink/") || strings.HasPrefix(name, "reset/") {
			continue // inside real sinks, of a command: their own tests
		}
		t.Run(strings.ReplaceAll(string(p.Point), "/", "_"), func(t *testing.T) {
			b := newBench(t, 2)
			c := b.config()
			c.Restart = engine.Restart{Max: 1000, Delay: time.Millisecond, MaxDelay: 5 * time.Millisecond}
			var hits atomic.Int64
			c.Failpoints = failpoint.New(func(_ context.Context, at failpoint.Point, _ int32, _ int64) error {
				if at != p.Point {
					return nil
				}
				if n := hits.Add(1); n == 1 || n == 4 {
					return errInjected
				}
				return nil
			})
			stop := b.run(c)
			for i := range 6 {
				b.produce(i*50, 50)
				b.until("50 more", func() bool {
					return len(b.rows("rows")) == (i+1)*50 && len(b.rows("files")) == (i+1)*50 && len(b.rows("db")) == (i+1)*50
				})
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if hits.Load() == 0 {
				t.Errorf("%s was never hit", p.Point)
			}
			for _, table := range []string{"rows", "files", "db"} {
				wantEach(t, table, b.rows(table), 300)
			}
			wantEach(t, "out", b.topic("out"), 300)
			if n := b.srv.Staged(); n != 0 {
				t.Errorf("%d pieces of staged work were left behind", n)
			}
		})
	}
}

func (b *bench) letters() []deadletter.Parsed {
	b.t.Helper()
	var out []deadletter.Parsed
	b.each("payments.dlq", func(r *kgo.Record) {
		hs := make([]record.Header, len(r.Headers))
		for i, h := range r.Headers {
			hs[i] = record.Header{Key: h.Key, Value: h.Value}
		}
		p, err := deadletter.Parse(r.Key, r.Value, hs, r.Timestamp.UnixMilli())
		if err != nil {
			b.t.Error(err)
		}
		out = append(out, p)
	})
	return out
}

// A record that a step refuses, and one that sinks refuse after the decision,
// are dead letters once each, with their bytes; their neighbours arrive.
func TestPoisonIsADeadLetterOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	c.Restart = engine.Restart{Max: 1000, Delay: time.Millisecond}
	var n atomic.Int64
	c.Failpoints = failpoint.New(func(_ context.Context, at failpoint.Point, _ int32, _ int64) error {
		// Between a sink's refusal and the decision that carries it.
		if at == failpoint.ApplyAfter && n.Add(1)%3 == 1 {
			return errInjected
		}
		return nil
	})
	stop := b.run(c)
	cl := b.client()
	for i := range 30 {
		v := fmt.Sprintf("v%d", i)
		switch {
		case i%10 == 3:
			v = "bad"
		case i%10 == 6:
			v = fmt.Sprintf("poison%d", i)
		}
		rec := &kgo.Record{Topic: "raw", Key: []byte("k"), Value: []byte(v)}
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	b.until("24 good ones", func() bool {
		return len(b.rows("rows")) == 24 && len(b.rows("files")) == 24 && len(b.rows("db")) == 24
	})
	b.until("12 dead letters", func() bool { return len(b.letters()) >= 12 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, l := range b.letters() {
		got[fmt.Sprintf("%s %s at %d by %s", l.Code, l.Record.Value, l.Record.Source.Offset, l.Sink)]++
	}
	want := map[string]int{}
	for i := 3; i < 30; i += 10 {
		want[fmt.Sprintf("expression bad at %d by ", i)]++
		for _, s := range []string{"rows", "files", "db"} {
			want[fmt.Sprintf("model_refused poison%d at %d by %s", i+3, i+3, s)]++
		}
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("dead letter %q: %d times, want %d", k, got[k], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}

// One sink is down: the others go on, its breaker opens, and when it is back it
// gets everything once, from the outbox topic, far beyond what memory holds.
func TestSinkDownOthersGoOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	down := sinktest.NewServer()
	c := b.config()
	c.Memory.Handover = 4 << 10
	c.Sinks = []engine.Sink{
		{Name: "rows", Sink: sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rows"})},
		{Name: "slow", Sink: sinktest.NewModelOutbox(down, sinktest.Options{Table: "rows"})},
	}
	var opened atomic.Bool
	c.Events = func(e engine.Event) {
		if e.Kind == engine.BreakerOpened && e.Sink == "slow" {
			opened.Store(true)
		}
	}
	stop := b.run(c)
	b.produce(0, 100)
	b.until("both", func() bool { return len(b.rows("rows")) == 100 && len(down.Records("rows")) == 100 })
	down.Down()
	for i := range 10 {
		b.produce(100+i*200, 200)
		b.until("the healthy sink", func() bool { return len(b.rows("rows")) == 300+i*200 })
	}
	b.until("the breaker", opened.Load)
	if n := len(down.Records("rows")); n != 100 {
		t.Fatalf("the sink that is down has %d rows", n)
	}
	down.Up()
	b.until("all in the slow sink", func() bool { return len(down.Records("rows")) == 2100 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range down.Records("rows") {
		got[string(r.Value)]++
	}
	wantEach(t, "slow", got, 2100)
}

// A sink that keeps no verdicts gets nothing beyond a refusal before a decision
// holds it, and one that writes at the end of an epoch gives its refusals there.
func TestRefusalsOfOtherKinds(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	c := b.config()
	c.Restart.Max = -1 // what the contract forbids ends the pipeline
	c.Sinks = []engine.Sink{
		{Name: "rows", Sink: sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rows", Bare: true})},
		{Name: "db", Sink: sinktest.NewModelStaging(b.srv, sinktest.Options{Table: "db", Collect: true})},
	}
	cl := b.client()
	const n = 300
	for i := range n {
		v := fmt.Sprintf("v%d", i)
		if i%10 == 3 || i%10 == 4 {
			v = fmt.Sprintf("poison%d", i)
		}
		cl.Produce(t.Context(), &kgo.Record{Topic: "raw", Key: fmt.Appendf(nil, "k%d", i%17), Value: []byte(v)}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := b.run(c)
	good := n - n/5
	b.until("both", func() bool { return len(b.rows("rows")) == good && len(b.rows("db")) == good })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, l := range b.letters() {
		got[l.Sink+" "+string(l.Record.Value)]++
	}
	for i := range n {
		if i%10 != 3 && i%10 != 4 {
			continue
		}
		for _, s := range []string{"rows", "db"} {
			if k := fmt.Sprintf("%s poison%d", s, i); got[k] != 1 {
				t.Errorf("dead letter %q: %d times, want once", k, got[k])
			}
		}
	}
	if len(got) != 2*n/5 {
		t.Errorf("%d dead letters, want %d", len(got), 2*n/5)
	}
}

// A sink that is away at the takeover: one fed from the outbox opens its breaker,
// and the others go on; one of two phases pauses the task, which says so. Neither
// counts as a failure of the task.
func TestSinkAwayAtStart(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"outbox", "staging"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			away := sinktest.NewServer()
			c := b.config()
			c.Restart.Max = -1
			var slow sink.Sink = sinktest.NewModelOutbox(away, sinktest.Options{Table: "rows"})
			if kind == "staging" {
				slow = sinktest.NewModelStaging(away, sinktest.Options{Table: "rows"})
			}
			c.Sinks = []engine.Sink{
				{Name: "rows", Sink: sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rows"})},
				{Name: "slow", Sink: slow},
			}
			var mu sync.Mutex
			seen := map[engine.EventKind]int{}
			c.Events = func(e engine.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Sink == "slow" {
					seen[e.Kind]++
				}
			}
			saw := func(k engine.EventKind) func() bool {
				return func() bool {
					mu.Lock()
					defer mu.Unlock()
					return seen[k] > 0
				}
			}
			away.Down()
			stop := b.run(c)
			b.produce(0, 100)
			b.until("the breaker to open", saw(engine.BreakerOpened))
			if kind == "staging" {
				b.until("the task to be paused", saw(engine.TaskPaused))
			} else {
				b.until("the other sink", func() bool { return len(b.rows("rows")) == 100 })
			}
			away.Up()
			b.until("all in the slow sink", func() bool { return len(away.Records("rows")) == 100 })
			b.until("the breaker to close", saw(engine.BreakerClosed))
			away.Down() // and in the middle
			b.produce(100, 100)
			b.until("a failure", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return seen[engine.SinkFailed] > 1
			})
			away.Up()
			b.until("the rest in the slow sink", func() bool { return len(away.Records("rows")) == 200 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The outbox limit pauses reading, and reading goes on when the sink is back.
func TestOutboxLimitPauses(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	down := sinktest.NewServer()
	c := b.config()
	c.Outbox.MaxBytes = 20_000
	c.Sinks = []engine.Sink{
		{Name: "rows", Sink: sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rows"})},
		{Name: "slow", Sink: sinktest.NewModelOutbox(down, sinktest.Options{Table: "rows"})},
	}
	var full atomic.Bool
	c.Events = func(e engine.Event) {
		if e.Kind == engine.OutboxFull {
			full.Store(true)
		}
	}
	down.Down()
	stop := b.run(c)
	for i := 0; !full.Load() && i < 400; i++ {
		b.produce(i*20, 20)
		time.Sleep(10 * time.Millisecond)
	}
	if !full.Load() {
		t.Fatal("the limit was never reached")
	}
	down.Up()
	b.produce(100_000, 1)
	b.until("the last record", func() bool {
		rs := down.Records("rows")
		return len(rs) > 0 && string(rs[len(rs)-1].Value) == "v100000"
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A stager that stops short until it has staged gets room, and everything.
func TestStagerStopsShort(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	narrow := &narrowStager{ModelStager: sinktest.NewModelStager(b.srv, sinktest.Options{Table: "files"})}
	c.Sinks = []engine.Sink{{Name: "files", Sink: narrow}}
	stop := b.run(c)
	b.produce(0, 200)
	b.until("200 rows", func() bool { return len(b.rows("files")) == 200 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wantEach(t, "files", b.rows("files"), 200)
	if !narrow.short.Load() {
		t.Error("it never stopped short")
	}
}

// narrowStager takes 7 records between two stages.
type narrowStager struct {
	*sinktest.ModelStager
	short atomic.Bool
}

func (n *narrowStager) OpenOutbox(ctx context.Context, o sink.Owner, at sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	task, res, err := n.ModelStager.OpenOutbox(ctx, o, at)
	if err != nil {
		return nil, res, err
	}
	return &narrowTask{OutboxStager: task.(sink.OutboxStager), n: n}, res, nil
}

type narrowTask struct {
	sink.OutboxStager
	n     *narrowStager
	taken int
}

func (t *narrowTask) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	room := 7 - t.taken
	if room == 0 {
		t.n.short.Store(true)
		return sink.Result{Through: b.Prev}, nil
	}
	if len(b.Records) > room {
		b.Records = b.Records[:room]
		b.Through = b.Records[room-1].Pos
	}
	t.taken += len(b.Records)
	return t.OutboxStager.Apply(ctx, b)
}

func (t *narrowTask) Stage(ctx context.Context, now time.Time, force bool) ([]sink.Committable, error) {
	cs, err := t.OutboxStager.Stage(ctx, now, force)
	if len(cs) > 0 {
		t.taken = 0
	}
	return cs, err
}

// A task that fails for good stops the process with the cause, after as many
// restarts as the policy allows.
func TestRestartPolicy(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	c.Restart = engine.Restart{Max: 2, Delay: time.Millisecond}
	broken := sink.Fatal(errors.New("the disk is full for good"))
	var failures atomic.Int64
	c.Failpoints = failpoint.New(func(_ context.Context, at failpoint.Point, _ int32, _ int64) error {
		if at == failpoint.PrepareAfter {
			failures.Add(1)
			return broken
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- engine.New(c).Run(t.Context()) }()
	b.produce(0, 10)
	select {
	case err := <-done:
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "restart.max is 2") {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the worker did not stop")
	}
	if n := failures.Load(); n != 3 {
		t.Errorf("failed %d times, want 3: the first and two restarts", n)
	}
}

// The control: without the protocol the same crashes leave duplicates, and
// nothing is missing.
func TestAtLeastOnceDoubles(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	c.Guarantee = sink.AtLeastOnce
	stop := b.run(c)
	b.produce(0, 300)
	b.until("300 rows", func() bool {
		return len(b.rows("rows")) == 300 && len(b.rows("files")) == 300 && len(b.rows("db")) == 300
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// A crash between apply and commit, by a sink that fails for good once.
	c = b.config()
	c.Guarantee = sink.AtLeastOnce
	c.Restart = engine.Restart{Max: 5, Delay: time.Millisecond}
	c.Sinks = append(c.Sinks, engine.Sink{Name: "zz", Sink: &failsOnce{}})
	stop = b.run(c)
	b.produce(300, 100)
	doubled := func() bool {
		for _, n := range b.topic("out") {
			if n > 1 {
				return true
			}
		}
		return false
	}
	b.until("400 rows, and duplicates in the topic", func() bool { return len(b.rows("rows")) == 400 && doubled() })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// failsOnce is an outbox sink whose first Apply fails for good.
type failsOnce struct{ failed atomic.Bool }

func (f *failsOnce) Features() sink.Features     { return sink.Features{} }
func (f *failsOnce) Check(context.Context) error { return nil }
func (f *failsOnce) Close() error                { return nil }
func (f *failsOnce) OpenOutbox(_ context.Context, _ sink.Owner, at sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	return failsOnceTask{f}, sink.Resume{Through: at}, nil
}

type failsOnceTask struct{ f *failsOnce }

func (t failsOnceTask) Apply(_ context.Context, b sink.Batch) (sink.Result, error) {
	if t.f.failed.CompareAndSwap(false, true) {
		return sink.Result{Through: b.Prev}, sink.Fatal(errors.New("once"))
	}
	return sink.Result{Through: b.Through}, nil
}

func (t failsOnceTask) Close() error { return nil }

// A sink whose decided work cannot be committed waits at the bound of what may be
// pending; the others go on, and the journal's records stay small.
func TestStagerWaitsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	c.Sinks = c.Sinks[:3] // without the two-phase sink, whose work is in no outbox
	var commits atomic.Bool
	b.srv.Intercept(func(c sinktest.Call) sinktest.Outcome {
		if c.Op == "commit" && c.Owner.Sink == "files" && !commits.Load() {
			return sinktest.Refuse
		}
		return sinktest.Proceed
	})
	stop := b.run(c)
	const rounds = 150
	for i := range rounds {
		b.produce(i*2, 2)
		b.until("the other sink", func() bool { return len(b.rows("rows")) == (i+1)*2 })
	}
	if n := len(b.rows("files")); n != 0 {
		t.Fatalf("%d records are visible without a commit", n)
	}
	if n := b.srv.Staged(); n == 0 || n > 80 {
		t.Errorf("%d works are staged, want some, and about 64 at most", n)
	}
	commits.Store(true)
	b.until("the files", func() bool { return len(b.rows("files")) == rounds*2 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"rows", "files"} {
		wantEach(t, table, b.rows(table), rounds*2)
	}
	b.each("exactly.payments.g1.journal", func(r *kgo.Record) {
		if len(r.Value) > 64<<10 {
			t.Errorf("a journal record of %d bytes", len(r.Value))
		}
	})
}
