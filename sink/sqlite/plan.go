package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"exactly/internal/tables"
	"exactly/sink"
)

// plan is how records become rows of a table that has been looked at.
type plan struct {
	cfg   Config
	x     tables.Exprs
	info  *tableInfo
	index map[string]int // columns that fields go to by name
	exprs []int          // columns that expressions fill, where columns says so
	key   []int
	// Columns of the sink's own, -1 where they are not used.
	version, order, count int

	shapes map[string]*shape
}

// errCreate: the table is not there and may be made.
var errCreate = errors.New("the table does not exist")

// newPlan looks at the table and holds the settings against it.
func newPlan(ctx context.Context, c *conn, cfg Config, x tables.Exprs) (*plan, error) {
	info, err := c.inspect(ctx, cfg.Table)
	if errors.Is(err, errNoTable) {
		if cfg.Create {
			return nil, errCreate
		}
		return nil, sink.Fatal(fmt.Errorf("table: %s does not exist in %s; create it, or set create: true and schema", cfg.Table, cfg.Path))
	}
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	p := &plan{
		cfg: cfg, x: x, info: info, version: -1, order: -1, count: -1,
		index: map[string]int{}, shapes: map[string]*shape{},
	}
	for i, col := range info.columns {
		p.index[col.name] = i
	}
	if err := p.resolve(); err != nil {
		return nil, sink.Fatal(err)
	}
	return p, p.try(ctx, c)
}

// resolve finds the columns that the settings name.
func (p *plan) resolve() error {
	for _, col := range slices.Sorted(maps.Keys(p.cfg.Schema)) {
		if p.info.find(col) < 0 {
			return p.info.missing("schema", p.cfg.Table, col)
		}
	}
	for _, col := range slices.Sorted(maps.Keys(p.x.Columns)) {
		i := p.info.find(col)
		if i < 0 {
			return p.info.missing("columns", p.cfg.Table, col)
		}
		p.exprs = append(p.exprs, i)
	}
	slices.Sort(p.exprs)
	for _, col := range p.cfg.Key {
		i := p.info.find(col)
		if i < 0 {
			return p.info.missing("key", p.cfg.Table, col)
		}
		p.key = append(p.key, i)
	}
	if p.cfg.Mode == modeAppend {
		return nil
	}
	if !p.info.unique(p.cfg.Key) {
		return fmt.Errorf("key: table %s has no UNIQUE or PRIMARY KEY constraint of exactly (%s), so that rows of one key could be doubled; make one with CREATE UNIQUE INDEX … ON %s (%s)",
			p.cfg.Table, strings.Join(p.cfg.Key, ", "), tables.Quote(p.cfg.Table), tables.QuoteAll(p.cfg.Key))
	}
	return p.resolveOwn()
}

// resolveOwn finds the columns that keep order and count.
func (p *plan) resolveOwn() error {
	if p.cfg.InsertCount {
		if p.count = p.info.find(columnCount); p.count < 0 {
			return fmt.Errorf("insert_count: table %s has no column %s; make one with ALTER TABLE %s ADD COLUMN %s INTEGER NOT NULL DEFAULT 1",
				p.cfg.Table, columnCount, tables.Quote(p.cfg.Table), columnCount)
		}
		delete(p.index, columnCount)
	}
	if p.x.Version == nil {
		p.order = p.info.find(tables.ColumnOrder)
		delete(p.index, tables.ColumnOrder)
		return nil
	}
	col := tables.VersionColumn(p.cfg.Version, p.cfg.Columns, func(name string) bool { return p.info.find(name) >= 0 })
	if p.version = p.info.find(col); p.version < 0 {
		return fmt.Errorf("version: table %s has no column %s to keep the version of each row in; make one with ALTER TABLE %s ADD COLUMN %s",
			p.cfg.Table, col, tables.Quote(p.cfg.Table), col)
	}
	if col == tables.ColumnVersion {
		delete(p.index, tables.ColumnVersion)
	}
	return nil
}

// try prepares the statements that every record needs, so that what the
// database has against them is said at the start.
func (p *plan) try(ctx context.Context, c *conn) error {
	cols := slices.Clone(p.key)
	if p.cfg.Mode == modeAppend {
		cols = []int{0}
	}
	s, err := c.prepare(ctx, p.insert(cols, p.order >= 0, 1))
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return fmt.Errorf("table: the statement for %s is refused: %w", p.cfg.Table, err)
	}
	return nil
}

func (p *plan) close() {
	for _, s := range p.shapes {
		s.close()
	}
}

// insert writes the statement for rows of the given columns.
func (p *plan) insert(cols []int, ordered bool, rows int) string {
	var b strings.Builder
	b.WriteString("INSERT OR ABORT INTO " + tables.Quote(p.cfg.Table) + ` AS "dst" (`)
	// OR ABORT: a constraint declared with ON CONFLICT REPLACE would otherwise
	// delete another row, one with IGNORE would lose this one.
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.name(c))
	}
	tuple := "(?" + strings.Repeat(", ?", len(cols)-1)
	if p.count >= 0 {
		b.WriteString(", " + p.name(p.count))
		tuple += ", 1"
	}
	b.WriteString(") VALUES " + tuple + ")" + strings.Repeat(", "+tuple+")", rows-1))
	if p.cfg.Mode == modeUpsert {
		b.WriteString(" ON CONFLICT (" + tables.QuoteAll(p.cfg.Key) + ") DO " + p.update(cols, ordered))
	}
	return b.String()
}

// update is what happens to the row that is there already.
func (p *plan) update(cols []int, ordered bool) string {
	newer := p.newer(ordered)
	var set, differs []string
	for _, c := range cols {
		if slices.Contains(p.key, c) {
			continue
		}
		name := p.name(c)
		val := "excluded." + name
		if p.count >= 0 && newer != "" { // the count rises whatever becomes of the rest
			val = "CASE WHEN " + newer + " THEN " + val + ` ELSE "dst".` + name + " END"
		}
		set = append(set, name+" = "+val)
		differs = append(differs, `"dst".`+name+" IS NOT excluded."+name+" COLLATE BINARY")
	}
	if p.count >= 0 {
		name := p.name(p.count)
		return "UPDATE SET " + strings.Join(append(set, name+` = COALESCE("dst".`+name+", 1) + 1"), ", ")
	}
	if len(set) == 0 {
		return "NOTHING"
	}
	where := "(" + strings.Join(differs, " OR ") + ")" // no trigger fires for a row that stays as it is
	if newer != "" {
		where = newer + " AND " + where
	}
	return "UPDATE SET " + strings.Join(set, ", ") + " WHERE " + where
}

// orderPart takes bytes of a place, for tables.NotOlder.
const orderPart = "substr(%s, %d, %d)"

// newer is the condition that the record is not older than the row; "": none.
func (p *plan) newer(ordered bool) string {
	switch {
	case p.version >= 0:
		v := p.name(p.version)
		return fmt.Sprintf(`("dst".%s IS NULL OR "dst".%s <= excluded.%s)`, v, v, v)
	case ordered:
		o := p.name(p.order)
		return tables.NotOlder(`"dst".`+o, "excluded."+o, orderPart)
	}
	return ""
}

// remove writes the statement for a delete, with the values of the key and then
// the order as parameters. A column without a type holds numbers as numbers and
// text as text, and a Kafka key does not say which: it gets both.
func (p *plan) remove(ordered bool) string {
	var conds []string
	n := 0
	param := func() string {
		n++
		return "?" + strconv.Itoa(n)
	}
	for _, k := range p.key {
		if p.info.columns[k].affinity == affinityNone {
			conds = append(conds, p.name(k)+" IN ("+param()+", "+param()+")")
			continue
		}
		conds = append(conds, p.name(k)+" = "+param())
	}
	if ordered {
		conds = append(conds, tables.NotOlder(p.name(p.order), param(), orderPart))
	}
	return "DELETE FROM " + tables.Quote(p.cfg.Table) + " WHERE " + strings.Join(conds, " AND ")
}

func (p *plan) name(col int) string { return tables.Quote(p.info.columns[col].name) }
