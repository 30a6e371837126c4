package cel

import (
	"errors"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"exactly/record"
)

// Epoch is what expressions may see of the epoch that a record falls into.
type Epoch struct {
	Number  int64
	Attempt int64
	Time    time.Time // when the epoch began, by the worker's clock, UTC, ms
}

// Vars is one record as expressions see it. The JSON is parsed at most once per
// Reset, when the first expression asks for a field, and fields are decoded one
// by one as they are asked for. Keep one Vars per goroutine and Reset it for
// each record. The zero Vars is a record of nothing.
type Vars struct {
	rec    *record.Record
	epoch  Epoch
	begun  ref.Val // epoch.Time as a value; nil: not asked for yet
	doc    record.Doc
	docErr *EvalError
	parsed bool
	types  map[string]Type // of the expression at work; nil: all any
	cells  []cell          // by index of doc
	item   []byte          // see SetItem
	index  int
	itemAs ref.Val // item, decoded; nil: not asked for yet
	frame  *interpreter.ExecutionFrame
}

// cell keeps a decoded field. It holds while raw is the same slice.
type cell struct {
	raw []byte
	typ Type
	val ref.Val
}

// Reset takes up the next record, which must not change until the next Reset.
// The epoch is left as it is.
func (v *Vars) Reset(r *record.Record) {
	v.rec, v.docErr, v.parsed = r, nil, false
	clear(v.cells)
	v.cells = v.cells[:0]
}

// SetEpoch gives the values of the epoch variables.
func (v *Vars) SetEpoch(e Epoch) {
	if e != v.epoch {
		v.epoch, v.begun = e, nil
	}
}

// SetItem gives the values of the variables each.item (valid JSON, which must not
// change until the next call) and each.index, for expressions of Options.Each.
func (v *Vars) SetItem(raw []byte, index int) { v.item, v.index, v.itemAs = raw, index, nil }

// Record is what Reset was given.
func (v *Vars) Record() *record.Record { return v.rec }

// Doc is the record's value as a document, parsed on first use. It may be
// edited; expressions then see the edits. The error is an *EvalError.
func (v *Vars) Doc() (*record.Doc, error) {
	if !v.parsed {
		v.parsed = true
		v.docErr = v.parse()
	}
	if v.docErr != nil {
		return nil, v.docErr
	}
	return &v.doc, nil
}

func (v *Vars) parse() *EvalError {
	if v.rec == nil || v.rec.Value == nil {
		return evalErrorf(CodeExpression, "the record is a tombstone: it has no fields")
	}
	err := v.doc.Reset(v.rec.Value)
	if err == nil {
		return nil
	}
	var de *record.DocError
	if !errors.As(err, &de) {
		return &EvalError{Code: CodeNotJSON, Err: err}
	}
	code := CodeNotJSON
	switch de.Kind {
	case record.DuplicateKey:
		code = CodeDuplicateKey
	case record.EmptyValue:
		code = CodeEmptyValue
	case record.NotObject:
		code = CodeWrongType
	}
	return &EvalError{Code: code, Err: de}
}

// ResolveName implements the variables of cel-go.
func (v *Vars) ResolveName(name string) (any, bool) {
	switch name {
	case varKey:
		return v.key(), true
	case varValue:
		if _, err := v.Doc(); err != nil {
			return types.WrapErr(err), true
		}
		return &mapping{(*whole)(v)}, true
	case varHeaders:
		return &mapping{(*headers)(v)}, true
	case varTopic:
		return types.String(v.recordOrNone().Source.Topic), true
	case varPartition:
		return types.Int(v.recordOrNone().Source.Partition), true
	case varOffset:
		return types.Int(v.recordOrNone().Source.Offset), true
	case varTimestamp:
		return types.Timestamp{Time: time.UnixMilli(v.recordOrNone().Source.Timestamp).UTC()}, true
	case varNumber:
		return types.Int(v.epoch.Number), true
	case varAttempt:
		return types.Int(v.epoch.Attempt), true
	case varTime:
		if v.begun == nil {
			v.begun = types.Timestamp{Time: v.epoch.Time.UTC()}
		}
		return v.begun, true
	case varItem:
		if v.itemAs == nil {
			v.itemAs = decode(v.item)
		}
		return v.itemAs, true
	case varIndex:
		return types.Int(v.index), true
	}
	if _, err := v.Doc(); err != nil {
		return types.WrapErr(err), true
	}
	if val, ok := v.field(name); ok {
		return val, true
	}
	return failure(CodeExpression, "field %s is missing; has(%s) asks for it, value.?%s.orValue(…) stands in for it", name, name, name), true
}

// activation is v as cel-go evaluates with it. A frame of cel-go's is made once
// and kept, which saves a quarter of a short expression; with a cost limit it
// would carry what the last evaluation has used up, so then v goes in itself.
func (v *Vars) activation(costly bool) (interpreter.Activation, error) {
	if costly {
		return v, nil
	}
	if v.frame == nil {
		f, err := interpreter.NewExecutionFrame(v)
		if err != nil {
			return nil, err
		}
		v.frame = f
	}
	return v.frame, nil
}

// Parent implements the variables of cel-go.
func (v *Vars) Parent() interpreter.Activation { return nil }

func (v *Vars) recordOrNone() *record.Record {
	if v.rec == nil {
		return &record.Record{}
	}
	return v.rec
}

func (v *Vars) key() ref.Val { return text(v.recordOrNone().Key) }

// text is bytes from Kafka: a string where they are UTF-8, null where there are
// none.
func text(b []byte) ref.Val {
	switch {
	case b == nil:
		return types.NullValue
	case utf8.Valid(b):
		return types.String(b)
	}
	return types.Bytes(b)
}

// field decodes a field of the document, which must be parsed.
func (v *Vars) field(name string) (ref.Val, bool) {
	i := v.doc.Find(name)
	if i < 0 {
		return nil, false
	}
	typ := TypeAny
	if v.types != nil {
		if t, ok := v.types[name]; ok {
			typ = t
		}
	}
	for len(v.cells) <= i {
		v.cells = append(v.cells, cell{})
	}
	c, raw := &v.cells[i], v.doc.Value(i)
	if c.val == nil || c.typ != typ || len(c.raw) != len(raw) || &c.raw[0] != &raw[0] {
		*c = cell{raw: raw, typ: typ, val: decodeAs(name, typ, raw)}
	}
	return c.val, true
}

// whole is the variable value.
type whole Vars

func (w *whole) find(name string) (ref.Val, bool) { return (*Vars)(w).field(name) }

func (w *whole) names() []string {
	var names []string
	for name := range w.doc.All() {
		names = append(names, name)
	}
	return names
}

func (w *whole) appendJSON(dst []byte) ([]byte, error) { return w.doc.Append(dst), nil }

// headers is the variable headers.
type headers Vars

func (h *headers) find(name string) (ref.Val, bool) {
	b, ok := (*Vars)(h).recordOrNone().Header(name)
	if !ok {
		return nil, false
	}
	return text(b), true
}

func (h *headers) names() []string {
	var names []string
	seen := map[string]bool{}
	for _, x := range (*Vars)(h).recordOrNone().Headers {
		if !seen[x.Key] {
			seen[x.Key] = true
			names = append(names, x.Key)
		}
	}
	return names
}

func (h *headers) appendJSON(dst []byte) (_ []byte, err error) {
	dst = append(dst, '{')
	for i, name := range h.names() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, name); err != nil {
			return nil, err
		}
		v, _ := h.find(name)
		dst = append(dst, ':')
		if dst, err = AppendJSON(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}
