package sinktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"exactly/record"
	"exactly/sink"
)

// Subject is a sink under test.
type Subject struct {
	// Open gives a fresh target that nothing else writes to. Required.
	Open func(t TB, variant string) Target
	// Variants are settings of the sink that each get the whole suite; Open is
	// called with one of them. nil: one, "".
	Variants []string
	// Only names the scenarios to run. nil: all that fit.
	Only []string
	// Serial: targets share something, so that scenarios must not run at once.
	Serial bool
	// Rounds of each race. 0: 200.
	Rounds int
	// Large is how many records the large batch has. 0: 20,000.
	Large int
	// Marks says what the target remembers. The zero value demands all that
	// the contract asks for.
	Marks Marks
}

// Marks tells what a target cannot remember by its nature.
type Marks struct {
	// NoLedger: the target tells nobody how far it has come, so that a gap
	// cannot be seen (HTTP: each call has a key of its own).
	NoLedger bool
	// NoIncarnation: nothing that a start could read says whose the target is.
	NoIncarnation bool
}

// Target is one isolated table, topic, folder or service, and how to look at
// it.
type Target struct {
	// New builds the sink as a new process would. It may be called any number
	// of times; the suite closes what it got at the end of the scenario.
	// Required.
	New func(t TB) sink.Sink
	// Read gives what an ordinary reader sees at this moment: in the order of
	// the target where it keeps one (Features.Keyless), else in any. Required,
	// except for Transactional sinks.
	Read func(t TB) []Row
	// Make builds the record that leads to the row of s. nil: JSON, see Make.
	Make func(s Spec) record.Record
	// Poison builds a record that the target refuses for good. Required where
	// Features.Rejects.
	Poison func(s Spec) record.Record
	// Down makes the service unreachable, Up reachable again. Both or none.
	Down, Up func(t TB)
	// Kill ends the service without warning and starts it again. Optional.
	Kill func(t TB)
	// SetFault makes one request to the service fail. Optional.
	SetFault func(t TB, f Fault)
	// InMemory: what the target holds lies in the memory of the test, so that
	// the test's growth says nothing about the sink.
	InMemory bool
}

// Fault is one failing request.
type Fault struct {
	Nth   int  // which request from now on, from 1; 0: none, what was set before is off
	After bool // it was carried out, only its answer is lost
}

// Row is one effect of a record on a target.
type Row struct {
	ID    string
	Value int64
	Extra string
	// Writes counts how often the row was written, where the target can tell;
	// 0: it can't.
	Writes int64
}

func (r Row) String() string { return fmt.Sprintf("{%s %d %.80q}", r.ID, r.Value, r.Extra) }

// Spec is what a record shall say.
type Spec struct {
	ID        string // the key
	Value     int64
	Extra     string
	Tombstone bool // delete the row of ID
}

// Make is the default record: key ID and value {"id":…,"value":…,"extra":…}.
func Make(s Spec) record.Record {
	r := record.Record{Key: []byte(s.ID), Timestamp: 1_700_000_000_000 + s.Value}
	if s.Tombstone {
		return r
	}
	v, err := json.Marshal(struct {
		ID    string `json:"id"`
		Value int64  `json:"value"`
		Extra string `json:"extra"`
	}{s.ID, s.Value, s.Extra})
	if err != nil {
		panic(err) // three plain fields
	}
	r.Value = v
	return r
}

// RowOf reads a record made by Make, the way a sink of a Subject would.
func RowOf(r record.Record) (Row, error) {
	var v struct {
		ID    string `json:"id"`
		Value int64  `json:"value"`
		Extra string `json:"extra"`
	}
	d := json.NewDecoder(bytes.NewReader(r.Value))
	if err := d.Decode(&v); err != nil {
		return Row{}, fmt.Errorf("read record %s: %w", r.Source, err)
	}
	return Row{ID: v.ID, Value: v.Value, Extra: v.Extra}, nil
}

// Run runs the suite against s: one subtest per variant and scenario. Some measure
// the memory of the process: call it without t.Parallel before it.
func Run(t *testing.T, s Subject) {
	t.Helper()
	RunTB(Wrap(t), s)
}

// RunTB is Run for any TB.
func RunTB(t TB, s Subject) {
	t.Helper()
	if s.Open == nil {
		t.Fatalf("sinktest: Subject.Open is missing")
	}
	if s.Rounds == 0 {
		s.Rounds = 200
	}
	if s.Large == 0 {
		s.Large = 20_000
	}
	variants := s.Variants
	if variants == nil {
		variants = []string{""}
	}
	for _, v := range variants {
		if v == "" {
			runVariant(t, s, v)
			continue
		}
		t.Run(v, func(t TB) { runVariant(t, s, v) })
	}
}

// runVariant looks at what the sink is and runs the scenarios that fit.
func runVariant(t TB, s Subject, variant string) {
	target := s.Open(t, variant)
	snk := target.New(t)
	k, f := kindOf(t, snk), snk.Features()
	if err := snk.Check(t.Context()); err != nil {
		t.Errorf("Check of a fresh target: %v", err)
	}
	if err := snk.Close(); err != nil {
		t.Errorf("Close of a sink that did nothing: %v", err)
	}
	if k != kindTransactional && target.Read == nil {
		t.Fatalf("sinktest: Target.Read is missing")
	}
	if f.Rejects && target.Poison == nil {
		t.Fatalf("sinktest: the sink claims Features.Rejects, Target.Poison is missing")
	}
	for _, sc := range scenarios() {
		if !sc.fits(s, target, k, f) || s.Only != nil && !slices.Contains(s.Only, sc.name) {
			continue
		}
		t.Run(sc.name, func(t TB) {
			if !s.Serial && !sc.alone() {
				t.Parallel()
			}
			sc.run(newWorld(t, s, variant, k, f))
		})
	}
}

// quiet is the logger that sinks get.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// kind is how effects become visible.
type kind int

const (
	kindTransactional kind = iota
	kindOutbox
	kindStager
	kindStaging
)

// kindOf tells the kind by the interface, and by Features.Stages, which every
// open task is then held to.
func kindOf(t TB, s sink.Sink) kind {
	switch s := s.(type) {
	case sink.Transactional:
		return kindTransactional
	case sink.Staging:
		return kindStaging
	case sink.Outbox:
		if s.Features().Stages {
			return kindStager
		}
		return kindOutbox
	}
	t.Fatalf("%T is neither Transactional, nor Staging, nor Outbox", s)
	return 0
}
