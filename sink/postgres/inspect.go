package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"exactly/internal/tables"
	"exactly/sink"
)

// kind is how values of a type are written.
type kind int

const (
	kindOther kind = iota
	kindText
	kindInteger
	kindNumeric
	kindBool
	kindJSON
	kindBytes
	kindUUID
	kindArray
)

// column is one that the sink may write.
type column struct {
	name  string
	cast  string // the type to read its text as, without length or scale, which the assignment applies
	kind  kind
	scale int  // digits behind the point of a numeric; -1: any
	exact bool // values are equal only if their text is (after canonical)
	plain bool // its type has no equality of its own: compared as text
}

// tableInfo is what the database says about a table.
type tableInfo struct {
	name    tableName
	oid     string
	columns []column
	filled  []string   // names of those that the database fills, and nobody else
	guarded bool       // row-level security applies, under which there is no COPY
	uniques [][]string // of every unique index that ON CONFLICT can name
}

// errNoTable: the table is not there.
var errNoTable = errors.New("the table does not exist")

const columnsQuery = `SELECT a.attname, format_type(b.oid, -1), b.typname, b.typcategory, b.typtype, a.atttypmod, t.typtypmod,
	a.attgenerated <> '' OR a.attidentity = 'a', coalesce(co.collisdeterministic, true), coalesce(e.typname, '')
	FROM pg_attribute a
	JOIN pg_type t ON t.oid = a.atttypid
	JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
	LEFT JOIN pg_type e ON e.oid = b.typelem AND b.typcategory = 'A'
	LEFT JOIN pg_collation co ON co.oid = a.attcollation
	WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// Only indexes over plain columns, without a condition, valid, and checked at
// once: others cannot be what ON CONFLICT names.
const uniqueColumnsQuery = `SELECT x.indexrelid::text, a.attname
	FROM pg_index x
	JOIN LATERAL unnest(x.indkey::int2[]) WITH ORDINALITY AS k(attnum, at) ON k.at <= x.indnkeyatts
	JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
	WHERE x.indrelid = $1::oid AND x.indisunique AND x.indisvalid AND x.indimmediate AND x.indpred IS NULL AND x.indexprs IS NULL
	ORDER BY x.indexrelid, k.at`

// inspect looks at a table.
func (c *conn) inspect(ctx context.Context, name tableName) (*tableInfo, error) {
	rows, err := c.query(ctx, `SELECT c.oid, c.relkind, row_security_active(c.oid) FROM pg_class c WHERE c.oid = to_regclass($1)`, []byte(name.String()))
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for table %s: %w", name, err)
	case len(rows) == 0:
		return nil, errNoTable
	}
	oid, relkind := rows[0][0], string(rows[0][1])
	if relkind != "r" && relkind != "p" {
		return nil, sink.Fatal(fmt.Errorf("%s is no table (relkind %s): the sink writes to tables, partitioned ones too", name, relkind))
	}
	t := &tableInfo{name: name, oid: string(oid), guarded: string(rows[0][2]) == "t"}
	if rows, err = c.query(ctx, columnsQuery, oid); err != nil {
		return nil, fmt.Errorf("look at the columns of table %s: %w", name, err)
	}
	for _, r := range rows {
		if string(r[7]) == "t" {
			t.filled = append(t.filled, string(r[0]))
			continue
		}
		t.columns = append(t.columns, columnOf(r))
	}
	if rows, err = c.query(ctx, uniqueColumnsQuery, oid); err != nil {
		return nil, fmt.Errorf("look at the indexes of table %s: %w", name, err)
	}
	last := ""
	for _, r := range rows {
		if index := string(r[0]); index != last {
			t.uniques, last = append(t.uniques, nil), index
		}
		t.uniques[len(t.uniques)-1] = append(t.uniques[len(t.uniques)-1], string(r[1]))
	}
	return t, nil
}

// columnOf reads a row of columnsQuery.
func columnOf(r [][]byte) column {
	base, category, typtype := string(r[2]), string(r[3]), string(r[4])
	c := column{name: string(r[0]), cast: string(r[1]), scale: -1}
	deterministic := string(r[8]) == "t"
	switch {
	case category == "A":
		c.kind, c.plain = kindArray, incomparable(string(r[9]))
	case base == "int2" || base == "int4" || base == "int8":
		c.kind, c.exact = kindInteger, true
	case base == "numeric":
		c.kind, c.scale = kindNumeric, scaleOf(r[5], r[6])
	case base == "bool":
		c.kind = kindBool
	case base == "json" || base == "jsonb":
		c.kind, c.plain = kindJSON, base == "json"
	case base == "bytea":
		c.kind = kindBytes
	case base == "uuid":
		c.kind, c.exact = kindUUID, true
	case base == "text" || base == "varchar":
		// varchar(n) cuts blanks off, so that texts that differ may be the same key.
		c.kind, c.exact = kindText, deterministic && (base == "text" || string(r[5]) == "-1" && string(r[6]) == "-1")
	case category == "S":
		c.kind, c.plain = kindText, true // citext and the like
	case typtype == "e":
		c.exact = true
	default:
		c.plain = incomparable(base)
	}
	return c
}

// incomparable types have no equality, or one of another meaning.
func incomparable(base string) bool {
	return slices.Contains([]string{"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle"}, base)
}

// scaleOf finds the digits behind the point that numeric(p,s) keeps: in the
// type's modifier, which is ((p << 16) | (s & 0x7ff)) + 4 (numeric.c).
func scaleOf(column, domain []byte) int {
	for _, text := range [][]byte{column, domain} {
		if mod, err := strconv.Atoi(string(text)); err == nil && mod >= 4 {
			s := (mod - 4) & 0x7ff
			if s >= 0x400 { // negative scales, from version 15 on
				s -= 0x800
			}
			return max(s, 0)
		}
	}
	return -1
}

// find gives the index of a column, or -1.
func (t *tableInfo) find(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// unique reports whether exactly these columns identify a row.
func (t *tableInfo) unique(key []string) bool {
	return slices.ContainsFunc(t.uniques, func(cols []string) bool { return tables.SameColumns(cols, key) })
}

// missing says that a column does not exist, with what it may have been meant.
func (t *tableInfo) missing(setting, col string) error {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return tables.Missing(setting, t.name.String(), col, names)
}
