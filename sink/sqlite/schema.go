package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"

	"exactly/internal/tables"
	"exactly/sink"
)

// affinity is what SQLite does to values that go into a column
// (sqlite.org/datatype3.html, section 3.1).
type affinity int

const (
	affinityNone affinity = iota // BLOB
	affinityText
	affinityInteger
	affinityNumeric
	affinityReal
)

// affinityOf derives it from the declared type, by the rules in their order.
func affinityOf(declared string) affinity {
	t := strings.ToUpper(declared)
	has := func(s string) bool { return strings.Contains(t, s) }
	switch {
	case has("INT"):
		return affinityInteger
	case has("CHAR"), has("CLOB"), has("TEXT"):
		return affinityText
	case t == "", t == "ANY", has("BLOB"):
		return affinityNone
	case has("REAL"), has("FLOA"), has("DOUB"):
		return affinityReal
	}
	return affinityNumeric
}

// numeric reports whether text that looks like a number becomes one.
func (a affinity) numeric() bool { return a >= affinityInteger }

// column is one that the sink may write.
type column struct {
	name     string
	affinity affinity
}

// tableInfo is what the database says about a table.
type tableInfo struct {
	columns []column
	primary []string   // of the primary key
	uniques [][]string // of every unique index without a condition
}

// errNoTable: the table is not there.
var errNoTable = errors.New("the table does not exist")

// inspect looks at a table of the database.
func (c *conn) inspect(ctx context.Context, table string) (*tableInfo, error) {
	kind := ""
	err := c.query(ctx, "SELECT type FROM pragma_table_list WHERE schema = 'main' AND lower(name) = lower(?)",
		[]driver.Value{table}, func(row []driver.Value) error {
			kind, _ = row[0].(string)
			return nil
		})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for table %s: %w", table, err)
	case kind == "":
		return nil, errNoTable
	case kind != "table":
		return nil, sink.Fatal(fmt.Errorf("%s is a %s: the sink writes to ordinary tables only", table, kind))
	}
	info := &tableInfo{}
	if err := c.inspectColumns(ctx, table, info); err != nil {
		return nil, fmt.Errorf("look at the columns of table %s: %w", table, err)
	}
	if err := c.inspectIndexes(ctx, table, info); err != nil {
		return nil, fmt.Errorf("look at the indexes of table %s: %w", table, err)
	}
	return info, nil
}

func (c *conn) inspectColumns(ctx context.Context, table string, info *tableInfo) error {
	type part struct {
		name string
		at   int64
	}
	var pk []part
	err := c.query(ctx, "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", []driver.Value{table}, func(row []driver.Value) error {
		name, _ := row[0].(string)
		declared, _ := row[1].(string)
		if at, _ := row[2].(int64); at > 0 {
			pk = append(pk, part{name, at})
		}
		if hidden, _ := row[3].(int64); hidden == 0 { // else generated: nobody writes it
			info.columns = append(info.columns, column{name: name, affinity: affinityOf(declared)})
		}
		return nil
	})
	sort.Slice(pk, func(i, j int) bool { return pk[i].at < pk[j].at })
	for _, p := range pk {
		info.primary = append(info.primary, p.name)
	}
	return err
}

func (c *conn) inspectIndexes(ctx context.Context, table string, info *tableInfo) error {
	byName := map[string][]string{}
	err := c.query(ctx, `SELECT l.name, i.name FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i
		WHERE l."unique" = 1 AND l.partial = 0`, []driver.Value{table}, func(row []driver.Value) error {
		index, _ := row[0].(string)
		col, _ := row[1].(string) // NULL: an expression, which is no column
		byName[index] = append(byName[index], col)
		return nil
	})
	for _, index := range slices.Sorted(maps.Keys(byName)) {
		info.uniques = append(info.uniques, byName[index])
	}
	return err
}

// find gives the index of a column, or -1.
func (t *tableInfo) find(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// unique reports whether exactly these columns identify a row.
func (t *tableInfo) unique(key []string) bool {
	return tables.SameColumns(t.primary, key) || slices.ContainsFunc(t.uniques, func(cols []string) bool { return tables.SameColumns(cols, key) })
}

// missing says that a column does not exist, with what it may have been meant.
func (t *tableInfo) missing(setting, table, col string) error {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return tables.Missing(setting, table, col, names)
}

// createTable gives the statement that makes the table.
func (c Config) createTable(versionColumn string) string {
	cols := tables.KeyFirst(c.Key, slices.Collect(maps.Keys(c.Schema)))
	var defs []string
	add := func(name, definition string) {
		defs = append(defs, strings.TrimRight(tables.Quote(name)+" "+definition, " "))
	}
	for _, col := range cols {
		add(col, c.Schema[col])
	}
	own := func(name, definition string) {
		if _, ok := c.Schema[name]; !ok {
			add(name, definition)
		}
	}
	if c.Mode == modeUpsert {
		switch {
		case c.Version == "":
			own(tables.ColumnOrder, "BLOB")
		case versionColumn == tables.ColumnVersion:
			own(tables.ColumnVersion, "")
		}
		if c.InsertCount {
			own(columnCount, "INTEGER NOT NULL DEFAULT 1")
		}
		if !c.namesPrimaryKey() {
			defs = append(defs, "PRIMARY KEY ("+tables.QuoteAll(c.Key)+")")
		}
	}
	return "CREATE TABLE IF NOT EXISTS " + tables.Quote(c.Table) + " (" + strings.Join(defs, ", ") + ")"
}

// namesPrimaryKey: a definition in the schema says PRIMARY KEY itself.
func (c Config) namesPrimaryKey() bool {
	for _, def := range c.Schema {
		if primaryKey.MatchString(def) {
			return true
		}
	}
	return false
}

var primaryKey = regexp.MustCompile(`(?i)\bprimary\s+key\b`)

// tryCreate lets SQLite judge the schema in a database of its own in memory, so
// that a definition it does not take is an error of the settings and not of a
// running pipeline.
func (c Config) tryCreate() error {
	if !c.Create {
		return nil
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return fmt.Errorf("open a database in memory: %w", err)
	}
	version := tables.VersionColumn(c.Version, c.Columns, func(name string) bool { _, ok := c.Schema[name]; return ok })
	if _, err := db.Exec(c.createTable(version)); err != nil {
		return errors.Join(fmt.Errorf("schema: SQLite does not take it: %w", err), db.Close())
	}
	return db.Close()
}
