package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"exactly/record"
	"exactly/sink"
)

// Outcome is what becomes of a request to a Server.
type Outcome int

// The outcomes.
const (
	Proceed    Outcome = iota // it is carried out and answered
	Refuse                    // it never arrives
	LoseAnswer                // it is carried out, the caller gets an error
)

// Call describes a request to a Server, for Intercept.
type Call struct {
	Op    string // "open", "apply", "write", "prepare", "stage", "commit", "abort", "sweep", "check"
	Owner sink.Owner
	Epoch int64 // of "apply" and "commit": the last one of which something becomes visible
}

// ErrUnreachable is what a model sink's caller gets, classed transient, when
// the server did not answer.
var ErrUnreachable = errors.New("the model server does not answer")

// Server is a service in memory that model sinks of many processes share. It
// is safe for concurrent use. Every request is atomic.
type Server struct {
	mu        sync.Mutex
	tables    map[string]*table
	ledgers   map[string]*modelLedger
	claims    map[string]string // pipeline and sink: incarnation
	sessions  map[workID][]record.Record
	staged    map[workID][]record.Record
	done      map[workID][]record.Record // positive marks
	down      bool
	intercept func(Call) Outcome
	defects   map[Defect]bool
	hoard     [][]byte // what a sink that leaks keeps for ever
}

// NewServer returns an empty server whose sinks have the given defects.
func NewServer(defects ...Defect) *Server {
	s := &Server{
		tables: map[string]*table{}, ledgers: map[string]*modelLedger{}, claims: map[string]string{},
		sessions: map[workID][]record.Record{}, staged: map[workID][]record.Record{},
		done: map[workID][]record.Record{}, defects: map[Defect]bool{},
	}
	for _, d := range defects {
		s.defects[d] = true
	}
	return s
}

// Down makes the server refuse every request until Up.
func (s *Server) Down() { s.setDown(true) }

// Up ends Down.
func (s *Server) Up() { s.setDown(false) }

func (s *Server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Kill loses what is not durable: the open sessions of staging sinks.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Intercept asks f about every request from now on; nil ends it. f must not
// call the server.
func (s *Server) Intercept(f func(Call) Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// SetFault makes one request fail; it replaces Intercept.
func (s *Server) SetFault(f Fault) {
	n := 0
	s.Intercept(func(Call) Outcome {
		if n++; n != f.Nth {
			return Proceed
		}
		if f.After {
			return LoseAnswer
		}
		return Refuse
	})
}

// Records lists what a reader of a table sees, in the order of visibility.
func (s *Server) Records(name string) []record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rs []record.Record
	for _, r := range s.table(name).rows {
		rs = append(rs, *r.rec)
	}
	return rs
}

// Rows is Records for records made by Make, with the number of writes.
func (s *Server) Rows(name string) ([]Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []Row
	for _, r := range s.table(name).rows {
		row, err := RowOf(*r.rec)
		if err != nil {
			return nil, err
		}
		row.Writes = r.writes
		rows = append(rows, row)
	}
	return rows, nil
}

// Staged counts the works that are staged and not finished.
func (s *Server) Staged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.staged)
}

// StagedWork names the works that are staged and not finished, for people.
func (s *Server) StagedWork() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for id := range s.staged {
		names = append(names, fmt.Sprintf("%+v", id))
	}
	slices.Sort(names)
	return names
}

// Holds tells what became of staged work: it waits for a commit, or it was
// committed.
func (s *Server) Holds(c sink.Committable) (waiting, committed bool, err error) {
	id, err := parseID(c)
	if err != nil {
		return false, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waiting = s.staged[id]
	_, committed = s.done[id]
	return waiting, committed, nil
}

// Through is how far the ledger of an outbox sink's task has come.
func (s *Server) Through(o sink.Owner) sink.Pos {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledgers[s.ledger(o)]
	switch {
	case l == nil:
		return sink.Pos{}
	case !l.refused.IsZero():
		return l.refused
	}
	return l.through
}

// ledger names the ledger of a task, all parts apart.
func (s *Server) ledger(o sink.Owner) string {
	if s.defects[GenerationIgnored] {
		return fmt.Sprintf("%q %q %d", o.Pipeline, o.Sink, o.Task)
	}
	if s.defects[OwnerByPrefix] {
		return fmt.Sprintf("%.3s/%.2s", o.Pipeline, o.Sink)
	}
	return fmt.Sprintf("%q %q %d %d", o.Pipeline, o.Sink, o.Generation, o.Task)
}

// do is one request.
func (s *Server) do(ctx context.Context, op string, o sink.Owner, f func() error) error {
	return s.show(ctx, op, o, 0, f)
}

// show is a request that makes something of the epochs up to the given one
// visible.
func (s *Server) show(ctx context.Context, op string, o sink.Owner, epoch int64, f func() error) error {
	if err := ctx.Err(); err != nil {
		return sink.Transient(fmt.Errorf("%s: %w", op, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Proceed
	switch {
	case s.down:
		out = Refuse
	case s.intercept != nil:
		out = s.intercept(Call{Op: op, Owner: o, Epoch: epoch})
	}
	if out == Refuse {
		return s.unreachable(op)
	}
	err := f()
	if out == LoseAnswer {
		return s.unreachable(op)
	}
	return err
}

// leak keeps a copy of records for ever, if the sinks have the defect.
func (s *Server) leak(d Defect, rs ...record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.defects[d] {
		return
	}
	for _, r := range rs {
		s.hoard = append(s.hoard, bytes.Clone(r.Value))
	}
}

func (s *Server) unreachable(op string) error {
	err := fmt.Errorf("%s: %w", op, ErrUnreachable)
	switch {
	case s.defects[DownIsPoison]:
		return sink.Poison("unreachable", err)
	case s.defects[DownIsSuccess]:
		return nil
	}
	return sink.Transient(err)
}

// claim marks the sink's place as that of o's incarnation.
func (s *Server) claim(o sink.Owner) error {
	place := fmt.Sprintf("%q %q", o.Pipeline, o.Sink)
	if inc, ok := s.claims[place]; ok && inc != o.Incarnation && !s.defects[ForeignMarkIgnored] {
		return fmt.Errorf("open %s of %s for incarnation %s: it belongs to %s: %w",
			o.Sink, o.Pipeline, o.Incarnation, inc, sink.ErrForeignMark)
	}
	s.claims[place] = o.Incarnation
	return nil
}

func (s *Server) table(name string) *table {
	t := s.tables[name]
	if t == nil {
		t = &table{byKey: map[string]*stored{}}
		s.tables[name] = t
	}
	return t
}

// table holds what readers see.
type table struct {
	rows  []*stored
	byKey map[string]*stored
}

type stored struct {
	rec    *record.Record
	writes int64
}

// put makes a record visible, in a keyed table by its key.
func (t *table) put(r *record.Record, keyed bool) {
	if !keyed {
		t.rows = append(t.rows, &stored{rec: r, writes: 1})
		return
	}
	key := string(r.Key)
	switch old := t.byKey[key]; {
	case r.Tombstone():
		t.remove(key)
	case old != nil:
		old.rec, old.writes = r, old.writes+1
	default:
		t.byKey[key] = &stored{rec: r, writes: 1}
		t.rows = append(t.rows, t.byKey[key])
	}
}

func (t *table) remove(key string) {
	old := t.byKey[key]
	delete(t.byKey, key)
	for i, r := range t.rows {
		if r == old {
			t.rows = append(t.rows[:i:i], t.rows[i+1:]...)
			return
		}
	}
}

// Options say what table a model sink writes to and what it takes.
type Options struct {
	Table string // default "rows"
	Keyed bool   // one row per record key, tombstones delete; else a row per record
	// Refuse gives the poison error of a record, nil where it is taken. nil:
	// records whose value holds the word "poison" are refused.
	Refuse func(*record.Record) error
	// RollRecords and RollAge say when an OutboxStager's work is ripe; both
	// zero: always.
	RollRecords int
	RollAge     int64 // milliseconds since the first record was taken in
	// Bare, of an outbox sink: it keeps no verdicts, as one without transactions.
	// It stops at a refused record, whose mark moves only once a decision holds
	// the verdict.
	Bare bool
	// Fences, of an outbox sink: an attempt whose successor has opened the sink
	// gets a transient error.
	Fences bool
	// Collect, of a staging sink: it is a sink.StagingFlusher.
	Collect bool
}

func (o Options) table() string {
	if o.Table == "" {
		return "rows"
	}
	return o.Table
}

func (o Options) refuse(r *record.Record) error {
	if o.Refuse != nil {
		return o.Refuse(r)
	}
	if strings.Contains(string(r.Value), "poison") {
		return sink.Poison("model_refused", fmt.Errorf("record %s is poison", r.Source))
	}
	return nil
}

func (o Options) features() sink.Features {
	return sink.Features{Deletes: o.Keyed, Keyless: !o.Keyed, DurableVerdicts: !o.Bare, Rejects: true}
}
