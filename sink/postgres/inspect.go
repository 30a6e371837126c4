package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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
	full  string // with them
	kept  string // cast with them: of a domain, the type below
	base  string // the type's name, of a domain that of the type below
	kind  kind
	elem  kind // of an array's elements
	scale int  // digits behind the point of a numeric, or of an array of them; anyScale
	exact bool // values are equal only if their text is (after canonical)
	width int  // of a varchar(n); -1: any
	round bool // it keeps fewer digits of a second than a time may have, or no smaller fields
	loose bool // its collation takes different texts for the same
}

// anyScale: a numeric keeps every digit.
const anyScale = math.MinInt

// tableInfo is what the database says about a table.
type tableInfo struct {
	name    tableName // as the settings have it, for people
	at      tableName // with its schema, for statements: each would look for the short one anew
	oid     string
	columns []column
	filled  []string // names of those that the database fills, and nobody else
	guarded bool     // row-level security applies, under which there is no COPY
	uniques []unique // indexes that ON CONFLICT can name
	print   string   // see printOf
	rekeys  bool     // a trigger may change a row before its key is looked for
	above   []string // the tables that it is a part of, by oid
}

// unique is a unique index over plain columns.
type unique struct {
	columns []string
	loose   bool // as column.loose: an index may have another collation than its column
}

// errNoTable: the table is not there.
var errNoTable = errors.New("the table does not exist")

// baseOf gives the type below a domain, and its modifier. A domain may be one over a
// domain; the modifier is that of any of them.
func baseOf(oid string) string {
	return `LATERAL (WITH RECURSIVE below(oid, base, mod) AS (
		SELECT t.oid, t.typbasetype, t.typtypmod FROM pg_type t WHERE t.oid = ` + oid + `
		UNION ALL SELECT t.oid, t.typbasetype, t.typtypmod FROM below JOIN pg_type t ON t.oid = below.base)
		SELECT max(oid) FILTER (WHERE base = 0) AS oid, max(mod) AS mod FROM below)`
}

// typesOf goes on from a type d to that of an array's elements, which may be a domain.
var typesOf = ` JOIN pg_type b ON b.oid = d.oid
	LEFT JOIN ` + baseOf("b.typelem") + ` de ON b.typcategory = 'A'
	LEFT JOIN pg_type e ON e.oid = de.oid`

// A trigger before INSERT may change what the key is, so that keys which differ as text
// are the same (lower(id)). Those of all parts count.
const rekeysOf = `EXISTS (WITH RECURSIVE part(oid) AS (SELECT c.oid UNION SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid)
	SELECT FROM part JOIN pg_trigger g ON g.tgrelid = part.oid WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND g.tgtype & 7 = 7)`

var columnsQuery = `SELECT a.attname, format_type(b.oid, -1), b.typname, b.typcategory, b.typtype, greatest(a.atttypmod, d.mod, de.mod),
	a.attgenerated <> '' OR a.attidentity = 'a', coalesce(co.collisdeterministic, true), coalesce(e.typname, ''), format_type(a.atttypid, a.atttypmod), format_type(b.oid, greatest(a.atttypmod, d.mod))
	FROM pg_attribute a
	JOIN ` + baseOf("a.atttypid") + ` d ON true` + typesOf + `
	LEFT JOIN pg_collation co ON co.oid = a.attcollation
	WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// Only indexes over plain columns, without a condition, valid, and checked at
// once: others cannot be what ON CONFLICT names.
const uniqueColumnsQuery = `SELECT x.indexrelid::text, a.attname, coalesce(NOT co.collisdeterministic, false)
	FROM pg_index x
	JOIN LATERAL unnest(x.indkey::int2[], x.indcollation::oid[]) WITH ORDINALITY AS k(attnum, coll, at) ON k.at <= x.indnkeyatts
	JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
	LEFT JOIN pg_collation co ON co.oid = k.coll
	WHERE x.indrelid = $1::oid AND x.indisunique AND x.indisvalid AND x.indimmediate AND x.indpred IS NULL AND x.indexprs IS NULL
	ORDER BY x.indexrelid, k.at`

// inspect looks at a table; at: where it is, if that is known.
func (c *conn) inspect(ctx context.Context, name, at tableName) (*tableInfo, error) {
	rows, err := c.query(ctx, `SELECT c.oid, c.relkind, row_security_active(c.oid), n.nspname, c.relname, `+printOf+`, `+rekeysOf+`,
			(SELECT string_agg(relid::oid::text, ' ') FROM pg_partition_ancestors(c.oid))
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`, []byte(at.String()))
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
	if err := c.safe(ctx, name, oid); err != nil {
		return nil, err
	}
	t := &tableInfo{
		name: name, at: tableName{schema: string(rows[0][3]), table: string(rows[0][4])},
		oid: string(oid), guarded: string(rows[0][2]) == "t",
		print: string(rows[0][5]), rekeys: string(rows[0][6]) == "t", above: strings.Fields(string(rows[0][7])),
	}
	if rows, err = c.query(ctx, columnsQuery, oid); err != nil {
		return nil, fmt.Errorf("look at the columns of table %s: %w", name, err)
	}
	for _, r := range rows {
		if string(r[6]) == "t" {
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
			t.uniques, last = append(t.uniques, unique{}), index
		}
		u := &t.uniques[len(t.uniques)-1]
		u.columns, u.loose = append(u.columns, string(r[1])), u.loose || string(r[2]) == "t"
	}
	return t, nil
}

// A table is what it says it is, or a part of it is.
const partsQuery = `WITH RECURSIVE part(oid) AS (SELECT $1::oid UNION SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid)
	SELECT c.oid::regclass, CASE WHEN c.relkind = 'f' THEN 'f' ELSE c.relpersistence END
	FROM part JOIN pg_class c ON c.oid = part.oid
	WHERE c.relkind = 'f' OR c.relpersistence <> 'p' OR EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type <> '1')`

// safe refuses tables that may hold something else than what was written to them.
func (c *conn) safe(ctx context.Context, name tableName, oid []byte) error {
	rows, err := c.query(ctx, partsQuery, oid)
	if err != nil {
		return fmt.Errorf("look at table %s: %w", name, err)
	}
	for _, r := range rows {
		switch {
		case string(r[1]) == "f":
			return sink.Fatal(fmt.Errorf("table: %s is a foreign table, whose server commits by itself, so that rows could be doubled; detach it, or let the sink write to the parts that are here", r[0]))
		case string(r[1]) == "u":
			return sink.Fatal(fmt.Errorf("table: %s is UNLOGGED, which a crash of the server empties, and nothing would write its rows again; ALTER TABLE %s SET LOGGED", r[0], r[0]))
		case string(r[1]) == "t":
			return sink.Fatal(fmt.Errorf("table: %s is a temporary table, which no other session sees", r[0]))
		default:
			return sink.Fatal(fmt.Errorf("table: %s has rules, which COPY passes over and ON CONFLICT does not allow; use a trigger, or let the sink write the table that the rule means", r[0]))
		}
	}
	return nil
}

// columnOf reads a row of columnsQuery.
func columnOf(r [][]byte) column {
	base, category, typtype := string(r[2]), string(r[3]), string(r[4])
	c := column{name: string(r[0]), cast: string(r[1]), base: base, full: string(r[9]), kept: string(r[10]), scale: anyScale, width: -1, loose: string(r[7]) != "t"}
	if category == "A" {
		c.kind, c.elem = kindArray, kindOf(string(r[8]), "")
		if c.elem == kindNumeric {
			c.scale = scaleOf(r[5])
		}
		return c
	}
	c.round = rounds(base, r[5])
	switch c.kind = kindOf(base, category); c.kind {
	case kindInteger, kindUUID:
		c.exact = true
	case kindNumeric:
		c.scale = scaleOf(r[5])
	case kindText:
		// varchar(n) cuts blanks off, so that texts that differ may be the same key.
		if mod, err := strconv.Atoi(string(r[5])); err == nil && mod >= varHeader && base != "text" {
			c.width = mod - varHeader
		}
		c.exact = !c.loose && (base == "text" || base == "varchar" && c.width < 0)
	default:
		c.exact = typtype == "e"
	}
	return c
}

// rounds reports whether a type of time has a modifier that takes digits away: those of
// a second that it keeps, of an interval with its fields (timestamp.c).
func rounds(base string, modifier []byte) bool {
	const digits, all = 6, 0x7fff0006
	mod, err := strconv.Atoi(string(modifier))
	switch base {
	case "timestamptz", "timestamp", "timetz", "time":
		return err == nil && mod >= 0 && mod < digits
	case "interval":
		return err == nil && mod >= 0 && mod != all
	}
	return false
}

// varHeader is what the modifier of varchar(n) has more than n (varchar.c).
const varHeader = 4

func kindOf(base, category string) kind {
	switch base {
	case "int2", "int4", "int8":
		return kindInteger
	case "numeric":
		return kindNumeric
	case "bool":
		return kindBool
	case "json", "jsonb":
		return kindJSON
	case "bytea":
		return kindBytes
	case "uuid":
		return kindUUID
	case "text", "varchar":
		return kindText
	}
	if category == "S" { // citext and the like
		return kindText
	}
	return kindOther
}

// scaleOf finds the digits behind the point that numeric(p,s) keeps: in the
// type's modifier, which is ((p << 16) | (s & 0x7ff)) + 4 (numeric.c). From version
// 15 on they may be negative.
func scaleOf(modifier []byte) int {
	mod, err := strconv.Atoi(string(modifier))
	if err != nil || mod < 4 {
		return anyScale
	}
	s := (mod - 4) & 0x7ff
	if s >= 0x400 {
		s -= 0x800
	}
	return s
}

// find gives the index of a column, or -1.
func (t *tableInfo) find(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// unique reports whether exactly these columns identify a row.
func (t *tableInfo) unique(key []string) bool {
	return slices.ContainsFunc(t.uniques, func(u unique) bool { return tables.SameColumns(u.columns, key) })
}

// loosely reports whether an index takes different keys for the same.
func (t *tableInfo) loosely(key []string) bool {
	return slices.ContainsFunc(t.uniques, func(u unique) bool { return u.loose && tables.SameColumns(u.columns, key) })
}

// missing says that a column does not exist, with what it may have been meant.
func (t *tableInfo) missing(setting, col string) error {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return tables.Missing(setting, t.name.String(), col, names)
}
