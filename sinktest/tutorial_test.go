package sinktest_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"exactly/sink"
	"exactly/sinktest"
)

// store is the database of the tutorial's sink: rows, and marks that change
// together with them.
type store struct {
	mu     sync.Mutex
	rows   []sinktest.Row
	claims map[place]string // incarnations
	marks  map[mark]sink.Pos
}

type place struct{ pipeline, sink string }

type mark struct {
	place
	generation, task int32
}

func newStore() *store { return &store{claims: map[place]string{}, marks: map[mark]sink.Pos{}} }

// open says how far the task has come.
func (s *store) open(o sink.Owner, confirmed sink.Pos) (sink.Pos, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := place{o.Pipeline, o.Sink}
	if inc, ok := s.claims[p]; ok && inc != o.Incarnation {
		return confirmed, sink.ErrForeignMark
	}
	s.claims[p] = o.Incarnation
	m := mark{p, o.Generation, o.Task}
	at, ok := s.marks[m]
	switch {
	case !ok && o.Fresh, o.Guarantee == sink.AtLeastOnce:
		at = confirmed
	case at.Before(confirmed):
		return confirmed, sink.ErrLedgerBehind
	}
	s.marks[m] = at
	return at, nil
}

// transact writes what the mark has not passed, and the mark.
func (s *store) transact(o sink.Owner, b sink.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := mark{place{o.Pipeline, o.Sink}, o.Generation, o.Task}
	at := s.marks[m]
	if at.Before(b.Prev) {
		return sink.ErrLedgerBehind
	}
	for _, r := range b.Records {
		if !at.Before(r.Pos) {
			continue // by an attempt whose answer was lost
		}
		row, err := sinktest.RowOf(r.Record)
		if err != nil {
			return err
		}
		s.rows = append(s.rows, row)
	}
	if at.Before(b.Through) {
		s.marks[m] = b.Through
	}
	return nil
}

func (s *store) read() []sinktest.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sinktest.Row(nil), s.rows...)
}

// rowSink is the tutorial's outbox sink.
type rowSink struct{ db *store }

func (rowSink) Features() sink.Features     { return sink.Features{Keyless: true} }
func (rowSink) Check(context.Context) error { return nil }
func (rowSink) Close() error                { return nil }

func (s rowSink) OpenOutbox(_ context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	at, err := s.db.open(o, confirmed)
	return rowTask{s.db, o}, sink.Resume{Through: at}, err
}

type rowTask struct {
	db *store
	o  sink.Owner
}

func (t rowTask) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	nothing := sink.Result{Through: b.Prev}
	if err := t.o.Failpoints.Hit(ctx, sink.BeforeCommit, t.o.Task, b.Through.Epoch); err != nil {
		return nothing, sink.Transient(err)
	}
	if err := t.db.transact(t.o, b); err != nil {
		return nothing, err
	}
	if err := t.o.Failpoints.Hit(ctx, sink.AfterCommit, t.o.Task, b.Through.Epoch); err != nil {
		return nothing, sink.Transient(err)
	}
	return sink.Result{Through: b.Through}, nil
}

func (rowTask) Close() error { return nil }

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Subject{
		Open: func(sinktest.TB, string) sinktest.Target {
			db := newStore() // a database of its own for each scenario
			return sinktest.Target{
				New:      func(sinktest.TB) sink.Sink { return rowSink{db} }, // as a new process would open it
				Read:     func(sinktest.TB) []sinktest.Row { return db.read() },
				InMemory: true, // a real one is not
			}
		},
	})
}

// TestTutorial: the Go in the tutorial is that above, word for word, and needs
// nothing that other modules cannot import.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("tutorial_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if internal := "exactly/" + "internal"; strings.Contains(string(code), internal) {
		t.Errorf("tutorial_test.go imports %s", internal)
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(snippets) < 2 {
		t.Errorf("%d snippets of Go, want the sink and its test", len(snippets))
	}
	for _, m := range snippets {
		if !strings.Contains(string(code), "\n"+string(m[1])) {
			t.Errorf("not in tutorial_test.go:\n%s", m[1])
		}
	}
}
