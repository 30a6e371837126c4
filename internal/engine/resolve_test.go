package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"exactly/internal/broker"
	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/sinktest"
)

var errDied = sink.Fatal(errors.New("died"))

// resolvable has an outbox sink and two that stage, one before the decision.
func (b *bench) resolvable() engine.Config {
	c := b.config()
	c.Dir = ""
	return c
}

// deadOf leaves decided work of task 0 that is not committed and not applied, and
// staged work that is not decided.
func (b *bench) deadOf() {
	b.t.Helper()
	c := b.resolvable()
	var held atomic.Bool
	var applying atomic.Int64 // of the two sinks that read the outbox
	waits := func(epoch int64) bool {
		return slices.ContainsFunc(b.srv.StagedWork(), func(name string) bool {
			return strings.Contains(name, fmt.Sprintf("Sink:db Generation:1 Task:0 Attempt:1 Epoch:%d ", epoch))
		})
	}
	c.Failpoints = failpoint.New(func(ctx context.Context, p failpoint.Point, task int32, epoch int64) error {
		switch {
		case task != 0:
		case p == failpoint.CommitBefore:
			held.Store(true)
			<-ctx.Done()
			return ctx.Err()
		case p == failpoint.ApplyBefore && held.Load():
			applying.Add(1)
			<-ctx.Done()
			return ctx.Err()
		case p == failpoint.PrepareAfter && applying.Load() == 2 && waits(epoch):
			return errDied
		}
		return nil
	})
	died := make(chan error, 1)
	go func() { died <- engine.New(c).Run(b.t.Context()) }()
	for n := 0; ; n += 20 {
		b.produce(n, 20)
		b.made = n + 20
		select {
		case err := <-died:
			if !errors.Is(err, errDied) {
				b.t.Fatalf("the worker ended with %v, not where it was to", err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (b *bench) resolve(c engine.Config, o engine.ResolveOptions) engine.ResolveResult {
	b.t.Helper()
	res, err := engine.New(c).Resolve(b.t.Context(), o)
	if err != nil {
		b.t.Fatalf("resolve: %v", err)
	}
	return res
}

// fates counts what a takeover would do.
func fates(res engine.ResolveResult) map[engine.Fate]int64 {
	m := map[engine.Fate]int64{}
	for _, f := range res.Staged {
		m[f.Fate]++
	}
	return m
}

// strange counts the foreign work that is of no sink of the pipeline: that of the
// stager is on the same server, and it is no Observer.
func strange(res engine.ResolveResult) (n int) {
	for _, f := range res.Foreign {
		if strings.Contains(f.Name, "payments2") {
			n++
		}
	}
	return n
}

// sum adds the rows of a sink.
func sum(res engine.ResolveResult, name string) (s engine.ResolvedTask) {
	for _, r := range res.Rows {
		if r.Sink == name {
			s.Found, s.Committed, s.RolledBack, s.Applied = s.Found+r.Found, s.Committed+r.Committed, s.RolledBack+r.RolledBack, s.Applied+r.Applied
		}
	}
	return s
}

// TestResolve: what the dead left is finished as the journal says, and nobody else's
// is touched; no further source record is read. A worker goes on afterwards.
func TestResolve(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.deadOf()
	// A pipeline whose name ours is the beginning of.
	other, err := sinktest.NewModelStaging(b.srv, sinktest.Options{Table: "other"}).OpenStaging(t.Context(), sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "payments2", Sink: "db", Generation: 1, Tasks: 2, Attempt: 1,
	})
	if err == nil {
		if err = other.Write(t.Context(), 1, []record.Record{{Value: []byte("x")}}); err == nil {
			_, err = other.Prepare(t.Context(), 1)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	staged, shown := b.srv.Staged(), len(b.rows("db"))

	dry := b.resolve(b.resolvable(), engine.ResolveOptions{DryRun: true})
	would := fates(dry)
	if would[engine.FateCommit] == 0 || would[engine.FateRollBack] == 0 || would[engine.FateUnknown] != 0 || strange(dry) != 1 {
		t.Fatalf("dry run: %v and %d foreign, want work of both fates and one foreign: %+v", would, strange(dry), dry)
	}
	if b.srv.Staged() != staged || len(b.rows("db")) != shown {
		t.Error("the dry run changed something")
	}

	// The sink is away: it says so and loses nothing.
	b.srv.Down()
	if _, err := engine.New(b.resolvable()).Resolve(t.Context(), engine.ResolveOptions{}); !errors.As(err, new(engine.StartError)) || !errors.Is(err, sinktest.ErrUnreachable) {
		t.Errorf("with the sink away: got %v, want that it is unreachable", err)
	}
	b.srv.Up()

	// It dies in the middle, and is called again.
	c := b.resolvable()
	c.Failpoints = failpoint.New(func(_ context.Context, p failpoint.Point, _ int32, _ int64) error {
		if p == failpoint.ClaimAfter {
			return errDied
		}
		return nil
	})
	if res, err := engine.New(c).Resolve(t.Context(), engine.ResolveOptions{}); !errors.Is(err, errDied) || len(res.Staged) == 0 {
		t.Errorf("a resolve that dies: got %v and %d left, want the cause and what is left", err, len(res.Staged))
	}

	out := len(b.topic("out"))
	res := b.resolve(b.resolvable(), engine.ResolveOptions{})
	db, rows := sum(res, "db"), sum(res, "rows")
	if db.Found != int64(len(dry.Staged)) || db.Committed != would[engine.FateCommit] || db.RolledBack != would[engine.FateRollBack] {
		t.Errorf("got %+v, the dry run said %v", db, would)
	}
	if rows.Applied == 0 || len(res.Staged) != 0 || strange(res) != 1 {
		t.Errorf("%d applied, %d left, %d foreign; want some, none, one", rows.Applied, len(res.Staged), strange(res))
	}
	if now := len(b.topic("out")); now != out {
		t.Errorf("the output went from %d to %d records: a source was read", out, now)
	}
	for _, table := range []string{"rows", "db"} {
		wantEach(t, table, b.rows(table), out) // all that is decided, and nothing else
	}
	// Again, there is nothing to do.
	if res := b.resolve(b.resolvable(), engine.ResolveOptions{}); sum(res, "db") != (engine.ResolvedTask{}) || sum(res, "rows") != (engine.ResolvedTask{}) {
		t.Errorf("a second resolve did something: %+v", res.Rows)
	}

	stop := b.run(b.config())
	b.until("all rows", func() bool {
		return len(b.rows("rows")) == b.made && len(b.rows("db")) == b.made && len(b.rows("files")) == b.made
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"rows", "db", "files"} {
		wantEach(t, table, b.rows(table), b.made)
	}
	if left := b.srv.StagedWork(); len(left) != 1 || !strings.Contains(left[0], "payments2") {
		t.Errorf("staged are %v, want the work of the other pipeline", left)
	}
}

// TestResolveRefuses: while a worker runs, for a pipeline that never ran, and with a
// sink that is missing. To look is allowed.
func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	refused := func(step string, c engine.Config, want broker.Code) {
		t.Helper()
		if _, err := engine.New(c).Resolve(t.Context(), engine.ResolveOptions{}); broker.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %s", step, err, want)
		}
	}
	refused("never ran", b.resolvable(), broker.CodeMetaUnreadable)
	c := b.resolvable()
	c.Guarantee = sink.AtLeastOnce
	b.produce(0, 50)
	stop := b.run(b.config())
	b.until("50 rows", func() bool { return len(b.rows("db")) == 50 })
	refused("a worker runs", b.resolvable(), broker.CodeWorkersRun)
	if res := b.resolve(b.resolvable(), engine.ResolveOptions{DryRun: true}); len(res.Workers) != 1 {
		t.Errorf("a dry run beside a worker: got workers %v", res.Workers)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	refused("at least once", c, broker.CodeConfig)
	c = b.resolvable()
	c.Sinks = c.Sinks[:3]
	refused("sink missing", c, broker.CodeMetaConflict)
}

// TestObserved: a worker tells what is staged in a sink, whoever left it there; a
// system that does not answer disturbs nothing.
func TestObserved(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 10)
	c := b.config()
	c.ObserveEvery = 5 * time.Millisecond
	var most, failed atomic.Int64
	c.Events = func(e engine.Event) {
		switch {
		case e.Kind != engine.SinkStaged || e.Sink != "db":
		case e.Err != nil:
			failed.Add(1)
		default:
			most.Store(max(most.Load(), e.N))
		}
	}
	hold := make(chan struct{})
	c.Failpoints = failpoint.New(func(ctx context.Context, p failpoint.Point, _ int32, _ int64) error {
		if p == failpoint.CommitBefore {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return nil
	})
	stop := b.run(c)
	b.until("staged work to be seen", func() bool { return most.Load() > 0 })
	close(hold)
	b.srv.Down()
	b.until("the sink to be away", func() bool { return failed.Load() > 2 })
	b.srv.Up()
	b.until("10 rows", func() bool { return len(b.rows("db")) == 10 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestResolveRace: two commands and a worker at once. Each fences the others, whoever
// is fenced says so, and everything is there once.
func TestResolveRace(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.deadOf()
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := engine.New(b.resolvable()).Resolve(t.Context(), engine.ResolveOptions{Wait: 20 * time.Second})
			done <- err
		}()
	}
	stop := b.run(b.config())
	for range 2 {
		if err := <-done; err != nil {
			t.Logf("a resolve that was not alone: %v", err)
			if errors.Is(err, sink.ErrLost) {
				t.Error("decided work was lost")
			}
		}
	}
	b.until("all rows", func() bool {
		return len(b.rows("rows")) == b.made && len(b.rows("db")) == b.made && len(b.rows("files")) == b.made
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"rows", "db", "files"} {
		wantEach(t, table, b.rows(table), b.made)
	}
	for _, name := range b.srv.StagedWork() { // a fenced stager's may come late, and waits for the next sweep
		if strings.Contains(name, "Sink:db") {
			t.Errorf("left: %s", name)
		}
	}
}
