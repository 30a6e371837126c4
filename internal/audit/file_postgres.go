package audit

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"exactly/record"
	"exactly/sink/postgres"
	"exactly/step/cel"
)

// postgres binds the tables of a sink in PostgreSQL: each is compared by itself.
func (b *binder) postgres(s Sink, c postgres.Config) ([]Sink, error) {
	switch c.Rows() {
	case "statement":
		return nil, errors.New("what a statement does to which tables cannot be audited: compare it by a query of your own")
	case "replace":
		bound, err := b.rollup(s, c)
		return []Sink{bound}, err
	}
	tables := c.Tables
	if len(tables) == 0 {
		tables = []postgres.Table{{Table: c.Table, Columns: c.Columns, Version: c.Version, Audit: c.Audit}}
		if c.Rows() != "append" {
			tables[0].Key = c.Key
		}
	}
	deletes := !slices.ContainsFunc(tables, func(t postgres.Table) bool {
		return len(t.Key) == 0 || t.Each != "" && len(t.Parent) == 0
	})
	var all []Sink
	for i, t := range tables {
		one := s
		if len(c.Tables) > 0 {
			one.Table = t.Table
		}
		r, err := reader(c, t)
		if err == nil {
			r.Deletes = deletes
			one.Reader = r
			r.Only, err = b.pgTable(&one, t)
		}
		if err != nil && len(c.Tables) > 0 {
			err = fmt.Errorf("tables[%d].%w", i, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func reader(c postgres.Config, t postgres.Table) (*PostgresReader, error) {
	table, err := postgres.QuoteTable(t.Table)
	r := &PostgresReader{
		DSN: c.DSN, PasswordFile: c.PasswordFile, Table: table, Upsert: len(t.Key) > 0, Any: t.Version != "",
		Writes: t.Audit.InsertCount, ConnectTimeout: c.ConnectTimeout, Ignore: []string{"exactly_order", "exactly_version"},
	}
	a := t.Audit
	for _, name := range []string{a.RunID, a.Epoch, a.Topic, a.Partition, a.Offset, a.ProcessedAt, a.UpdatedAt} {
		if name != "" {
			r.Ignore = append(r.Ignore, name)
		}
	}
	return r, err
}

// pgTable says what a row is. It gives the columns that expressions fill; nil: all.
func (b *binder) pgTable(s *Sink, t postgres.Table) (only []string, err error) {
	if t.Each == "" {
		return b.table(s, len(t.Key) > 0, t.Key, t.Columns)
	}
	e := &elements{parent: t.Parent, key: t.Key, ids: map[string][][]byte{}}
	if e.list, err = b.env.Compile(t.Each, cel.TypeList); err != nil {
		return nil, fmt.Errorf("each: %w", err)
	}
	s.ID, s.Map = nil, e.split // audit.id is of the record, not of the row
	if len(t.Key) > 0 {
		s.ID = func(r *record.Record) ([]byte, error) { return FieldsID(r.Value, t.Key) }
		s.TombstoneID = func(key []byte) ([]byte, error) { return key, nil } // see elements.removed
	}
	if len(t.Columns) == 0 {
		return nil, nil
	}
	env, err := cel.NewEnv(cel.Options{Each: true})
	if err != nil {
		return nil, err
	}
	e.row, err = rowOf(env, t.Columns)
	return slices.Sorted(maps.Keys(t.Columns)), err
}

// elements makes the rows of a list in a record, and remembers which there are of
// each parent, for the tombstone that removes them.
type elements struct {
	list        *cel.Expr
	row         func(v *cel.Vars) ([]byte, error) // nil: the element itself
	parent, key []string
	vars        cel.Vars
	ids         map[string][][]byte // by parent: the identities of its rows
}

func (e *elements) split(dst []record.Record, r *record.Record) ([]record.Record, error) {
	if r.Tombstone() {
		return e.removed(dst, r)
	}
	e.vars.Reset(r)
	items, err := e.list.List(&e.vars)
	if err != nil {
		return dst, fmt.Errorf("each: %w", err)
	}
	from := len(dst)
	for i, raw := range items {
		one := *r
		one.Value = raw
		if e.row != nil {
			e.vars.SetItem(raw, i)
			if one.Value, err = e.row(&e.vars); err != nil {
				return dst[:from], fmt.Errorf("each[%d]: %w", i, err)
			}
		}
		dst = append(dst, one)
		if err := e.remember(&one); err != nil {
			return dst[:from], fmt.Errorf("each[%d]: %w", i, err)
		}
	}
	return dst, nil
}

func (e *elements) remember(row *record.Record) error {
	if len(e.parent) == 0 {
		return nil
	}
	parent, err := FieldsID(row.Value, e.parent)
	if err != nil {
		return err
	}
	id, err := FieldsID(row.Value, e.key)
	e.ids[string(parent)] = append(e.ids[string(parent)], id)
	return err
}

// removed makes a tombstone of each row.
func (e *elements) removed(dst []record.Record, r *record.Record) ([]record.Record, error) {
	parent, err := tombstoneID(r.Key, e.parent)
	if err != nil {
		return dst, err
	}
	for _, id := range e.ids[string(parent)] {
		gone := *r
		gone.Key = id
		dst = append(dst, gone)
	}
	delete(e.ids, string(parent))
	return dst, nil
}
