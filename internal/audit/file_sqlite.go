package audit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/record"
	"exactly/sink/sqlite"
	"exactly/step/cel"
)

type kafkaOpts = []kgo.Opt

// sqlite binds a table of a SQLite file.
func (b *binder) sqlite(s *Sink, c sqlite.Config) error {
	upsert := c.Mode != "append"
	r := &SQLiteReader{
		Path: c.Path, Table: c.Table, Upsert: upsert, Any: c.Version != "",
		Ignore: []string{"exactly_order", "exactly_version"},
	}
	if c.InsertCount {
		r.Writes = "insert_count"
	} else {
		r.Ignore = append(r.Ignore, "insert_count")
	}
	s.Reader = r
	var err error
	r.Only, err = b.table(s, upsert, c.Key, c.Columns)
	return err
}

// table says what a row is: its key, whatever audit.id says, where the table is
// upserted. It gives the columns that expressions fill; nil: all.
func (b *binder) table(s *Sink, upsert bool, key []string, columns map[string]string) ([]string, error) {
	if upsert || s.ID == nil && len(key) > 0 {
		s.ID = func(r *record.Record) ([]byte, error) { return FieldsID(r.Value, key) }
		s.TombstoneID = func(k []byte) ([]byte, error) { return tombstoneID(k, key) }
	}
	if len(columns) == 0 {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(columns)), b.columns(s, columns)
}

// columns maps a record to an object of the columns that expressions fill.
func (b *binder) columns(s *Sink, exprs map[string]string) error {
	row, err := rowOf(b.env, exprs)
	if err != nil {
		return err
	}
	var v cel.Vars
	s.Map = func(dst []record.Record, r *record.Record) ([]record.Record, error) {
		if r.Tombstone() {
			return append(dst, *r), nil
		}
		v.Reset(r)
		value, err := row(&v)
		if err != nil {
			return dst, err
		}
		out := *r
		out.Value = value
		return append(dst, out), nil
	}
	return nil
}

// rowOf makes an object of what expressions give.
func rowOf(env *cel.Env, exprs map[string]string) (func(v *cel.Vars) ([]byte, error), error) {
	names := slices.Sorted(maps.Keys(exprs))
	compiled := make([]*cel.Expr, len(names))
	for i, name := range names {
		var err error
		if compiled[i], err = env.Compile(exprs[name], cel.TypeAny); err != nil {
			return nil, fmt.Errorf("columns.%s: %w", name, err)
		}
	}
	return func(v *cel.Vars) ([]byte, error) {
		obj := []byte{'{'}
		for i, x := range compiled {
			at := len(obj)
			if at > 1 {
				obj = append(obj, ',')
			}
			obj, _ = jsontext.AppendQuote(obj, names[i]) // fails on invalid UTF-8 only, and then replaces it
			var ok bool
			var err error
			if obj, ok, err = x.AppendJSON(append(obj, ':'), v); err != nil {
				return nil, fmt.Errorf("columns.%s: %w", names[i], err)
			}
			if !ok {
				obj = obj[:at]
			}
		}
		return append(obj, '}'), nil
	}, nil
}

// tombstoneID reads the key of a tombstone as the SQLite sink documents it: an
// object or a list of the key columns, or the one column as text.
func tombstoneID(key []byte, names []string) ([]byte, error) {
	var doc record.Doc
	if doc.Reset(key) == nil && !slices.ContainsFunc(names, func(n string) bool { return doc.Find(n) < 0 }) {
		return FieldsID(key, names)
	}
	c := canon{loose: true}
	k := bytes.TrimSpace(key)
	valid := len(k) > 0 && jsontext.Value(k).IsValid()
	if valid && k[0] == '[' {
		var id []byte
		n := 0
		for item := range record.Elements(k) {
			id = append(c.any(id, item), 0)
			n++
		}
		if n == len(names) {
			return id, nil
		}
	}
	if len(names) != 1 {
		return nil, fmt.Errorf("a tombstone's key does not hold the columns %v", names)
	}
	if valid && k[0] == '"' {
		return append(c.any(nil, k), 0), nil
	}
	return append(c.text(nil, string(key)), 0), nil
}

// plain gives the form of an identity that an expression gave as JSON; a string
// is its text, so that it equals a key of the same text.
func plain(raw []byte) []byte {
	if len(raw) > 0 && raw[0] == '"' {
		return []byte(unquote(raw))
	}
	c := canon{loose: true}
	return c.any(nil, raw)
}
