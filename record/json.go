package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// DocKind says why bytes are not a document.
type DocKind int

const (
	NotJSON      DocKind = iota + 1 // not one JSON value in valid UTF-8 (RFC 8259), or something follows it
	DuplicateKey                    // an object names a field twice, at any depth
	NotObject                       // JSON, but not an object
	EmptyValue                      // no bytes at all
)

// String gives the kind in words.
func (k DocKind) String() string {
	switch k {
	case NotJSON:
		return "not JSON"
	case DuplicateKey:
		return "duplicate field"
	case NotObject:
		return "not a JSON object"
	case EmptyValue:
		return "empty value"
	}
	return fmt.Sprintf("DocKind(%d)", int(k))
}

// DocError is why Doc.Reset refused the bytes.
type DocError struct {
	Kind DocKind
	Err  error // with the place inside the bytes; nil for EmptyValue
}

func (e *DocError) Error() string {
	if e.Err == nil {
		return e.Kind.String()
	}
	return e.Kind.String() + ": " + e.Err.Error()
}

func (e *DocError) Unwrap() error { return e.Err }

// Doc is a JSON object over its raw bytes. It is validated once and strictly
// (RFC 7493: valid UTF-8, no field named twice at any depth, nothing behind
// it), and then knows where each top-level field lies. Fields are read, set and
// removed as raw JSON; Append splices the changes in, and every byte that no
// change concerns stays as it was, in its order.
//
// The zero Doc is an empty object; Reset makes it ready for the next record and
// reuses its memory. A Doc holds on to the bytes that it was given and never
// writes to them. It is not safe for concurrent use.
type Doc struct {
	raw     []byte
	members []member // in document order, added ones last
	body    int      // just behind the opening brace
	end     int      // of the closing brace
	edited  bool
	altered bool // a member that came with the bytes was replaced or removed

	names   []byte   // arena of field names that had escapes or were added
	given   [][]byte // values that were set
	dec     *jsontext.Decoder
	rd      bytes.Buffer
	scratch *Doc // for nested edits
}

// member is one top-level field. It holds places and no pointers: documents come
// by the million, and the collector would be told of every one.
type member struct {
	name, nameEnd int // unescaped, in raw, or in the arena of names
	cell          int // where its part of raw starts, just behind a brace or comma
	val, valEnd   int // its value in raw
	cellEnd       int // just before the next comma or brace
	given         int // index of the value that was set, if state says so
	arena         bool
	state         memberState
}

type memberState uint8

const (
	original memberState = iota
	replaced
	added
	removed
)

func (d *Doc) name(m *member) []byte {
	if m.arena {
		return d.names[m.name:m.nameEnd]
	}
	return d.raw[m.name:m.nameEnd]
}

// value is that of a member that is not removed.
func (d *Doc) value(m *member) []byte {
	if m.state == original {
		return d.raw[m.val:m.valEnd:m.valEnd]
	}
	return d.given[m.given]
}

// Reset takes up the bytes of the next record. Its error is a *DocError, and
// leaves the Doc an empty object.
func (d *Doc) Reset(raw []byte) error {
	d.clear()
	if len(raw) == 0 {
		return &DocError{Kind: EmptyValue}
	}
	if d.quick(raw) {
		return nil
	}
	d.clear()
	if err := d.validate(raw); err != nil {
		return err
	}
	if k := jsontext.Value(raw).Kind(); k != '{' {
		return &DocError{Kind: NotObject, Err: fmt.Errorf("the value is a JSON %s", kindName(k))}
	}
	d.index(raw)
	return nil
}

func (d *Doc) clear() {
	d.raw, d.body, d.end, d.edited, d.altered = nil, 0, 0, false, false
	clear(d.given) // lets go of the last record's bytes
	d.members, d.given, d.names = d.members[:0], d.given[:0], d.names[:0]
}

// validate checks that raw is one strict JSON value.
func (d *Doc) validate(raw []byte) error {
	// The decoder reads a bytes.Buffer in place and, unlike its own buffers,
	// never writes to it.
	d.rd = *bytes.NewBuffer(raw)
	if d.dec == nil {
		d.dec = jsontext.NewDecoder(&d.rd)
	} else {
		d.dec.Reset(&d.rd)
	}
	if _, err := d.dec.ReadValue(); err != nil {
		return docError(err)
	}
	switch _, err := d.dec.ReadToken(); {
	case err == io.EOF:
		return nil
	case err == nil:
		return &DocError{Kind: NotJSON, Err: fmt.Errorf("something follows the value, before offset %d", d.dec.InputOffset())}
	default:
		return docError(err)
	}
}

func docError(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &DocError{Kind: DuplicateKey, Err: err}
	}
	if err == io.EOF { // white space only
		err = io.ErrUnexpectedEOF
	}
	return &DocError{Kind: NotJSON, Err: err}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "bool"
	case '"':
		return "string"
	case '0':
		return "number"
	case '[':
		return "array"
	}
	return "object"
}

// Find gives the index of a top-level field, or -1. Indexes stay the same until
// the next Reset.
func (d *Doc) Find(name string) int {
	for i := range d.members {
		if m := &d.members[i]; m.state != removed && string(d.name(m)) == name {
			return i
		}
	}
	return -1
}

// Value gives the raw JSON of the field at an index that Find gave. It is a
// part of the record's bytes: never write to it.
func (d *Doc) Value(i int) []byte { return d.value(&d.members[i]) }

// Get gives the raw JSON of a top-level or nested field.
func (d *Doc) Get(path ...string) ([]byte, bool) {
	if len(path) == 0 {
		return nil, false
	}
	i := d.Find(path[0])
	if i < 0 {
		return nil, false
	}
	return Lookup(d.Value(i), path[1:]...)
}

// All ranges over the fields, in order, with their raw JSON.
func (d *Doc) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range d.members {
			m := &d.members[i]
			if m.state != removed && !yield(string(d.name(m)), d.value(m)) {
				return
			}
		}
	}
}

// Len is the number of fields.
func (d *Doc) Len() int {
	n := 0
	for i := range d.members {
		if d.members[i].state != removed {
			n++
		}
	}
	return n
}
