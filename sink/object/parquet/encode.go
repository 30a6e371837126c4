package parquet

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/encode"
)

const (
	pageSize    = 128 << 10 // bytes of a column until it is compressed
	writeBuffer = 16 << 10

	metaPrefix    = "exactly."
	layoutRecord  = "record"
	layoutColumns = "columns"
)

var _ encode.Format = (*Format)(nil)

// New implements encode.Format.
func (f *Format) New(w io.Writer) encode.Encoder {
	return &encoder{
		f:   f,
		w:   parquet.NewGenericWriter[any](w, f.options...),
		row: make(parquet.Row, len(f.index)),
	}
}

type encoder struct {
	f        *Format
	w        *parquet.GenericWriter[any]
	doc      record.Doc
	row      parquet.Row
	rows     [1]parquet.Row
	buffered int64
}

func (e *encoder) Add(r *record.Record) error {
	var err error
	if e.f.columns == nil {
		err = e.fillRecord(r)
	} else {
		err = e.fillColumns(r)
	}
	if err != nil {
		return err
	}
	if e.f.source {
		e.set(colTopic, parquet.ByteArrayValue([]byte(r.Source.Topic)))
		e.set(colPartition, parquet.Int32Value(r.Source.Partition))
		e.set(colOffset, parquet.Int64Value(r.Source.Offset))
	}
	e.rows[0] = e.row
	if _, err := e.w.WriteRows(e.rows[:]); err != nil {
		return sink.Fatal(fmt.Errorf("write a Parquet row of %s: %w", r.Source, err))
	}
	for _, v := range e.row {
		e.buffered += 8
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			e.buffered += int64(len(v.ByteArray()))
		}
	}
	clear(e.row)
	return nil
}

// set puts the value of a column that is never null.
func (e *encoder) set(name string, v parquet.Value) {
	i := e.f.index[name]
	e.row[i] = v.Level(0, 0, i)
}

// setOptional puts the value of an optional column; no value: null.
func (e *encoder) setOptional(name string, v parquet.Value, ok bool) {
	i := e.f.index[name]
	if !ok {
		e.row[i] = parquet.NullValue().Level(0, 0, i)
		return
	}
	e.row[i] = v.Level(0, 1, i)
}

func (e *encoder) fillRecord(r *record.Record) error {
	if len(r.Value) == 0 {
		return sink.Poison(encode.CodeEmptyValue, errors.New("the value is empty; the column value needs JSON"))
	}
	if !jsontext.Value(r.Value).IsValid(jsontext.AllowDuplicateNames(true)) {
		return sink.Poison(encode.CodeNotJSON, errors.New("the value is not JSON"))
	}
	e.setOptional(colKey, parquet.ByteArrayValue(r.Key), r.Key != nil)
	e.set(colValue, parquet.ByteArrayValue(r.Value))
	e.set(colTimestamp, parquet.Int64Value(r.Timestamp))
	return nil
}

func (e *encoder) fillColumns(r *record.Record) error {
	if err := e.doc.Reset(r.Value); err != nil {
		return sink.Poison(docCode(err), err)
	}
	for _, c := range e.f.columns {
		raw := []byte(nil)
		if i := e.doc.Find(c.name); i >= 0 {
			raw = e.doc.Value(i)
		}
		v, ok, err := c.typ.value(raw)
		if err != nil {
			return sink.Poison(err.code, fmt.Errorf("field %s is no %s: %s: %w", c.name, c.typ, excerpt(raw), err.err))
		}
		e.setOptional(c.name, v, ok)
	}
	return nil
}

func docCode(err error) string {
	var d *record.DocError
	if errors.As(err, &d) {
		switch d.Kind {
		case record.EmptyValue:
			return encode.CodeEmptyValue
		case record.DuplicateKey:
			return encode.CodeDuplicateKey
		case record.NotObject:
			return encode.CodeWrongType
		}
	}
	return encode.CodeNotJSON
}

func excerpt(b []byte) string {
	if len(b) > 60 {
		return string(b[:60]) + "…"
	}
	return string(b)
}

func (e *encoder) Buffered() int64 { return e.buffered }

// Flush ends the row group.
func (e *encoder) Flush() error {
	if e.buffered == 0 {
		return nil
	}
	if err := e.w.Flush(); err != nil {
		return sink.Fatal(fmt.Errorf("end a Parquet row group: %w", err))
	}
	e.buffered = 0
	return nil
}

func (e *encoder) Close(m encode.Meta) error {
	layout := layoutColumns
	if e.f.columns == nil {
		layout = layoutRecord
	}
	for _, kv := range [][2]string{
		{"incarnation", m.Incarnation},
		{"pipeline", m.Pipeline},
		{"sink", m.Sink},
		{"generation", strconv.Itoa(int(m.Generation))},
		{"task", strconv.Itoa(int(m.Task))},
		{"from", m.From.String()},
		{"through", m.Through.String()},
		{"layout", layout},
		{"source_columns", strconv.FormatBool(e.f.source)},
	} {
		e.w.SetKeyValueMetadata(metaPrefix+kv[0], kv[1])
	}
	if err := e.w.Close(); err != nil {
		return sink.Fatal(fmt.Errorf("end a Parquet file: %w", err))
	}
	return nil
}
