package sqlite

import (
	"database/sql/driver"
	"fmt"
	"strconv"

	"exactly/internal/tables"
	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// row is one record as it goes into the table: a value per column, and which of
// them it fills. It is used again for the next record.
type row struct {
	p    *plan
	vars *cel.Vars
	vals []driver.Value
	mask []byte // see plan.shape
}

func newRow(p *plan, ordered bool) *row {
	n := len(p.info.columns)
	r := &row{p: p, vars: &cel.Vars{}, vals: make([]driver.Value, n), mask: make([]byte, n+1)}
	if ordered {
		r.mask[n] = 1
	}
	return r
}

func (r *row) ordered() bool { return r.mask[len(r.mask)-1] != 0 }

func (r *row) set(col int, v driver.Value) {
	r.vals[col], r.mask[col] = v, 1
}

// fill takes up a record. Its error is poison.
func (r *row) fill(rec *record.Record, prefix tables.Prefix, pos sink.Pos) error {
	clear(r.vals)
	clear(r.mask[:len(r.vals)])
	r.vars.Reset(rec)
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
		if r.vals[k] == nil && r.p.cfg.Mode == modeUpsert { // NULLs are never equal: each would be a row of its own
			return sink.Poison(codeKey, fmt.Errorf("the key column %s has no value", r.p.info.columns[k].name))
		}
	}
	if r.ordered() {
		r.set(r.p.order, prefix.Place(pos))
	}
	return nil
}

// fields puts every field into the column of its name.
func (r *row) fields() error {
	doc, err := r.vars.Doc()
	if err != nil {
		return err
	}
	any := false
	for name, raw := range doc.All() {
		col, ok := r.p.index[name]
		if !ok {
			if r.p.cfg.UnknownFields == "reject" {
				return sink.Poison(codeUnknownField, fmt.Errorf("table %s has no column for the field %q", r.p.cfg.Table, name))
			}
			continue
		}
		v, err := jsonValue(raw, r.p.info.columns[col].affinity)
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		r.set(col, v)
		any = true
	}
	if !any {
		return sink.Poison(codeNoColumns, fmt.Errorf("no field of the record is a column of table %s", r.p.cfg.Table))
	}
	return nil
}

// evaluate fills every column that has an expression.
func (r *row) evaluate() error {
	for _, col := range r.p.exprs {
		c := r.p.info.columns[col]
		v, err := exprValue(r.p.x.Columns[c.name], r.vars, c.affinity)
		if err != nil {
			return fmt.Errorf("columns.%s: %w", c.name, err)
		}
		r.set(col, v)
	}
	return nil
}

func (r *row) version() error {
	v, err := exprValue(r.p.x.Version, r.vars, r.p.info.columns[r.p.version].affinity)
	if err != nil {
		return fmt.Errorf("version: %w", err)
	}
	if v == nil {
		return sink.Poison(codeVersion, fmt.Errorf("the version of the record is null"))
	}
	r.set(r.p.version, v)
	return nil
}

// removal gives the parameters of a delete.
func (r *row) removal(key []byte, prefix tables.Prefix, pos sink.Pos) ([]driver.Value, error) {
	cols := make([]column, len(r.p.key))
	for i, k := range r.p.key {
		cols[i] = r.p.info.columns[k]
	}
	vs, err := deleteKey(key, cols)
	if err != nil {
		return nil, err
	}
	var args []driver.Value
	for i, v := range vs {
		args = append(args, v)
		if cols[i].affinity == affinityNone {
			args = append(args, otherForm(v))
		}
	}
	if r.ordered() {
		args = append(args, prefix.Place(pos))
	}
	return args, nil
}

// otherForm is the number that a text spells, and the text that spells a
// number.
func otherForm(v driver.Value) driver.Value {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return v
}
