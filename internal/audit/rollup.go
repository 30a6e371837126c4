package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/tables"
	"exactly/record"
	"exactly/sink/postgres"
)

// rollupRows is the field that stands for all rows of a key: whether they are what
// the query gives.
const rollupRows = "exactly_rows"

// rollup binds a table that a query fills. What is compared is, for each key that
// the source names, whether the table has what the query gives now; the tables that
// the query reads are under audit as those of their own sinks.
func (b *binder) rollup(s Sink, c postgres.Config) (Sink, error) {
	table, err := postgres.QuoteTable(c.Table)
	if err != nil {
		return s, err
	}
	r := &RollupReader{
		PostgresReader: PostgresReader{DSN: c.DSN, PasswordFile: c.PasswordFile, Table: table, ConnectTimeout: c.ConnectTimeout},
		Key:            c.Key, Query: c.Query,
	}
	if len(c.Columns) > 0 {
		if err := b.columns(&s, c.Columns); err != nil {
			return s, err
		}
	}
	seen := map[hash]bool{}
	row := s.Map
	s.Map = func(dst []record.Record, rec *record.Record) ([]record.Record, error) {
		keys := []record.Record{*rec}
		if row != nil {
			var err error
			if keys, err = row(nil, rec); err != nil {
				return dst, err
			}
		}
		var doc record.Doc
		if err := doc.Reset(keys[0].Value); err != nil {
			return dst, err
		}
		id, err := FieldsID(keys[0].Value, c.Key)
		if err != nil || seen[sum(id)] {
			return dst, err
		}
		seen[sum(id)] = true
		value, err := r.add(&doc)
		out := *rec
		out.Value = value
		return append(dst, out), err
	}
	s.ID = func(r *record.Record) ([]byte, error) { return FieldsID(r.Value, c.Key) }
	s.Reader = r
	return s, nil
}

// RollupReader reads a table that a query fills, one record for each key.
type RollupReader struct {
	PostgresReader
	Key   []string
	Query string

	keys [][]byte // JSON objects: those of the source
}

// add takes a key in, and gives what the table is to hold of it.
func (r *RollupReader) add(doc *record.Doc) ([]byte, error) {
	key := []byte{'{'}
	for i, name := range r.Key {
		raw, ok := doc.Get(name)
		if !ok || string(raw) == "null" {
			return nil, fmt.Errorf("the key column %s has no value", name)
		}
		if i > 0 {
			key = append(key, ',')
		}
		key = append(fmt.Appendf(key, "%q:", name), raw...)
	}
	key = append(key, '}')
	r.keys = append(r.keys, key)
	return rollupValue(key, true), nil
}

func rollupValue(key []byte, right bool) []byte {
	return fmt.Appendf(nil, "%s,%q:%t}", bytes.TrimSuffix(key, []byte("}")), rollupRows, right)
}

// Shape needs no look at the table.
func (r *RollupReader) Shape(context.Context) (Shape, error) {
	return Shape{Mode: Latest, Loose: true, Fields: append(slices.Clone(r.Key), rollupRows)}, nil
}

// rollupKeys is how many keys one statement compares.
const rollupKeys = 500

// Read compares the keys of the source, and gives those that only the table has.
func (r *RollupReader) Read(ctx context.Context, fn func(*Held) error) error {
	pg, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close(pg)
	sql, err := r.statement(ctx, pg)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for keys := range slices.Chunk(r.keys, rollupKeys) {
		if err := r.compare(ctx, pg, sql, keys, known, fn); err != nil {
			return err
		}
	}
	cols := tables.QuoteAll(r.Key)
	res := pg.ExecParams(ctx, "SELECT row_to_json(exactly_key)::text FROM (SELECT DISTINCT "+cols+" FROM "+r.Table+") exactly_key", nil, nil, nil, nil).Read()
	for _, row := range res.Rows {
		if !known[string(row[0])] {
			if err := fn(r.held(row[0], true)); err != nil {
				return err
			}
		}
	}
	if res.Err != nil {
		return fmt.Errorf("read the keys of table %s: %w", r.Table, res.Err)
	}
	return nil
}

func (r *RollupReader) held(key []byte, right bool) *Held {
	return &Held{Record: record.Record{Value: rollupValue(key, right)}, Place: fmt.Sprintf("%s rows of %s", r.Table, key)}
}

// compare looks at some keys. One that the database does not take is a dead letter,
// and is in no table.
func (r *RollupReader) compare(ctx context.Context, pg *pgconn.PgConn, sql string, keys [][]byte, known map[string]bool, fn func(*Held) error) error {
	res := pg.ExecParams(ctx, sql, [][]byte{jsonArray(keys)}, nil, nil, nil).Read()
	var refused *pgconn.PgError
	if errors.As(res.Err, &refused) && strings.HasPrefix(refused.Code, "22") {
		if len(keys) == 1 {
			return nil
		}
		if err := r.compare(ctx, pg, sql, keys[:len(keys)/2], known, fn); err != nil {
			return err
		}
		return r.compare(ctx, pg, sql, keys[len(keys)/2:], known, fn)
	}
	if res.Err != nil {
		return fmt.Errorf("compare table %s with its query: %w", r.Table, res.Err)
	}
	for _, row := range res.Rows {
		known[string(row[0])] = true
		// By the key as the source has it, which the table may write in another way.
		if err := fn(r.held(row[2], string(row[1]) == "t")); err != nil {
			return err
		}
	}
	return nil
}

func jsonArray(items [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(items, []byte(","))...), ']')
}

// statement compares what the query gives of some keys, as the table's columns take
// it, with what the table has of them. Its parameter is a list of keys.
func (r *RollupReader) statement(ctx context.Context, pg *pgconn.PgConn) (string, error) {
	keys := tables.QuoteAll(r.Key)
	with := "WITH exactly_input AS (SELECT exactly_j, exactly_key.* FROM jsonb_array_elements($1::jsonb) AS exactly_list(exactly_j)" +
		" CROSS JOIN LATERAL jsonb_populate_record(NULL::" + r.Table + ", exactly_j) AS exactly_key), affected AS (SELECT DISTINCT " + keys + " FROM exactly_input), exactly_fresh AS (\n" +
		strings.TrimRight(r.Query, "; \t\r\n") + "\n)"
	d, err := pg.Prepare(ctx, "", with+" SELECT * FROM exactly_fresh", nil)
	if err != nil {
		return "", fmt.Errorf("query of table %s: %w", r.Table, err)
	}
	cols := make([]string, len(d.Fields))
	for i, f := range d.Fields {
		cols[i] = f.Name
	}
	all := func(from string) string {
		return "SELECT " + keys + ", jsonb_agg(exactly_v ORDER BY exactly_v) AS exactly_has FROM (SELECT " + keys +
			", (SELECT to_jsonb(exactly_c) FROM (SELECT " + tables.QuoteAll(cols) + ") exactly_c) AS exactly_v FROM " + from + ") exactly_rows GROUP BY " + keys
	}
	return with + ", exactly_want AS (" + all("(SELECT exactly_typed.* FROM exactly_fresh exactly_f CROSS JOIN LATERAL jsonb_populate_record(NULL::"+r.Table+", to_jsonb(exactly_f)) AS exactly_typed) exactly_made") +
		"), exactly_have AS (" + all(r.Table) + ") SELECT (SELECT row_to_json(exactly_k) FROM (SELECT " + keys + ") exactly_k)::text, " +
		"exactly_want.exactly_has IS NOT DISTINCT FROM exactly_have.exactly_has, exactly_j::text" +
		" FROM exactly_input LEFT JOIN exactly_want USING (" + keys + ") LEFT JOIN exactly_have USING (" + keys + ")", nil
}
