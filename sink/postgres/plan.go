package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"exactly/internal/tables"
	"exactly/sink"
)

// plan is how records become rows of a table that has been looked at.
type plan struct {
	spec  Table
	mode  string // upsert, append or replace
	x     tables.Exprs
	info  *tableInfo
	index map[string]int // columns that fields go to by name
	exprs []int          // columns that expressions fill, where columns says so
	key   []int
	// parent are the columns that the Kafka key names: those of key, but for a
	// table of list elements.
	parent []int
	own    map[string]int // audit columns, by their setting
	// Columns of the sink's own, -1 where they are not used.
	version, order int
	inTurn         bool // keys that differ as text may be the same: statements follow the source's order

	shapes map[string]*shape
	remove *shape // of deletes: the values of parent, and then of the order
}

// errCreate: the table is not there and may be made.
var errCreate = errors.New("the table does not exist")

// newPlans looks at the tables and holds the settings against them. Places of
// records are kept in rows only if ordered. Tables that are known are not asked for.
func newPlans(ctx context.Context, c *conn, cfg Config, xs []tables.Exprs, ordered bool, k known) ([]*plan, error) {
	var plans []*plan
	absent := false
	for i, spec := range cfg.specs() {
		p, err := newPlan(ctx, c, cfg, spec, xs[i], ordered, k)
		switch {
		case errors.Is(err, errCreate):
			absent = true
		case err != nil && len(cfg.Tables) > 0:
			return nil, fmt.Errorf("tables[%d]: %w", i, err)
		case err != nil:
			return nil, err
		}
		plans = append(plans, p)
	}
	if absent {
		return nil, errCreate
	}
	for i, p := range plans {
		for j, q := range plans {
			if i != j && (p.info.oid == q.info.oid || slices.Contains(p.info.above, q.info.oid)) {
				return nil, sink.Fatal(fmt.Errorf("tables[%d] and tables[%d] are both %s, or one a part of the other: rows of one record would have no order; leave one of them out", min(i, j), max(i, j), q.info.at))
			}
		}
	}
	return plans, nil
}

func newPlan(ctx context.Context, c *conn, cfg Config, spec Table, x tables.Exprs, ordered bool, k known) (*plan, error) {
	name, err := parseName(spec.Table)
	if err != nil {
		return nil, sink.Fatal(err)
	}
	at, isHome := k.homes[name]
	if !isHome {
		at = name
	}
	info, isKnown := k.seen[name]
	if !isKnown {
		info, err = c.inspect(ctx, name, at)
	}
	if errors.Is(err, errNoTable) {
		if cfg.Create {
			return nil, errCreate
		}
		return nil, sink.Fatal(fmt.Errorf("table: %s does not exist; create it, or set create: true and schema", at))
	}
	if err != nil {
		return nil, err
	}
	p := &plan{
		spec: spec, mode: cfg.rows(spec), x: x, info: info,
		version: -1, order: -1, index: map[string]int{}, own: map[string]int{}, shapes: map[string]*shape{},
	}
	for i, col := range info.columns {
		p.index[col.name] = i
	}
	if err := p.resolve(); err != nil {
		return nil, sink.Fatal(err)
	}
	if !ordered {
		p.order = -1
	}
	p.remove = p.removal()
	if isKnown {
		return p, nil
	}
	return p, p.allowed(ctx, c)
}

// resolve finds the columns that the settings name.
func (p *plan) resolve() error {
	for _, col := range slices.Sorted(maps.Keys(p.spec.Schema)) {
		if p.info.find(col) < 0 && !slices.Contains(p.info.filled, col) {
			return p.info.missing("schema", col)
		}
	}
	for _, col := range slices.Sorted(maps.Keys(p.x.Columns)) {
		i := p.info.find(col)
		if i < 0 {
			return p.info.missing("columns", col)
		}
		p.exprs = append(p.exprs, i)
	}
	slices.Sort(p.exprs)
	for _, o := range p.spec.Audit.named() {
		i := p.info.find(o.column)
		if i < 0 {
			return fmt.Errorf("%w; make it with ALTER TABLE %s ADD COLUMN %s %s", p.info.missing("audit."+o.setting, o.column), p.info.name, tables.Quote(o.column), o.define)
		}
		p.own[o.setting] = i
		delete(p.index, o.column)
	}
	if err := p.resolveKey(); err != nil {
		return err
	}
	if err := p.fitting(); err != nil {
		return err
	}
	if p.mode != modeUpsert {
		return p.fits()
	}
	p.inTurn = p.inTurn || p.info.rekeys || p.info.loosely(p.spec.Key)
	if !p.info.unique(p.spec.Key) {
		return fmt.Errorf("key: table %s has no UNIQUE or PRIMARY KEY constraint of exactly (%s) that is checked at once, so that rows of one key could be doubled; make one with CREATE UNIQUE INDEX ON %s (%s)",
			p.info.name, strings.Join(p.spec.Key, ", "), p.info.name, tables.QuoteAll(p.spec.Key))
	}
	if err := p.resolveOrder(); err != nil {
		return err
	}
	return p.fits()
}

// auditTypes are those that take what an audit column gets, whatever comes.
var auditTypes = map[string][]string{
	"run_id":       {"uuid", "text", "varchar"},
	"epoch":        {"int8", "int4", "numeric", "text", "varchar"},
	"topic":        {"text", "varchar"},
	"partition":    {"int4", "int8", "numeric", "text", "varchar"},
	"offset":       {"int8", "numeric", "text", "varchar"},
	"processed_at": {"timestamptz", "timestamp"},
	"updated_at":   {"timestamptz", "timestamp"},
	"insert_count": {"int4", "int8", "numeric"},
}

// widest is the longest text that an audit column gets: the name of a topic.
const widest = 249

// fitting refuses audit columns of a type that would make every record a dead
// letter, or take a word for a time.
func (p *plan) fitting() error {
	for _, o := range p.spec.Audit.named() {
		c := &p.info.columns[p.own[o.setting]]
		if !slices.Contains(auditTypes[o.setting], c.base) || c.width >= 0 && c.width < widest && o.setting != "run_id" || c.width >= 0 && c.width < len(uuid.Nil.String()) {
			return fmt.Errorf("audit.%s: the column %s of table %s is %s, want %s", o.setting, o.column, p.info.name, c.full, strings.Join(auditTypes[o.setting], ", "))
		}
	}
	return nil
}

func (p *plan) resolveKey() error {
	for _, col := range p.spec.Key {
		i := p.info.find(col)
		if i < 0 {
			return p.info.missing("key", col)
		}
		p.key = append(p.key, i)
		p.inTurn = p.inTurn || !p.info.columns[i].exact
		if p.mode == modeReplace && p.info.columns[i].loose {
			return fmt.Errorf("key: the collation of column %s takes different texts for the same, so that a query by one of them would miss the rows of the others; give it an ordinary collation, or the type citext", col)
		}
	}
	if p.mode == modeReplace && p.x.Columns == nil { // the other columns come from query
		maps.DeleteFunc(p.index, func(_ string, i int) bool { return !slices.Contains(p.key, i) })
	}
	if p.x.Each == nil {
		p.parent = p.key
		return nil
	}
	for _, col := range p.spec.Parent {
		i := p.info.find(col)
		if i < 0 {
			return p.info.missing("parent", col)
		}
		p.parent = append(p.parent, i)
	}
	return nil
}

// resolveOrder finds the columns that say which record of a key is newer.
func (p *plan) resolveOrder() error {
	if p.x.Version == nil {
		if p.order = p.info.find(tables.ColumnOrder); p.order >= 0 && p.info.columns[p.order].kind != kindBytes {
			return fmt.Errorf("the column %s of table %s is no bytea", tables.ColumnOrder, p.info.name)
		}
		delete(p.index, tables.ColumnOrder)
		return nil
	}
	col := tables.VersionColumn(p.spec.Version, p.spec.Columns, func(name string) bool { return p.info.find(name) >= 0 })
	if p.version = p.info.find(col); p.version < 0 {
		return fmt.Errorf("version: table %s has no column %s to keep the version of each row in; make one of the version's type with ALTER TABLE %s ADD COLUMN %s",
			p.info.name, col, p.info.name, col)
	}
	if c := &p.info.columns[p.version]; c.round {
		return fmt.Errorf("version: the column %s of table %s is %s, which rounds, so that an older record may count as new as the row; ALTER TABLE %s ALTER COLUMN %s TYPE %s",
			col, p.info.name, c.full, p.info.name, tables.Quote(col), c.cast)
	}
	if col == tables.ColumnVersion {
		delete(p.index, tables.ColumnVersion)
	}
	return nil
}

// ordered: an older record cannot overwrite a newer row, whoever replays it.
func (p *plan) ordered() bool { return p.version >= 0 || p.order >= 0 }

// allowed asks for the rights that every record needs, and lets the server read
// the statement, so that what it has against them is said at the start.
func (p *plan) allowed(ctx context.Context, c *conn) error {
	need := map[string]string{
		modeUpsert: "SELECT, INSERT, UPDATE, DELETE", modeAppend: "INSERT", modeReplace: "SELECT, INSERT, DELETE",
	}[p.mode]
	lacks, err := c.query(ctx, "SELECT r.name FROM unnest(string_to_array($2, ', ')) AS r(name) WHERE NOT has_table_privilege($1::oid, r.name)",
		[]byte(p.info.oid), []byte(need))
	if err != nil {
		return fmt.Errorf("ask for the rights on table %s: %w", p.info.name, err)
	}
	if len(lacks) > 0 {
		return sink.Fatal(fmt.Errorf("table: the user of dsn lacks %s on %s; mode %s needs GRANT %s ON %s", lacks[0][0], p.info.name, p.mode, need, p.info.name))
	}
	if p.mode == modeReplace {
		return nil // see newRollup
	}
	if p.mode == modeUpsert {
		if err := p.replicated(ctx, c); err != nil {
			return err
		}
	}
	return p.read(ctx, c)
}

// read lets the server read the statement. Where the table is locked it is not waited
// for: what somebody else waits for may be a prepared transaction that only ends once
// the sink is open.
func (p *plan) read(ctx context.Context, c *conn) error {
	if err := c.beginReading(ctx); err != nil {
		return err
	}
	defer c.rollback(ctx)
	s := p.shape(p.filled())
	if _, err := c.prepare(ctx, s.sql, s.types); err != nil && state(err) != stateLocked {
		return fmt.Errorf("let the server read the statement of mode %s for table %s: %w", p.mode, p.info.name, err)
	}
	return nil
}

// filled is the mask of a record with all fields that there can be.
func (p *plan) filled() []byte {
	mask := make([]byte, len(p.info.columns))
	if p.x.Columns == nil {
		for _, i := range p.index {
			mask[i] = 1
		}
	}
	for _, i := range slices.Concat(p.exprs, p.key, slices.Collect(maps.Values(p.own))) {
		mask[i] = 1
	}
	for _, i := range []int{p.version, p.order} {
		if i >= 0 {
			mask[i] = 1
		}
	}
	return mask
}

// replicated refuses a table that is published and whose rows nothing identifies to
// subscribers: the server refuses every update of it (manual, 31.1).
func (p *plan) replicated(ctx context.Context, c *conn) error {
	rows, err := c.query(ctx, `SELECT DISTINCT pt.pubname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_publication_tables pt ON pt.schemaname = n.nspname AND pt.tablename = c.relname
		JOIN pg_publication pb ON pb.pubname = pt.pubname AND (pb.pubupdate OR pb.pubdelete)
		WHERE c.oid = $1::oid AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary))`,
		[]byte(p.info.oid))
	if err != nil {
		return fmt.Errorf("look at the publications of table %s: %w", p.info.name, err)
	}
	if len(rows) > 0 {
		return sink.Fatal(fmt.Errorf("table: %s is in the publication %s and has no replica identity, so that the server refuses its updates; give it a primary key, or ALTER TABLE %s REPLICA IDENTITY USING INDEX …",
			p.info.name, rows[0][0], p.info.name))
	}
	return nil
}

// shape is the set of columns that a record fills. Records of one shape share
// a statement.
type shape struct {
	cols  []int
	sql   string
	types []uint32 // of its parameters
}

// maxShapes at once: records of ever other shapes must not fill the memory.
const maxShapes = 64

// shape gives that of a mask: a byte per column, not 0 where it is filled.
func (p *plan) shape(mask []byte) *shape {
	if s, ok := p.shapes[string(mask)]; ok {
		return s
	}
	if len(p.shapes) >= maxShapes {
		clear(p.shapes)
	}
	s := &shape{}
	for i, set := range mask {
		if set != 0 {
			s.cols = append(s.cols, i)
		}
	}
	s.sql = p.insert(s.cols)
	s.types = slices.Repeat([]uint32{oidTextArray}, len(s.cols))
	p.shapes[string(mask)] = s
	return s
}

// insert writes the statement for rows of the given columns. Each parameter is
// the array of one column's values as text.
func (p *plan) insert(cols []int) string {
	names, casts := make([]string, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		names[i] = p.name(c)
		casts[i] = fmt.Sprintf("u.c%d::%s", i+1, p.info.columns[c].cast)
	}
	s := "INSERT INTO " + p.info.at.String() + ` AS dst (` + strings.Join(names, ", ") + ") SELECT " + strings.Join(casts, ", ") + " FROM " + arrays(len(cols))
	if p.mode == modeUpsert {
		s += " ON CONFLICT (" + tables.QuoteAll(p.spec.Key) + ") DO " + p.update(cols)
	}
	return s
}

// arrays is a table of n columns of text, c1 and so on, out of n parameters.
func arrays(n int) string {
	params, names := make([]string, n), make([]string, n)
	for i := range n {
		params[i], names[i] = fmt.Sprintf("$%d", i+1), fmt.Sprintf("c%d", i+1)
	}
	return "unnest(" + strings.Join(params, ", ") + ") AS u(" + strings.Join(names, ", ") + ")"
}

// copyFrom writes the statement that takes rows of the given columns as a
// stream; "", where the server would not have it.
func (p *plan) copyFrom(cols []int) string {
	if p.info.guarded {
		return ""
	}
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = p.name(c)
	}
	return "COPY " + p.info.at.String() + " (" + strings.Join(names, ", ") + ") FROM STDIN"
}

// update is what happens to the row that is there already.
func (p *plan) update(cols []int) string {
	newer := p.newer()
	count, counts := p.own["insert_count"]
	first, keepsFirst := p.own["processed_at"]
	var set, was, is []string
	for _, c := range cols {
		if slices.Contains(p.key, c) || counts && c == count || keepsFirst && c == first {
			continue
		}
		name := p.name(c)
		val := "excluded." + name
		if counts && newer != "" { // the count rises whatever becomes of the rest
			val = "CASE WHEN " + newer + " THEN " + val + " ELSE dst." + name + " END"
		}
		set = append(set, name+" = "+val)
		if !p.audits(c) {
			was, is = append(was, "dst."+name), append(is, "excluded."+name)
		}
	}
	if counts {
		name := p.name(count)
		return "UPDATE SET " + strings.Join(append(set, name+" = coalesce(dst."+name+", 1) + 1"), ", ")
	}
	if len(was) == 0 {
		return "NOTHING"
	}
	// No trigger fires and no version is left behind for a row that stays as it is: to
	// the byte, since many types take for equal what is not the same (1 day and 24
	// hours), and some have no equality (manual, 9.24.6).
	cond := "pg_catalog.record_image_ne(ROW(" + strings.Join(was, ", ") + "), ROW(" + strings.Join(is, ", ") + "))"
	if newer != "" {
		cond = newer + " AND " + cond
	}
	return "UPDATE SET " + strings.Join(set, ", ") + " WHERE " + cond
}

// audits: the column says how a row came, not what it is.
func (p *plan) audits(col int) bool {
	for _, c := range p.own {
		if c == col {
			return true
		}
	}
	return false
}

// orderPart takes bytes of a place, for tables.NotOlder.
const orderPart = "substring(%s from %d for %d)"

// newer is the condition that the record is not older than the row; "": none.
func (p *plan) newer() string {
	switch {
	case p.version >= 0:
		v := p.name(p.version)
		return fmt.Sprintf("(dst.%s IS NULL OR dst.%s <= excluded.%s)", v, v, v)
	case p.order >= 0:
		o := p.name(p.order)
		return tables.NotOlder("dst."+o, "excluded."+o, orderPart)
	}
	return ""
}

// removal makes the shape of deletes.
func (p *plan) removal() *shape {
	var conds []string
	for i, k := range p.parent {
		c, val := &p.info.columns[k], fmt.Sprintf("u.c%d", i+1)
		switch {
		case c.round: // a row has what the column made of its key
			conds = append(conds, fmt.Sprintf("dst.%s = %s::%s", p.name(k), val, c.kept))
		case c.width >= 0: // blanks at the end are cut off, and nothing else
			conds = append(conds, fmt.Sprintf("dst.%s = %s::%s AND rtrim(%s, ' ') = rtrim(%s::%s, ' ')", p.name(k), val, c.kept, val, val, c.kept))
		default:
			conds = append(conds, fmt.Sprintf("dst.%s = %s::%s", p.name(k), val, c.cast))
		}
	}
	n := len(p.parent)
	if p.order >= 0 {
		n++
		conds = append(conds, tables.NotOlder("dst."+p.name(p.order), fmt.Sprintf("u.c%d::bytea", n), orderPart))
	}
	return &shape{
		sql:   "DELETE FROM " + p.info.at.String() + " AS dst USING " + arrays(n) + " WHERE " + strings.Join(conds, " AND "),
		types: slices.Repeat([]uint32{oidTextArray}, n),
	}
}

func (p *plan) name(col int) string { return tables.Quote(p.info.columns[col].name) }

// createTables gives the statements that make the tables.
func (c Config) createTables() (string, error) {
	var all strings.Builder
	for _, spec := range c.specs() {
		name, err := parseName(spec.Table)
		if err != nil {
			return "", err
		}
		all.WriteString("CREATE TABLE IF NOT EXISTS " + name.String() + " (" + strings.Join(c.definitions(spec), ", ") + "); ")
	}
	return all.String(), nil
}

func (c Config) definitions(t Table) []string {
	cols := tables.KeyFirst(t.Key, slices.Collect(maps.Keys(t.Schema)))
	var defs []string
	primary := false
	for _, col := range cols {
		defs = append(defs, tables.Quote(col)+" "+t.Schema[col])
		primary = primary || strings.Contains(strings.ToLower(strings.Join(strings.Fields(t.Schema[col]), " ")), "primary key")
	}
	own := func(name, definition string) {
		if _, ok := t.Schema[name]; !ok {
			defs = append(defs, tables.Quote(name)+" "+definition)
		}
	}
	for _, o := range t.Audit.named() {
		own(o.column, o.define)
	}
	if c.rows(t) == modeUpsert {
		if t.Version == "" {
			own(tables.ColumnOrder, "bytea")
		}
		if !primary {
			defs = append(defs, "PRIMARY KEY ("+tables.QuoteAll(t.Key)+")")
		}
	}
	return defs
}

// runID names an attempt of a task: the UUID, version 5, of its coordinates
// under the DNS name space.
func runID(o sink.Owner) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Appendf(nil, "%s/%d/%d/%d", o.Pipeline, o.Generation, o.Task, o.Attempt)).String()
}
