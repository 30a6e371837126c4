package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"exactly/internal/broker"
	"exactly/internal/engine"
	"exactly/sink"
	"exactly/sinktest"
)

// runFails runs a worker that is to refuse.
func (b *bench) runFails(c engine.Config) error {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- engine.New(c).Run(b.t.Context()) }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		b.t.Fatal("the worker did not refuse")
		return nil
	}
}

// A journal topic that was deleted would be made again, empty, and the source
// be read anew: the group's offsets tell that the pipeline has run.
func TestDeletedJournalIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	stop := b.run(b.config())
	b.produce(0, 50)
	b.until("50 rows", func() bool { return len(b.rows("rows")) == 50 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(b.client()).DeleteTopics(t.Context(), "exactly.payments.g1.journal"); err != nil {
		t.Fatal(err)
	}
	err := b.runFails(b.config())
	if broker.CodeOf(err) != broker.CodeJournalLost {
		t.Fatalf("got %v", err)
	}
	if n := len(b.rows("rows")); n != 50 {
		t.Errorf("%d rows after a refused start", n)
	}
}

// A mark beyond everything that was ever decided was moved by hand, or belongs
// to another journal: what comes up to it would be skipped.
func TestMarkAheadOfTheJournalIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	ahead := &aheadSink{ModelOutbox: sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rows"})}
	c.Sinks = []engine.Sink{{Name: "rows", Sink: ahead}}
	if err := b.runFails(c); !errors.Is(err, sink.ErrForeignMark) {
		t.Fatalf("got %v", err)
	}
}

// A reset begins the next generation where the old one stopped, or elsewhere,
// with another number of tasks; nothing is lost or repeated in between.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, g := range []sink.Guarantee{sink.ExactlyOnce, sink.AtLeastOnce} {
		t.Run(string(g), func(t *testing.T) {
			b := newBench(t, 4)
			c := b.config()
			c.Guarantee = g
			stop := b.run(c)
			b.produce(0, 100)
			all := func(n int) func() bool {
				return func() bool {
					return len(b.srv.Records("rows")) == n && len(b.srv.Records("db")) == n && len(b.srv.Records("files")) == n
				}
			}
			b.until("100", all(100))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			next := b.config()
			next.Guarantee, next.Tasks = g, 2
			res, err := engine.New(next).Reset(t.Context(), engine.ResetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if res.Generation != 2 || res.Tasks != 2 {
				t.Errorf("got %+v", res)
			}
			stop = b.run(next)
			b.produce(100, 100)
			b.until("200", all(200))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := engine.New(next).Reset(t.Context(), engine.ResetOptions{To: "earliest"}); err != nil {
				t.Fatal(err)
			}
			stop = b.run(next)
			b.until("all again", all(400))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// aheadSink stands where nothing was decided yet.
type aheadSink struct{ *sinktest.ModelOutbox }

func (s *aheadSink) OpenOutbox(ctx context.Context, o sink.Owner, at sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	task, res, err := s.ModelOutbox.OpenOutbox(ctx, o, at)
	res.Through = sink.Pos{Epoch: 99}
	return task, res, err
}

// wrongSink has a mistake in its settings that only its system can see.
type wrongSink struct{ *sinktest.ModelOutbox }

var errWrong = errors.New("table: recrods does not exist")

func (s *wrongSink) Check(context.Context) error { return sink.Fatal(errWrong) }

// A start that is refused for a sink leaves the pipeline as it was: neither a first
// one nor one that adds the sink fixes a name that was a mistake.
func TestRefusedSinkLeavesTheIdentityAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	right := b.config()
	wrong := right
	wrong.Sinks = append(slices.Clone(right.Sinks), engine.Sink{Name: "typo", Sink: &wrongSink{sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "typo"})}})
	nowhere := right
	nowhere.Sinks = append(slices.Clone(right.Sinks), engine.Sink{Name: "nowhere", Sink: copyTo("otu")})
	refused := func(when string) {
		t.Helper()
		if err := b.runFails(wrong); !errors.Is(err, errWrong) {
			t.Fatalf("%s, a sink that is wrong: got %v", when, err)
		}
		if err := b.runFails(nowhere); broker.CodeOf(err) != broker.CodeTopicMissing {
			t.Fatalf("%s, a topic that is missing: got %v", when, err)
		}
	}
	refused("at the first start")
	stop := b.run(right)
	b.produce(0, 20)
	b.until("20 rows", func() bool { return len(b.rows("rows")) == 20 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	refused("added later")
	stop = b.run(right)
	b.produce(20, 20)
	b.until("40 rows", func() bool { return len(b.rows("rows")) == 40 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
