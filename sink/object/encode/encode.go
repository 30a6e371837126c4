package encode

import (
	"context"
	"io"
	"iter"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/store"
)

// Meta is kept in the objects of formats that have a place for it.
type Meta struct {
	Incarnation string
	Pipeline    string
	Sink        string
	Generation  int32
	Task        int32
	From        sink.Pos // exclusive
	Through     sink.Pos // inclusive
}

// Format makes and reads objects. It is safe for concurrent use.
type Format interface {
	// Ext is the end of an object's name, without a leading dot: "jsonl.gz".
	Ext() string
	// New begins an object. w must not fail.
	New(w io.Writer) Encoder
}

// Encoder makes one object. It is used by one goroutine.
type Encoder interface {
	// Add takes one record in. An error is poison (sink.Poison), and the
	// encoder is as it was before.
	Add(r *record.Record) error
	// Buffered is about how many bytes are held back that Flush can write.
	Buffered() int64
	// Flush writes what is held back. It makes the object a little larger.
	Flush() error
	// Close writes the end of the object.
	Close(m Meta) error
}

// Row is what one row of an object says of the record that it was made from.
// The slices are valid until the next row is read.
type Row struct {
	Index     int64            // of the row in its object, from 0
	Value     []byte           // JSON: the record's value, or an object of the declared columns
	Key       []byte           // nil: none, or not kept by this format
	Source    *record.Position // nil: not kept
	Timestamp int64            // Unix milliseconds; 0: not kept
}

// Reader reads the rows of one object. After an error it ends.
type Reader func(ctx context.Context, r store.Reader) iter.Seq2[Row, error]

// Codes of records that no object can hold.
const (
	CodeNotJSON      = "not_json"
	CodeEmptyValue   = "empty_value"
	CodeWrongType    = "wrong_type"
	CodeIntegerRange = "integer_range"
	CodeDuplicateKey = "duplicate_key"
)
