package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"exactly/internal/engine"
	"exactly/sink"
	"exactly/sinktest"
)

// observer is a sink that looks, before it applies a record, whether other sinks
// have it.
type observer struct {
	*sinktest.ModelOutbox
	look func(sink.Batch)
}

func (o *observer) OpenOutbox(ctx context.Context, owner sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	task, resume, err := o.ModelOutbox.OpenOutbox(ctx, owner, confirmed)
	return observerTask{task, o.look}, resume, err
}

type observerTask struct {
	sink.OutboxTask
	look func(sink.Batch)
}

func (t observerTask) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	t.look(b)
	return t.OutboxTask.Apply(ctx, b)
}

// follower is one that follows the others.
type follower struct {
	*observer
	names []string
}

func (f follower) Follows() []string { return f.names }

// TestFollower: a sink that follows others never has a record before them, although
// their calls fail half of the time, and although workers come and go; one that
// does not follow has.
func TestFollower(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		follows []string
		level   sink.Guarantee
	}{
		{"both", []string{"rows", "db"}, ""},
		{"a staging sink", []string{"db"}, ""},
		{"at least once", []string{"rows", "db"}, sink.AtLeastOnce},
		{"nobody", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 3)
			b.produce(0, 600)
			var calls, early atomic.Int64
			b.srv.Intercept(func(c sinktest.Call) sinktest.Outcome {
				if c.Owner.Sink != "rollup" && (c.Op == "apply" || c.Op == "commit") && calls.Add(1)%2 == 0 {
					return sinktest.Refuse
				}
				return sinktest.Proceed
			})
			look := func(batch sink.Batch) {
				rows, db := b.rows("rows"), b.rows("db")
				for _, r := range batch.Records {
					if rows[string(r.Value)] == 0 && !slices.Equal(tt.follows, []string{"db"}) || db[string(r.Value)] == 0 {
						early.Add(1)
					}
				}
			}
			c := b.config()
			c.Guarantee = tt.level
			roll := &observer{sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rollup"}), look}
			var s sink.Sink = roll
			if tt.follows != nil {
				s = follower{roll, tt.follows}
			}
			c.Sinks = []engine.Sink{{Name: "rollup", Sink: s}, c.Sinks[1], c.Sinks[3]} // before its leaders in the file
			for from := 600; from <= 900; from += 100 {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- engine.New(c).Run(ctx) }()
				b.until("rows of the first payments", func() bool { return len(b.rows("rollup")) >= from })
				b.produce(from, 100)
				cancel()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if tt.follows == nil {
				if early.Load() == 0 {
					t.Errorf("a sink that follows nobody was never ahead: the test cannot fail")
				}
				return
			}
			if n := early.Load(); n > 0 {
				t.Errorf("%d records came before their leaders had them", n)
			}
		})
	}
}

// TestFollowerRefused: what cannot be followed is said at the start.
func TestFollowerRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	roll := follower{&observer{sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rollup"}), nil}, nil}
	for name, want := range map[string]string{
		"nobody": "is no sink of this pipeline",
		"rollup": "is the sink itself",
		"out":    "inside of the Kafka transaction",
		"files":  "over many epochs",
		"other":  "follows other sinks itself",
	} {
		c := b.config()
		roll.names = []string{name}
		c.Sinks = append(c.Sinks, engine.Sink{Name: "rollup", Sink: roll}, engine.Sink{Name: "other", Sink: follower{roll.observer, []string{"rows"}}})
		err := engine.New(c).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "sink rollup: from: "+name+" ") || !strings.Contains(err.Error(), want) {
			t.Errorf("it follows %s: %v, want %q", name, err, want)
		}
		if errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
