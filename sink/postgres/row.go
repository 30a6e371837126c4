package postgres

import (
	"errors"
	"fmt"

	"exactly/internal/tables"
	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// row is one row on its way into a table: a value per column, and which of them
// it fills. It is used again for the next.
type row struct {
	p      *plan
	vars   *cel.Vars
	item   record.Doc // of an element, where fields go to columns by name
	vals   [][]byte
	mask   []byte // see plan.shape
	prefix tables.Prefix
	run    []byte
}

func newRow(p *plan, o sink.Owner, vars *cel.Vars) *row {
	n := len(p.info.columns)
	return &row{
		p: p, vars: vars, vals: make([][]byte, n), mask: make([]byte, n), prefix: tables.PrefixOf(o), run: []byte(runID(o)),
	}
}

func (r *row) set(col int, v []byte) {
	r.vals[col], r.mask[col] = v, 1
}

// pick gives the values of some columns, which stay when the row is used again.
func (r *row) pick(cols []int) [][]byte {
	vals := make([][]byte, len(cols))
	for i, c := range cols {
		vals[i] = r.vals[c]
	}
	return vals
}

// each fills the row once for every element of the list, if the table is one of
// elements, else once, and calls f. Its error is poison.
func (r *row) each(pos sink.Pos, f func() error) error {
	if r.p.x.Each == nil {
		if err := r.fill(pos); err != nil {
			return err
		}
		return f()
	}
	items, err := r.p.x.Each.List(r.vars)
	if err != nil {
		return tables.Poison(fmt.Errorf("each: %w", err))
	}
	if len(items) > mostElements {
		return sink.Poison(codeTooBig, fmt.Errorf("each: the list has %d elements, at most %d are taken", len(items), mostElements))
	}
	for i, raw := range items {
		r.vars.SetItem(raw, i)
		if r.p.x.Columns == nil {
			if err := r.item.Reset(raw); err != nil {
				return sink.Poison(cel.CodeWrongType, fmt.Errorf("each[%d]: %w", i, err))
			}
		}
		if err := r.fill(pos); err != nil {
			return fmt.Errorf("each[%d]: %w", i, err)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// bytes are those of its values.
func (r *row) bytes() (n int) {
	for _, v := range r.vals {
		n += len(v)
	}
	return n
}

func tooBig(most int) error {
	return sink.Poison(codeTooBig, fmt.Errorf("the rows of the record come to more than %d MiB: let fewer columns copy what is large in it, or send smaller records", most>>20))
}

// fill takes up the record of vars. Its error is poison.
func (r *row) fill(pos sink.Pos) error {
	clear(r.vals)
	clear(r.mask)
	var err error
	if r.p.x.Columns != nil {
		err = r.evaluate()
	} else {
		err = r.fields()
	}
	if err == nil && r.p.version >= 0 {
		err = r.version()
	}
	if err != nil {
		return tables.Poison(err)
	}
	for _, k := range r.p.key {
		if r.vals[k] == nil { // NULLs are never equal: each would be a row of its own
			return sink.Poison(codeKey, fmt.Errorf("the key column %s has no value", r.p.info.columns[k].name))
		}
	}
	if r.bytes() > mostBytes {
		return tooBig(mostBytes)
	}
	r.audit(r.vars.Record(), pos)
	return nil
}

// doc is where fields come from.
func (r *row) doc() (*record.Doc, error) {
	if r.p.x.Each != nil {
		return &r.item, nil
	}
	return r.vars.Doc()
}

// fields puts every field into the column of its name.
func (r *row) fields() error {
	doc, err := r.doc()
	if err != nil {
		return err
	}
	any := false
	for name, raw := range doc.All() {
		col, ok := r.p.index[name]
		if !ok {
			if r.p.spec.UnknownFields == "reject" {
				return sink.Poison(codeUnknownField, fmt.Errorf("table %s has no column for the field %q", r.p.info.name, name))
			}
			continue
		}
		v, err := jsonValue(raw, &r.p.info.columns[col])
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		r.set(col, v)
		any = true
	}
	if !any {
		return sink.Poison(codeNoColumns, fmt.Errorf("no field of the record is a column of table %s", r.p.info.name))
	}
	return nil
}

// evaluate fills every column that has an expression.
func (r *row) evaluate() error {
	for _, col := range r.p.exprs {
		c := &r.p.info.columns[col]
		v, err := exprValue(r.p.x.Columns[c.name], r.vars, c)
		if err != nil {
			return fmt.Errorf("columns.%s: %w", c.name, err)
		}
		r.set(col, v)
	}
	return nil
}

func (r *row) version() error {
	v, err := exprValue(r.p.x.Version, r.vars, &r.p.info.columns[r.p.version])
	if err != nil {
		return fmt.Errorf("version: %w", err)
	}
	if v == nil {
		return sink.Poison(codeVersion, errors.New("the version of the record is null"))
	}
	r.set(r.p.version, v)
	return nil
}

// audit fills the columns of the sink's own.
func (r *row) audit(rec *record.Record, pos sink.Pos) {
	if r.p.order >= 0 {
		r.set(r.p.order, bytea(r.prefix.Place(pos)))
	}
	for setting, col := range r.p.own {
		switch setting {
		case "run_id":
			r.set(col, r.run)
		case "epoch":
			r.set(col, text(pos.Epoch))
		case "topic":
			r.set(col, []byte(rec.Source.Topic))
		case "partition":
			r.set(col, text(rec.Source.Partition))
		case "offset":
			r.set(col, text(rec.Source.Offset))
		case "processed_at", "updated_at":
			r.set(col, []byte("now")) // the start of the database transaction
		case "insert_count":
			r.set(col, []byte("1"))
		}
	}
}
