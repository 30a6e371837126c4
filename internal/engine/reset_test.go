package engine_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/engine"
)

// TestResetIsTheRemedy: what a start refuses with the word to reset, a reset
// gets over.
func TestResetIsTheRemedy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		harm func(b *bench, adm *kadm.Client) error
		code broker.Code
		to   string
	}{
		"offsets moved by hand": {func(b *bench, adm *kadm.Client) error {
			var to kadm.Offsets
			to.AddOffset("raw", 0, 1, -1)
			return adm.CommitAllOffsets(b.t.Context(), "exactly.payments", to)
		}, broker.CodeOffsetsMoved, ""},
		"source made again": {func(b *bench, adm *kadm.Client) error {
			if _, err := adm.DeleteTopic(b.t.Context(), "raw"); err != nil {
				return err
			}
			_, err := adm.CreateTopic(b.t.Context(), 1, 1, nil, "raw")
			return err
		}, broker.CodeTopicRecreated, "earliest"},
		"journal deleted": {func(b *bench, adm *kadm.Client) error {
			_, err := adm.DeleteTopic(b.t.Context(), "exactly.payments.g1.journal")
			return err
		}, broker.CodeJournalLost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			b.t = t
			b.produce(0, 100)
			stop := b.run(b.config())
			b.until("100 rows", func() bool { return len(b.rows("rows")) == 100 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := tt.harm(b, kadm.NewClient(b.client())); err != nil {
				t.Fatal(err)
			}
			if err := engine.New(b.config()).Run(t.Context()); broker.CodeOf(err) != tt.code {
				t.Fatalf("start: got %v, want %s", err, tt.code)
			}
			if _, err := engine.New(b.config()).Reset(t.Context(), engine.ResetOptions{To: tt.to}); err != nil {
				t.Fatalf("reset: %v", err)
			}
			// Once more, as after a crash of the command: the new generation has
			// not begun.
			if _, err := engine.New(b.config()).Reset(t.Context(), engine.ResetOptions{To: tt.to}); err != nil {
				t.Fatalf("second reset: %v", err)
			}
			b.produce(100, 50)
			stop = b.run(b.config())
			b.until("150 rows", func() bool { return len(b.rows("rows")) == 150 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			wantEach(t, "rows", b.rows("rows"), 150)
			wantEach(t, "out", b.topic("out"), 150)
		})
	}
}

// TestResetAfterRefusal: the last records of the outbox are refused by every
// sink, so that a stager has nothing to stage for them.
func TestResetAfterRefusal(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 20)
	stop := b.run(b.config())
	b.until("20 records in files", func() bool { return len(b.rows("files")) == 20 })
	if err := b.client().ProduceSync(t.Context(), &kgo.Record{Topic: "raw", Value: []byte("poison")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	b.until("it came through", func() bool { return b.topic("out")["poison"] == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.New(b.config()).Reset(t.Context(), engine.ResetOptions{Wait: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if n := b.topic("payments.dlq")["poison"]; n != 3 {
		t.Errorf("%d dead letters, want one of each sink that can refuse", n)
	}
}

// A reset gives up nothing but what a sink that is gone has not applied, and
// looks at its flags before it ends anything.
func TestResetRefusesFlags(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 50)
	stop := b.run(b.config())
	b.until("50 rows", func() bool { return len(b.rows("rows")) == 50 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]engine.ResetOptions{
		"a sink of the file":  {DropSinks: []string{"rows"}},
		"a sink that is none": {DropSinks: []string{"nosuch"}},
		"a position":          {To: "yesterday"},
	} {
		if _, err := engine.New(b.config()).Reset(t.Context(), o); broker.CodeOf(err) != broker.CodeConfig {
			t.Errorf("%s: got %v", name, err)
		}
	}
	topics, err := kadm.NewClient(b.client()).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if topics.Has("exactly.payments.g2.journal") {
		t.Error("a refused reset began a generation")
	}
	c := b.config()
	c.Sinks = c.Sinks[:1]
	if _, err := engine.New(c).Reset(t.Context(), engine.ResetOptions{DropSinks: []string{"rows", "files", "db"}}); err != nil {
		t.Errorf("sinks that are gone: %v", err)
	}
}
