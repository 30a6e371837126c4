package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"exactly/record"
	"exactly/step"
)

// Plan says what to audit. Everything it holds is made anew for the audit and
// shared with no running pipeline.
type Plan struct {
	Kafka  []kgo.Opt // how to reach the cluster
	Topics []string  // of the source
	// Since is where the pipeline began, in Unix milliseconds; 0: at the
	// earliest record.
	Since int64

	Steps      step.Chain
	Unverified []string // top-level fields that come from `epoch`; "*": all
	Notes      []string // for the report

	Sinks []Sink
	// Dead reads the dead letters; nil: there are none.
	Dead DeadReader

	Findings int // to keep per sink and kind; 0: 20
	// Progress is told now and then what is being read and how many records of
	// it are done. nil: nobody. It may be called from several goroutines.
	Progress func(what string, records int64)
}

// Sink is one sink under audit.
type Sink struct {
	Name, Kind string
	Table      string // of several that the sink writes to, "": it has one place
	// Where keeps the records that go to the sink; nil: all.
	Where func(*record.Record) (bool, error)
	// Map gives what the sink makes of a record before it writes it; nil: the
	// record itself. An error means that the sink refuses it.
	Map func(dst []record.Record, r *record.Record) ([]record.Record, error)
	// Routes: Map is asked before any sink gets the record, as Where is of every
	// sink: its error makes one dead letter, in place of all effects. Else only
	// this sink goes without.
	Routes bool
	// ID identifies a record as Map gives it; nil: its value does. It is applied
	// to what the source gives, and to what the sink holds if Held.ID is nil.
	ID func(*record.Record) ([]byte, error)
	// TombstoneID identifies what a tombstone deletes; nil: its key as it is.
	TombstoneID func(key []byte) ([]byte, error)
	Reader      Reader
}

// title names it in reports.
func (s *Sink) title() string {
	if s.Table == "" {
		return s.Name
	}
	return s.Name + ": " + s.Table
}

// ErrRead: source, dead letters or a sink cannot be read, so nothing is known.
var ErrRead = errors.New("cannot read")

// epoch is what the steps see as epoch; nothing that depends on it is
// compared.
var epoch = step.Epoch{Number: 1, Attempt: 1, Time: time.Unix(0, 0).UTC()}

// sinkState is a sink with what it must hold.
type sinkState struct {
	name  string
	sink  Sink
	shape Shape
	canon *canon
	table table
	// Of the record at work.
	keep   bool // it goes to the sink
	mapped []record.Record
	buf    []byte
}

// Run audits. It blocks until everything is read. An error means that the
// audit could not be made (ErrRead where something is out of reach); what was
// found wrong is in the report.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if p.Findings == 0 {
		p.Findings = 20
	}
	if p.Progress == nil {
		p.Progress = func(string, int64) {}
	}
	sinks, err := p.shapes(ctx)
	if err != nil {
		return nil, err
	}
	src, err := p.readSource(ctx, sinks)
	if err != nil {
		return nil, err
	}
	dead, err := p.readDead(ctx, src)
	if err != nil {
		return nil, err
	}
	rep := &Report{Source: src.records, Partitions: len(src.parts), Unverified: p.Unverified, Notes: append(slices.Clone(p.Notes), src.notes...)}
	rep.Sinks = make([]Row, len(sinks))
	var g errgroup.Group
	g.SetLimit(2)
	for i, s := range sinks {
		g.Go(func() error { return p.compare(ctx, s, &rep.Sinks[i], src.parts, dead) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if p.Dead != nil {
		rep.Sinks = append(rep.Sinks, dead.row(src, p.Findings))
	}
	return rep, nil
}

func (p *Plan) shapes(ctx context.Context) ([]*sinkState, error) {
	var sinks []*sinkState
	for _, s := range p.Sinks {
		shape, err := s.Reader.Shape(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w sink %s: %w", ErrRead, s.Name, err)
		}
		st := &sinkState{name: s.Name, sink: s, shape: shape, canon: newCanon(shape, p.Unverified)}
		st.table.mode, st.table.any = shape.Mode, shape.Any
		sinks = append(sinks, st)
	}
	return sinks, nil
}

func (p *Plan) compare(ctx context.Context, s *sinkState, row *Row, parts []partition, dead *deadLetters) error {
	*row = Row{Sink: s.sink.title(), Kind: s.sink.Kind, Notes: s.shape.Notes, kinds: map[Kind]int{}}
	c := comparison{
		sink: s, row: row, limit: p.Findings, parts: parts,
		last: map[streamPart]place{}, orphan: map[hash]int64{},
	}
	dead.mark(s)
	err := s.sink.Reader.Read(ctx, func(h *Held) error {
		if row.Total%1000 == 999 {
			p.Progress(s.sink.title(), row.Total+1)
		}
		return c.held(h)
	})
	if err != nil {
		return fmt.Errorf("%w sink %s: %w", ErrRead, s.name, err)
	}
	p.Progress(s.sink.title(), row.Total)
	c.finish()
	return nil
}

// expectedID is the identity of what the source gives. A tombstone has no
// fields: its key is all that names it. A record that the sink's identity does
// not fit is identified by its value.
func (s *sinkState) expectedID(r *record.Record) []byte {
	if r.Tombstone() {
		if s.sink.TombstoneID != nil {
			if id, err := s.sink.TombstoneID(r.Key); err == nil {
				return id
			}
		}
		return r.Key
	}
	if s.sink.ID != nil {
		if id, err := s.sink.ID(r); err == nil {
			return id
		}
	}
	return s.canon.value(nil, r.Value)
}

func (s *sinkState) heldID(h *Held) []byte {
	if h.ID != nil {
		return h.ID
	}
	return s.expectedID(&h.Record)
}

// ask is the first of two passes over a record that the steps gave: whether the
// sink wants it. An error is in place of all effects.
func (s *sinkState) ask(r *record.Record) (err error) {
	s.keep = false
	if r.Tombstone() && !s.shape.Deletes {
		return nil
	}
	if s.sink.Where != nil {
		if ok, err := s.sink.Where(r); err != nil || !ok {
			return err
		}
	}
	s.keep = true
	if s.sink.Routes && s.sink.Map != nil {
		s.mapped, err = s.sink.Map(s.mapped[:0], r)
	}
	return err
}

// expect takes the record in, if the sink wants it. Its error is that of Map.
func (s *sinkState) expect(r *record.Record, part uint16) (err error) {
	switch {
	case !s.keep:
		return nil
	case s.sink.Map == nil:
		s.mapped = append(s.mapped[:0], *r)
	case !s.sink.Routes:
		if s.mapped, err = s.sink.Map(s.mapped[:0], r); err != nil {
			return err
		}
	}
	for i := range s.mapped {
		m := &s.mapped[i]
		id := s.expectedID(m)
		s.buf = s.canon.value(s.buf[:0], m.Value)
		e := entry{id: sum(id), value: sum(s.buf), part: part, offset: r.Source.Offset, sub: uint32(r.Sub)}
		if m.Tombstone() {
			e.fate = fateDeleted
		}
		s.table.add(e)
	}
	return nil
}

// refused asks every sink, those first that route, and gives the first that
// cannot deal with the record.
func refused(sinks []*sinkState, r *record.Record) (by string, err error) {
	for _, routes := range []bool{true, false} {
		for _, s := range sinks {
			if s.sink.Routes != routes {
				continue
			}
			if err := s.ask(r); err != nil {
				return s.name, err
			}
		}
	}
	return "", nil
}
