package audit

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"exactly/internal/tables"
)

// SQLiteReader reads the rows of a table, by the standard driver and read-only.
type SQLiteReader struct {
	Path   string
	Table  string
	Upsert bool              // one row per key, else every record is a row
	Fields map[string]string // column to field, where they differ
	Ignore []string          // columns that are not of the record
	Only   []string          // columns that the sink fills; nil: all but Ignore
	Writes string            // column that counts writes; "": none
	Any    bool              // a row may be of any record of its key, not of the last
}

// Shape looks at the table's columns.
func (s *SQLiteReader) Shape(ctx context.Context) (Shape, error) {
	db, err := s.open()
	if err != nil {
		return Shape{}, err
	}
	defer db.Close()
	cols, err := s.columns(ctx, db)
	if err != nil {
		return Shape{}, err
	}
	shape := Shape{Loose: true, Fields: []string{}, Any: s.Any}
	if s.Upsert {
		shape.Mode, shape.Deletes = Latest, true
	}
	for _, c := range cols {
		if f := s.field(c); f != "" {
			shape.Fields = append(shape.Fields, f)
		}
	}
	return shape, nil
}

// Read reads all rows, as one statement sees them, in the order in which they
// were inserted.
func (s *SQLiteReader) Read(ctx context.Context, fn func(*Held) error) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	cols, err := s.columns(ctx, db)
	if err != nil {
		return err
	}
	exprs := make([]string, len(cols))
	for i, c := range cols {
		exprs[i] = "+" + tables.Quote(c) // the + keeps the driver from parsing dates
	}
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(exprs, ", ")+" FROM "+tables.Quote(s.Table)+" ORDER BY 1=1, rowid")
	if err != nil {
		return fmt.Errorf("read table %s: %w", s.Table, err)
	}
	defer rows.Close()
	values, ptrs := make([]any, len(cols)), make([]any, len(cols))
	for i := range values {
		ptrs[i] = &values[i]
	}
	for n := 1; rows.Next(); n++ {
		if err := rows.Scan(ptrs...); err != nil {
			return fmt.Errorf("read row %d of table %s: %w", n, s.Table, err)
		}
		h, err := s.held(cols, values)
		if err != nil {
			return fmt.Errorf("row %d of table %s: %w", n, s.Table, err)
		}
		h.Place = fmt.Sprintf("%s row %d", s.Table, n)
		if err := fn(&h); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read table %s: %w", s.Table, err)
	}
	return nil
}

// held makes a JSON object of a row.
func (s *SQLiteReader) held(cols []string, values []any) (Held, error) {
	var h Held
	obj := []byte{'{'}
	var err error
	for i, c := range cols {
		if n, ok := values[i].(int64); ok && c == s.Writes {
			h.Writes = n
		}
		f := s.field(c)
		if f == "" {
			continue
		}
		if len(obj) > 1 {
			obj = append(obj, ',')
		}
		if obj, err = jsontext.AppendQuote(obj, f); err != nil {
			return h, fmt.Errorf("column %s: %w", c, err)
		}
		if obj, err = appendColumn(append(obj, ':'), values[i]); err != nil {
			return h, fmt.Errorf("column %s: %w", c, err)
		}
	}
	h.Value = append(obj, '}')
	if !s.Upsert {
		h.Stream = s.Table
	}
	return h, nil
}

func appendColumn(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case int64, float64:
		return fmt.Append(dst, v), nil
	case string:
		return jsontext.AppendQuote(dst, v)
	case []byte:
		if !utf8.Valid(v) {
			return jsontext.AppendQuote(dst, fmt.Sprintf("%x", v))
		}
		return jsontext.AppendQuote(dst, string(v))
	}
	return dst, fmt.Errorf("unexpected type %T", v)
}

// field gives the field that a column holds, "" where it holds none.
func (s *SQLiteReader) field(column string) string {
	if column == s.Writes || slices.Contains(s.Ignore, column) || s.Only != nil && !slices.Contains(s.Only, column) {
		return ""
	}
	if f, ok := s.Fields[column]; ok {
		return f
	}
	return column
}

func (s *SQLiteReader) open() (*sql.DB, error) {
	path, err := filepath.Abs(s.Path)
	if err != nil {
		return nil, fmt.Errorf("path of database %s: %w", s.Path, err)
	}
	if _, err := os.Stat(path); err != nil { // the driver would say "out of memory"
		return nil, fmt.Errorf("open database: %w", err)
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "mode=ro&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", s.Path, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (s *SQLiteReader) columns(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT name FROM pragma_table_info(?)", s.Table)
	if err != nil {
		return nil, fmt.Errorf("columns of table %s in %s: %w", s.Table, s.Path, err)
	}
	defer rows.Close()
	var cols []string
	for rows.Next() {
		var c string
		if err := rows.Scan(&c); err != nil {
			return nil, fmt.Errorf("columns of table %s in %s: %w", s.Table, s.Path, err)
		}
		cols = append(cols, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("columns of table %s in %s: %w", s.Table, s.Path, err)
	}
	if len(cols) == 0 {
		return nil, fmt.Errorf("there is no table %s in %s", s.Table, s.Path)
	}
	return cols, nil
}
