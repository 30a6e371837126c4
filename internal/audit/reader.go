package audit

import (
	"context"

	"exactly/record"
)

// Mode is what a sink does with records of one identity.
type Mode int

const (
	// Every record is held: topics, append-only tables, files.
	Every Mode = iota
	// Latest: one row, of the last record; a tombstone removes it.
	Latest
	// Once: the first record only; a partner that is called once per key.
	Once
)

// Shape is how a sink holds records; a reader knows it before it reads.
type Shape struct {
	Mode Mode
	// Fields are the fields that the sink has room for. nil: the value as it is.
	Fields []string
	// Loose compares values as a column keeps them: 1, 1.0 and "1" are the
	// same, as are true and 1, null and a field that is not there, a list and
	// its JSON text.
	Loose bool
	// Times are fields that hold a time, as text (RFC 3339) or as Unix
	// milliseconds, which are the same then.
	Times []string
	// Any: of several records of one identity the sink may hold any; modes
	// Latest and Once.
	Any bool
	// Deletes: a tombstone has an effect. Else it is not expected to arrive.
	Deletes bool
	// Notes tell what cannot be verified, for people.
	Notes []string
	// WhenMissing is a note for when records are missing: what may be the cause.
	WhenMissing string
}

// Held is one record as a sink holds it. The reader may use it again after
// the callback returned.
type Held struct {
	record.Record        // Key and Value at least; a row is given as a JSON object
	ID            []byte // identity, where the sink has one of its own; nil: from the record
	Place         string // coordinates for people: topic-0@17, table row 5, file:3
	Stream        string // records of one stream stand in order; "": no order is kept
	Writes        int64  // how often the sink was told to write it; 0: not known
}

// Reader reads everything that a sink holds, from the system itself. Each kind
// of sink has one.
type Reader interface {
	// Shape is asked for first. It may look at the system.
	Shape(ctx context.Context) (Shape, error)
	// Read calls fn for each record until an error. It blocks until the end
	// that the sink had when it was called.
	Read(ctx context.Context, fn func(*Held) error) error
}
