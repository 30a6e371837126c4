package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"exactly/sink"
)

// Format is the newest format that this binary reads, and the one it writes.
const Format = 1

// Key is the Kafka key of every journal record: a partition holds one task, so
// compaction keeps the newest record and no other.
const Key = "journal"

// Record is R(n) of the protocol, or a claim that carries one over.
type Record struct {
	Format      int    `json:"format"`
	Incarnation string `json:"incarnation"`
	Pipeline    string `json:"pipeline"`
	Generation  int32  `json:"generation"`
	Task        int32  `json:"task"`
	Attempt     int64  `json:"attempt"`
	Epoch       int64  `json:"epoch"` // the epoch this record decides; of a claim: the last decided one
	Claim       bool   `json:"claim,omitzero"`
	Sealed      bool   `json:"sealed,omitzero"` // the generation has ended: whoever reads this exits
	Worker      string `json:"worker,omitzero"` // for people
	Time        int64  `json:"time"`            // Unix ms, for people

	Sources []Source           `json:"sources"`
	Tail    Tail               `json:"tail"`
	Cursors map[string]*Cursor `json:"cursors,omitzero"` // per outbox sink
	Pending []Pending          `json:"pending,omitzero"` // decided, not yet confirmed; in epoch order

	// Committed is, per staging sink, the newest work that is known as committed: a
	// sink whose system does not know it any more has lost what was decided.
	Committed map[string]sink.Committable `json:"committed,omitzero"`
}

// Source is how far one source topic is read. ID guards against a topic that
// was deleted and made again under the same name.
type Source struct {
	Topic      string      `json:"topic"`
	ID         string      `json:"id"` // 32 hex digits
	Partitions []Partition `json:"partitions"`
}

// Partition holds the next offset to read.
type Partition struct {
	Partition   int32 `json:"p"`
	Offset      int64 `json:"o"`
	LeaderEpoch int32 `json:"e"`
}

// Tail is the end of the task's outbox as of this record.
type Tail struct {
	Pos    sink.Pos `json:"pos"`    // of the last decided outbox record; zero: none yet
	Offset int64    `json:"offset"` // behind it; a hint
	Bytes  int64    `json:"bytes"`  // written to the outbox in this generation, up to Pos
}

// Cursor is how far an outbox sink has come.
type Cursor struct {
	Pos    sink.Pos `json:"pos"`
	Offset int64    `json:"offset"` // to read from to find the record behind Pos; a hint, never past it
	Bytes  int64    `json:"bytes"`  // Tail.Bytes at Pos
	// Fresh: the sink was added to the pipeline at Pos and has confirmed nothing
	// yet, so that it need not hold a mark.
	Fresh bool `json:"fresh,omitzero"`
}

// Pending is a committable and where its records can be read again.
type Pending struct {
	sink.Committable
	Offset int64 `json:"offset,omitzero"` // outbox offset of its first record; 0 for a staging sink
}

// Errors of Decode.
var (
	ErrNewer   = errors.New("journal record of a newer format: upgrade this binary")
	ErrCorrupt = errors.New("journal record cannot be read")
)

// Encode gives the value of the Kafka record.
func (r *Record) Encode() ([]byte, error) {
	b, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode journal record of epoch %d: %w", r.Epoch, err)
	}
	return b, nil
}

// Decode reads what Encode wrote. ErrNewer for a newer format, ErrCorrupt for
// what is no journal record.
func Decode(b []byte) (*Record, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if head.Format > Format {
		return nil, fmt.Errorf("%w (format %d, this binary reads up to %d)", ErrNewer, head.Format, Format)
	}
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if r.Format < 1 || r.Epoch < 0 || r.Attempt < 1 || r.Incarnation == "" {
		return nil, fmt.Errorf("%w: format %d, epoch %d, attempt %d, incarnation %q", ErrCorrupt, r.Format, r.Epoch, r.Attempt, r.Incarnation)
	}
	for name, c := range r.Cursors {
		if c == nil {
			return nil, fmt.Errorf("%w: cursor of sink %s is null", ErrCorrupt, name)
		}
	}
	return r, nil
}

// Clone is a deep copy but for the bytes of committables, which nobody changes.
func (r *Record) Clone() *Record {
	c := *r
	c.Sources = slices.Clone(r.Sources)
	for i := range c.Sources {
		c.Sources[i].Partitions = slices.Clone(r.Sources[i].Partitions)
	}
	c.Pending, c.Committed = slices.Clone(r.Pending), maps.Clone(r.Committed)
	c.Cursors = make(map[string]*Cursor, len(r.Cursors))
	for k, v := range r.Cursors {
		cur := *v
		c.Cursors[k] = &cur
	}
	return &c
}

// Same reports whether two records are the same statement about the task: what
// a claim compares to know that nobody decided in between.
func (r *Record) Same(o *Record) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Incarnation == o.Incarnation && r.Generation == o.Generation && r.Task == o.Task &&
		r.Attempt == o.Attempt && r.Epoch == o.Epoch && r.Claim == o.Claim && r.Sealed == o.Sealed
}
