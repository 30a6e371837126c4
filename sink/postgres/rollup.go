package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/tables"
	"exactly/sink"
)

// rollup makes the rows of a key anew, from what other sinks have written: a day
// of daily_revenue, once records of that day have come. Who reads the table sees
// all rows of a key as they were, or as they are.
type rollup struct {
	p      *plan
	keys   string // the keys of records, as their columns take them, each once
	cut    string // how many keys their columns would round or cut; "": none can be
	lock   string
	remove string
	insert string
	types  []uint32
	run    int // the parameter of the run id; 0: there is no such column
	epoch  int // that of the epoch
}

// newRollup lets the server read the statements, so that what it has against them
// is said at the start.
func newRollup(ctx context.Context, c *conn, cfg Config, p *plan) (*rollup, error) {
	r := &rollup{p: p, types: slices.Repeat([]uint32{oidTextArray}, len(p.key))}
	var casts, conds, texts, cut []string
	for i, k := range p.key {
		cast := fmt.Sprintf("u.c%d::%s", i+1, p.info.columns[k].cast)
		casts = append(casts, cast)
		texts = append(texts, "("+cast+")::text")
		conds = append(conds, fmt.Sprintf("dst.%s = %s", p.name(k), cast))
		if c := &p.info.columns[k]; c.full != c.cast {
			cut = append(cut, fmt.Sprintf("(%s)::text IS DISTINCT FROM (%s::%s)::text", cast, cast, c.full))
		}
	}
	from := arrays(len(p.key))
	if len(cut) > 0 {
		r.cut = "SELECT count(*) FROM " + from + " WHERE " + strings.Join(cut, " OR ")
	}
	r.keys = "SELECT DISTINCT " + strings.Join(texts, ", ") + " FROM " + from
	r.lock = fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockOf(p.info))
	r.remove = "DELETE FROM " + p.info.at.String() + " AS dst USING " + from + " WHERE " + strings.Join(conds, " AND ")
	fresh := "WITH affected (" + tables.QuoteAll(cfg.Key) + ") AS (SELECT DISTINCT " + strings.Join(casts, ", ") + " FROM " + from + "), exactly_fresh AS (\n" +
		r.query(cfg) + "\n) "
	d, err := c.prepare(ctx, fresh+"SELECT * FROM exactly_fresh", r.types)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	cols, err := r.columns(d.Fields, cfg)
	if err != nil {
		return nil, sink.Fatal(err)
	}
	if err := r.readsItself(ctx, c, cfg); err != nil {
		return nil, err
	}
	values := make([]string, len(cols))
	for i, col := range cols {
		values[i] = "exactly_fresh." + tables.Quote(col)
	}
	cols, values = r.own(cols, values)
	r.insert = fresh + "INSERT INTO " + p.info.at.String() + " (" + tables.QuoteAll(cols) + ") SELECT " + strings.Join(values, ", ") +
		" FROM exactly_fresh JOIN affected USING (" + tables.QuoteAll(cfg.Key) + ")"
	for _, sql := range []string{r.keys, r.cut, r.remove, r.insert} {
		if sql == "" {
			continue
		}
		types := slices.Clone(r.types)
		if sql == r.insert {
			types = append(types, slices.Repeat([]uint32{oidText}, max(r.run, r.epoch, len(types))-len(types))...)
		}
		if _, err := c.prepare(ctx, sql, types); err != nil {
			return nil, fmt.Errorf("query: %w", err)
		}
	}
	return r, nil
}

// readsItself refuses a query over the table that it fills: the old rows are deleted
// before it runs. The server's plan says what is read; affected is one of no rows
// here, which the planner does not know.
func (r *rollup) readsItself(ctx context.Context, c *conn, cfg Config) error {
	none := make([]string, len(r.p.key))
	for i, k := range r.p.key {
		none[i] = "nullif(relname::text, relname::text)::" + r.p.info.columns[k].cast // no constant
	}
	sql := "EXPLAIN (VERBOSE, FORMAT JSON) WITH affected (" + tables.QuoteAll(cfg.Key) + ") AS (SELECT " + strings.Join(none, ", ") +
		" FROM pg_catalog.pg_class WHERE oid = 0), exactly_fresh AS (\n" + r.query(cfg) + "\n) SELECT * FROM exactly_fresh"
	rows, err := c.query(ctx, sql)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	own, err := c.query(ctx, familyQuery, []byte(r.p.info.oid))
	if err != nil || len(own) == 0 {
		return fmt.Errorf("look for table %s: %w", r.p.info.name, err)
	}
	var plan any
	if err := json.Unmarshal(rows[0][0], &plan); err != nil {
		return fmt.Errorf("read the plan of query: %w", err)
	}
	family := map[[2]string]bool{}
	for _, o := range own {
		family[[2]string{string(o[0]), string(o[1])}] = true
	}
	if scans(plan, family) {
		return sink.Fatal(fmt.Errorf("query: it reads table %s, which it fills: the old rows of a key are removed before it runs; let it read what the sinks in from write", r.p.info.name))
	}
	return nil
}

// A plan names the parts of a table that it reads, not the table.
const familyQuery = `WITH RECURSIVE above(oid) AS (SELECT $1::oid UNION SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.oid),
	family(oid) AS (SELECT oid FROM above UNION SELECT i.inhrelid FROM family JOIN pg_inherits i ON i.inhparent = family.oid AND i.inhparent NOT IN (SELECT oid FROM above WHERE oid <> $1::oid))
	SELECT n.nspname, c.relname FROM family JOIN pg_class c ON c.oid = family.oid JOIN pg_namespace n ON n.oid = c.relnamespace`

// scans looks for tables, by schema and name, in a plan of EXPLAIN.
func scans(plan any, tables map[[2]string]bool) bool {
	switch p := plan.(type) {
	case []any:
		return slices.ContainsFunc(p, func(e any) bool { return scans(e, tables) })
	case map[string]any:
		schema, _ := p["Schema"].(string)
		name, _ := p["Relation Name"].(string)
		if tables[[2]string{schema, name}] {
			return true
		}
		for _, v := range p {
			if scans(v, tables) {
				return true
			}
		}
	}
	return false
}

// query is that of the settings, to be put between brackets.
func (r *rollup) query(cfg Config) string { return strings.TrimRight(cfg.Query, "; \t\r\n") }

// stateNoTable: a table that a statement names is not there.
const stateNoTable = "42P01"

// rollup lets the server read the query. A table that it lacks may be one that another
// sink of the pipeline still makes; where none is to be made, the name is wrong.
func (s *Sink) rollup(ctx context.Context, c *conn) error {
	try := func() (err error) {
		if err := c.beginReading(ctx); err != nil {
			return err
		}
		defer c.rollback(ctx)
		c.rollup, err = newRollup(ctx, c, s.cfg, c.plans[0])
		return err
	}
	err := try()
	if state(err) != stateNoTable {
		return err
	}
	made, merr := s.made(ctx, c)
	if merr != nil {
		return merr
	}
	if made { // perhaps just now, behind our back
		if err = try(); state(err) != stateNoTable {
			return err
		}
		return sink.Fatal(fmt.Errorf("%w; no sink of the pipeline is going to make it: correct the name in query, or create the table", err))
	}
	return sink.Transient(fmt.Errorf("%w; it is asked for again, in case that another sink makes it (create: true)", err))
}

// made: the tables that other sinks make are all there.
func (s *Sink) made(ctx context.Context, c *conn) (bool, error) {
	if s.makes == nil {
		return false, nil
	}
	names := make([]tableName, len(s.makes))
	for i, t := range s.makes {
		var err error
		if names[i], err = parseName(t); err != nil {
			return false, sink.Fatal(err)
		}
	}
	there, err := c.exist(ctx, names...)
	if err != nil {
		err = fmt.Errorf("look for the tables of other sinks: %w", err)
	}
	return there, err
}

// columns holds the result of the query against the table.
func (r *rollup) columns(fields []pgconn.FieldDescription, cfg Config) ([]string, error) {
	var cols []string
	for _, f := range fields {
		switch {
		case slices.Contains(cols, f.Name):
			return nil, fmt.Errorf("query: its result has two columns %q; give one of them another name with AS", f.Name)
		case r.p.info.find(f.Name) < 0:
			return nil, r.p.info.missing("query", f.Name)
		}
		for _, o := range cfg.Audit.named() {
			if o.column == f.Name {
				return nil, fmt.Errorf("query: its result has the column %q, which audit.%s fills", f.Name, o.setting)
			}
		}
		cols = append(cols, f.Name)
	}
	for _, k := range cfg.Key {
		if !slices.Contains(cols, k) {
			return nil, fmt.Errorf("query: its result lacks the key column %q, without which nothing tells which rows belong to which key", k)
		}
	}
	return cols, nil
}

// own adds the audit columns.
func (r *rollup) own(cols, values []string) ([]string, []string) {
	n := len(r.types)
	for _, o := range r.p.spec.Audit.named() {
		cols = append(cols, o.column)
		switch o.setting {
		case "run_id":
			n++
			r.run = n
			values = append(values, fmt.Sprintf("$%d::text::%s", n, r.p.info.columns[r.p.own[o.setting]].cast))
		case "epoch":
			n++
			r.epoch = n
			values = append(values, fmt.Sprintf("$%d::text::%s", n, r.p.info.columns[r.p.own[o.setting]].cast))
		default:
			values = append(values, "now()")
		}
	}
	return cols, values
}

// lockOf is the advisory lock under which all tasks make the rows of a table: two
// that made the same key at once would each miss what the other one saw.
func lockOf(t *tableInfo) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "exactly replace %s", t.at) // not its oid: statements go by name, too, when tables are swapped
	return int64(h.Sum64())                           //nolint:gosec // any number will do
}

// replace makes the rows of all keys anew that the records name.
func (r *rollup) replace(ctx context.Context, c *conn, w *writer, entries []sink.Entry, epoch int64) error {
	keys, err := r.affected(ctx, c, w, entries)
	if err != nil || len(keys) == 0 {
		return err
	}
	// A statement sees what was committed when it began: all that the sinks before
	// this one have written of these records, and, under the lock, all that other
	// tasks have.
	b := &pgconn.Batch{}
	b.ExecParams(r.lock, nil, nil, nil, nil)
	params, formats := r.params(keys)
	b.ExecParams(r.remove, params, r.types, formats, nil)
	params, formats = slices.Clone(params), slices.Clone(formats)
	types := slices.Clone(r.types)
	for n := len(params) + 1; n == r.run || n == r.epoch; n++ {
		v := w.rows[0].run
		if n == r.epoch {
			v = text(epoch)
		}
		params, formats, types = append(params, v), append(formats, 0), append(types, oidText)
	}
	b.ExecParams(r.insert, params, types, formats, nil)
	if _, err := c.run(ctx, b); err != nil {
		return fmt.Errorf("make %d keys of table %s anew (no single record is at fault: mend the table or query): %w", len(keys), r.p.info.name, err)
	}
	return nil
}

func (r *rollup) params(keys [][][]byte) (params [][]byte, formats []int16) {
	for i := range r.p.key {
		params, formats = append(params, textArray(keys, i)), append(formats, 1)
	}
	return params, formats
}

// affected gives the keys that records name, each once. A record whose key the
// database does not take is refused.
func (r *rollup) affected(ctx context.Context, c *conn, w *writer, entries []sink.Entry) ([][][]byte, error) {
	of := map[string]*affectedKey{}
	var keys []*affectedKey
	row := w.rows[0]
	for i := range entries {
		e := &entries[i]
		w.vars.Reset(&e.Record)
		if err := row.fill(e.Pos); err != nil {
			w.refuse(e.Pos, err)
			continue
		}
		var text []byte
		vals := row.pick(r.p.key)
		for j, k := range r.p.key {
			text = appendKey(text, vals[j], &r.p.info.columns[k])
		}
		k := of[string(text)]
		if k == nil {
			k = &affectedKey{vals: vals}
			of[string(text)] = k
			keys = append(keys, k)
		}
		k.pos = append(k.pos, e.Pos)
	}
	w.sieve = sieve{took: map[target]bool{}}
	taken, err := r.taken(ctx, c, w, keys)
	if err == nil {
		err = w.judge()
	}
	return taken, err
}

// affectedKey is a key and the records that name it.
type affectedKey struct {
	vals [][]byte
	pos  []sink.Pos
}

// taken asks the server for the keys as its types have them, and halves what it
// refuses until the keys at fault are alone.
func (r *rollup) taken(ctx context.Context, c *conn, w *writer, keys []*affectedKey) ([][][]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	vals := make([][][]byte, len(keys))
	for i, k := range keys {
		vals[i] = k.vals
	}
	b := &pgconn.Batch{}
	b.ExecParams(savepoint, nil, nil, nil, nil)
	params, formats := r.params(vals)
	b.ExecParams(r.keys, params, r.types, formats, nil)
	if r.cut != "" {
		b.ExecParams(r.cut, params, r.types, formats, nil)
	}
	b.ExecParams(release, nil, nil, nil, nil)
	res, err := c.run(ctx, b)
	var verdict error
	switch {
	case err == nil && (r.cut == "" || string(res[2].Rows[0][0]) == "0"):
		w.sieve.took[target{}] = true
		return res[1].Rows, nil
	case err == nil:
		verdict = sink.Poison(codeValue, fmt.Errorf("table %s would round or cut the key, and its rows would not be found again; do so in columns, or widen the key's columns", r.p.info.name))
	default:
		if !w.ofRows(err) {
			return nil, err
		}
		verdict = w.refusal(err)
		if err := c.exec(ctx, undoPart); err != nil {
			return nil, err
		}
	}
	if len(keys) == 1 {
		for _, pos := range keys[0].pos {
			if verdict == nil {
				w.sieve.suspects = append(w.sieve.suspects, suspect{item{pos: pos, writes: make([]write, 1)}, err})
			} else {
				w.refuse(pos, verdict)
			}
		}
		return nil, nil
	}
	first, err := r.taken(ctx, c, w, keys[:len(keys)/2])
	if err != nil {
		return nil, err
	}
	second, err := r.taken(ctx, c, w, keys[len(keys)/2:])
	return append(first, second...), err
}
