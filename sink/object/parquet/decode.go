package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"exactly/record"
	"exactly/sink/object/encode"
	"exactly/sink/object/store"
)

const readBatch = 64 // rows

// Reader reads Parquet files with flat columns, whoever wrote them. Of files of
// whole records it gives the record's value, of others an object of all columns
// (without the source columns, where exactly wrote them), in the order of the
// file: decimals and timestamps as numbers, bytes in base64, null as null.
func Reader() encode.Reader {
	return func(ctx context.Context, r store.Reader) iter.Seq2[encode.Row, error] {
		return func(yield func(encode.Row, error) bool) {
			if err := read(ctx, r, yield); err != nil {
				yield(encode.Row{}, err)
			}
		}
	}
}

func read(ctx context.Context, r store.Reader, yield func(encode.Row, error) bool) error {
	f, err := parquet.OpenFile(r, r.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("open Parquet file: %w", err)
	}
	d, err := newDecoder(f)
	if err != nil {
		return err
	}
	for _, g := range f.RowGroups() {
		if more, err := d.group(ctx, g, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

type decoder struct {
	leaves []leaf
	whole  bool // rows are whole records
	source bool
	index  int64
	out    []byte
	pos    record.Position
}

type leaf struct {
	name  string
	quote []byte // the name as JSON, with the colon
	form  form
	scale int
	skip  bool // not part of the value
}

func newDecoder(f *parquet.File) (*decoder, error) {
	d := &decoder{}
	layout, ours := f.Lookup(metaPrefix + "layout")
	source, _ := f.Lookup(metaPrefix + "source_columns")
	d.whole = layout == layoutRecord
	d.source = ours && source == "true"
	for _, c := range f.Root().Columns() {
		if !c.Leaf() || c.Repeated() {
			return nil, fmt.Errorf("column %s is nested, only flat files are read", c.Name())
		}
		name, err := json.Marshal(c.Name())
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Name(), err)
		}
		l := leaf{name: c.Name(), quote: append(name, ':')}
		l.form, l.scale = formOf(c.Type())
		if d.source {
			switch l.name {
			case colTopic, colPartition, colOffset:
				l.skip = true
			}
		}
		d.leaves = append(d.leaves, l)
	}
	return d, nil
}

func (d *decoder) group(ctx context.Context, g parquet.RowGroup, yield func(encode.Row, error) bool) (more bool, err error) {
	rows := g.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	batch := make([]parquet.Row, readBatch)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := rows.ReadRows(batch)
		for _, r := range batch[:n] {
			row, err := d.row(r)
			if err != nil {
				return false, fmt.Errorf("row %d: %w", d.index+1, err)
			}
			d.index++
			if !yield(row, nil) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("row %d: %w", d.index+1, err)
		}
	}
}

func (d *decoder) row(r parquet.Row) (encode.Row, error) {
	if len(r) != len(d.leaves) {
		return encode.Row{}, fmt.Errorf("%d values for %d columns", len(r), len(d.leaves))
	}
	row := encode.Row{Index: d.index}
	if d.source {
		d.pos = record.Position{LeaderEpoch: -1}
		row.Source = &d.pos
	}
	d.out = append(d.out[:0], '{')
	for _, v := range r {
		l := &d.leaves[v.Column()]
		if d.special(l, v, &row) {
			continue
		}
		if len(d.out) > 1 {
			d.out = append(d.out, ',')
		}
		d.out = append(d.out, l.quote...)
		var err error
		if d.out, err = l.append(d.out, v); err != nil {
			return encode.Row{}, fmt.Errorf("column %s: %w", l.name, err)
		}
	}
	if !d.whole {
		d.out = append(d.out, '}')
		row.Value = d.out
	}
	return row, nil
}

// special takes a column that is not a member of the value.
func (d *decoder) special(l *leaf, v parquet.Value, row *encode.Row) bool {
	if l.skip {
		switch l.name {
		case colTopic:
			d.pos.Topic = string(v.ByteArray())
		case colPartition:
			d.pos.Partition = v.Int32()
		case colOffset:
			d.pos.Offset = v.Int64()
		}
		return true
	}
	if !d.whole {
		return false
	}
	switch l.name {
	case colKey:
		if !v.IsNull() {
			row.Key = append([]byte{}, v.ByteArray()...)
		}
	case colValue:
		row.Value = v.ByteArray()
	case colTimestamp:
		row.Timestamp = v.Int64()
	}
	return true
}

func appendFloat(dst []byte, x float64, bits int) ([]byte, error) {
	if x != x || x > maxFloat || x < -maxFloat {
		return nil, fmt.Errorf("JSON has no number %v", x)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, bits), nil
}
