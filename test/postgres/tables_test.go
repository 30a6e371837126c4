//go:build services

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/postgres"
)

// orders is one record in three tables: with a parent key, a child per element, and
// a log without a key.
func orders(dsn string) postgres.Config {
	return postgres.Config{DSN: dsn, Tables: []postgres.Table{
		{Table: "orders", Key: []string{"id"}, Columns: map[string]string{"id": "id", "customer": "customer"}},
		{
			Table: "lines", Key: []string{"id", "line"}, Each: "lines", Parent: []string{"id"},
			Columns: map[string]string{"id": "id", "line": "each.index", "sku": "each.item.sku", "qty": "each.item.qty"},
		},
		{Table: "log", Each: "lines", Columns: map[string]string{"id": "id", "sku": "each.item.sku"}},
	}}
}

const ordersDDL = `CREATE TABLE orders (id text PRIMARY KEY, customer text NOT NULL, exactly_order bytea);
	CREATE TABLE lines (id text NOT NULL REFERENCES orders, line int, sku text, qty int CHECK (qty > 0), exactly_order bytea, PRIMARY KEY (id, line));
	CREATE TABLE log (id text, sku text)`

func order(id, customer string, lines ...string) string {
	return fmt.Sprintf(`{"id":%q,"customer":%q,"lines":[%s]}`, id, customer, strings.Join(lines, ","))
}

func line(sku string, qty int) string { return fmt.Sprintf(`{"sku":%q,"qty":%d}`, sku, qty) }

// TestTables: a record's rows come to all tables in one transaction; one that the
// database refuses takes the record's others with it, and nobody else's. Parents
// come before their children, in both ways.
func TestTables(t *testing.T) {
	dsn, c := database(t, ordersDDL)
	task := open(t, orders(dsn), owner())
	vs := apply(t, task, []string{
		order("a", "ada", line("x", 1), line("y", 2)),
		order("b", "bob", line("x", 1), line("z", 0)), // the second line is refused
		order("c", "cy"),
		order("d", "dee", `{"sku":"x","qty":"many"}`),
		`{"id":"e","customer":"eve","lines":5}`, // no list
		`{"id":"f","lines":[]}`,                 // refused before it comes to the database
		order("a", "ann", line("x", 3)),
	}, []string{order("g", "gil", line("x", 7))})
	var got []string
	for _, v := range vs {
		got = append(got, fmt.Sprint(v.Pos, " ", v.Code))
	}
	want := "[1/2 constraint 1/4 value 1/5 wrong_type 1/6 expression]"
	if fmt.Sprint(got) != want {
		t.Errorf("verdicts %v, want %s: %v", got, want, vs)
	}
	for sql, want := range map[string]string{
		`SELECT id || '=' || customer FROM orders ORDER BY 1`:                                   "a=ann | c=cy | g=gil",
		`SELECT id || line || '=' || sku || qty FROM lines ORDER BY 1`:                          "a0=x3 | a1=y2 | g0=x7",
		`SELECT id || ':' || string_agg(sku, ',' ORDER BY sku) FROM log GROUP BY id ORDER BY 1`: "a:x,x,y | g:x",
	} {
		if got := column(t, c, sql); got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
}

// TestTablesMany: long batches, by whatever way their rows go.
func TestTablesMany(t *testing.T) {
	dsn, c := database(t, ordersDDL)
	task := open(t, orders(dsn), owner())
	var values []string
	for i := range 400 {
		qty := i % 50 // each 50th is refused
		values = append(values, order(fmt.Sprint(i%100), fmt.Sprint(i), line("a", 1), line("b", qty)))
	}
	if vs := apply(t, task, values); len(vs) != 8 {
		t.Errorf("%d verdicts, want 8", len(vs))
	}
	// Of the last record of each order that was taken: 300 and 350 were refused.
	want := "98 | 392"
	got := column(t, c, `SELECT count(*)::text FROM orders o JOIN lines l ON l.id = o.id AND l.line = 1 AND l.qty = o.customer::int % 50 AND o.customer::int >= 300
		UNION ALL SELECT (count(*) / 2)::text FROM log`)
	if got != want {
		t.Errorf("right orders | logged: got %s, want %s", got, want)
	}
}

// TestTablesDeletes: a tombstone removes what the record has in all tables, children
// first, and what comes behind it is written again.
func TestTablesDeletes(t *testing.T) {
	dsn, c := database(t, ordersDDL)
	cfg := orders(dsn)
	cfg.Tables = cfg.Tables[:2]
	s, err := postgres.New("out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Features().Deletes {
		t.Errorf("the sink knows no deletes")
	}
	task := open(t, cfg, owner())
	b := sink.Batch{Through: sink.Pos{Epoch: 1, Index: 5}}
	for i, v := range []string{
		order("a", "ada", line("x", 1), line("y", 2)), "", order("a", "ann", line("z", 1)), order("b", "bob", line("x", 1)), "",
	} {
		r := record.Record{Key: []byte("a"), Value: []byte(v)}
		if v == "" {
			r.Value = nil
		}
		if i == 4 {
			r.Key = []byte("b")
		}
		b.Records = append(b.Records, sink.Entry{Pos: sink.Pos{Epoch: 1, Index: int64(i + 1)}, Record: r})
	}
	if res, err := task.Apply(t.Context(), b); err != nil || len(res.Verdicts) > 0 {
		t.Fatal(res, err)
	}
	got := column(t, c, `SELECT o.id || customer || line || sku FROM orders o JOIN lines l USING (id) ORDER BY 1`)
	if got != "aann0z" || column(t, c, "SELECT id FROM orders") != "a" {
		t.Errorf("got %s", got)
	}
}

// TestTablesStaged: the same with two phases.
func TestTablesStaged(t *testing.T) {
	dsn, c := database(t, ordersDDL)
	cfg := orders(dsn)
	cfg.Mode = "two_phase"
	task := openStaged(t, cfg, owner())
	cs, err := staged(t.Context(), task, 1, values(order("a", "ada", line("x", 1)), order("b", "bob", line("y", 2))))
	if err != nil {
		t.Fatal(err)
	}
	if got := column(t, c, "SELECT id FROM orders"); got != "" {
		t.Errorf("seen before the decision: %s", got)
	}
	if err := task.Commit(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if got := column(t, c, `SELECT o.id || sku FROM orders o JOIN lines l USING (id) JOIN log USING (id, sku) ORDER BY 1`); got != "ax | by" {
		t.Errorf("got %s", got)
	}
}

// TestTablesCreate makes all of them.
func TestTablesCreate(t *testing.T) {
	dsn, c := database(t, "")
	cfg := orders(dsn)
	cfg.Create = true
	cfg.Tables[0].Schema = map[string]string{"id": "text NOT NULL", "customer": "text"}
	cfg.Tables[1].Schema = map[string]string{"id": "text NOT NULL REFERENCES orders", "line": "int", "sku": "text", "qty": "int"}
	cfg.Tables[2].Schema = map[string]string{"id": "text", "sku": "text"}
	if vs := apply(t, open(t, cfg, owner()), []string{order("a", "ada", line("x", 1))}); len(vs) > 0 {
		t.Error(vs)
	}
	if got := column(t, c, `SELECT o.id || sku FROM orders o JOIN lines l USING (id) JOIN log USING (id, sku)`); got != "ax" {
		t.Errorf("got %s", got)
	}
}

// TestTablesLarge: lists of any length up to the limit go in, some rows at a time.
func TestTablesLarge(t *testing.T) {
	dsn, c := database(t, ordersDDL)
	list := func(n int) string {
		return `{"id":"` + fmt.Sprint(n) + `","customer":"c","lines":[` + strings.TrimSuffix(strings.Repeat(line("x", 1)+",", n), ",") + `]}`
	}
	vs := apply(t, open(t, orders(dsn), owner()), []string{list(30_000), list(100_001), list(5), order("bad", "c", line("x", 0)), list(15_000)})
	if len(vs) != 2 || vs[0].Pos.Index != 2 || vs[0].Code != "too_big" || vs[1].Pos.Index != 4 {
		t.Errorf("verdicts: %v", vs)
	}
	if got := column(t, c, `SELECT concat_ws(' ', (SELECT count(*) FROM orders), (SELECT count(*) FROM lines), (SELECT count(*) FROM log))`); got != "3 45005 45005" {
		t.Errorf("orders, lines and log: %s", got)
	}
}

// TestNeighbours: a refused row takes nobody with it, although the others need each
// other: a row that refers to the one before it, and a unique value that moves from
// one key to the next.
func TestNeighbours(t *testing.T) {
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, boss int REFERENCES t, email text UNIQUE, v int CHECK (v < 100))`)
	for _, mode := range []string{"upsert", "two_phase"} {
		if _, err := c.Exec(t.Context(), "TRUNCATE t; INSERT INTO t VALUES (12, NULL, 'q', 0)"); err != nil {
			t.Fatal(err)
		}
		cfg := postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}, LedgerTable: "ledger_" + mode}
		vs := []string{`{"id":2,"v":1}`, `{"id":1,"boss":2,"v":1}`, `{"id":9,"v":1000}`, `{"id":12,"email":"q2"}`, `{"id":11,"email":"q"}`}
		if mode == "upsert" {
			if refused := apply(t, open(t, cfg, owner()), vs); len(refused) != 1 || refused[0].Pos.Index != 3 {
				t.Errorf("%s: verdicts %v", mode, refused)
			}
		} else {
			task := openStaged(t, cfg, owner())
			if err := task.Write(t.Context(), 1, values(vs...)); err != nil {
				t.Fatal(err)
			}
			var poison *sink.PoisonError
			if err := task.Flush(t.Context(), 1); !errors.As(err, &poison) || fmt.Sprint(poison.Index) != "[2]" {
				t.Errorf("%s: refused %v", mode, err)
			}
			cs, err := task.Prepare(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := task.Commit(t.Context(), cs); err != nil {
				t.Fatal(err)
			}
		}
		if got := column(t, c, "SELECT concat_ws(' ', id, boss, email) FROM t ORDER BY id"); got != "1 2 | 2 | 11 q | 12 q2" {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

// TestSameKeyToTheDatabase: keys that differ as text and are one to the database, in
// one record and in several.
func TestSameKeyToTheDatabase(t *testing.T) {
	dsn, c := database(t, `CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TABLE e (k text COLLATE any_case PRIMARY KEY, v int); CREATE TABLE b (k varchar(3) PRIMARY KEY, v int)`)
	cfg := postgres.Config{DSN: dsn, Tables: []postgres.Table{{
		Table: "e", Each: "l", Key: []string{"k"}, Columns: map[string]string{"k": "each.item.k", "v": "each.item.v"},
	}}}
	if vs := apply(t, open(t, cfg, owner()), []string{`{"l":[{"k":"A","v":1},{"k":"a","v":2}]}`, `{"l":[{"k":"a","v":3}]}`, `{"l":[{"k":"B","v":1},{"k":"b","v":2}]}`}); len(vs) > 0 {
		t.Errorf("verdicts %v", vs)
	}
	if got := column(t, c, "SELECT lower(k) || v FROM e ORDER BY 1"); got != "a3 | b2" {
		t.Errorf("elements: %s", got)
	}
	o := owner()
	o.Sink = "other"
	if vs := apply(t, open(t, postgres.Config{DSN: dsn, Table: "b", Key: []string{"k"}}, o), []string{`{"k":"abc ","v":1}`, `{"k":"abc","v":2}`, `{"k":"xyz","v":3}`, `{"k":"xyz ","v":4}`}); len(vs) > 0 {
		t.Errorf("verdicts %v", vs)
	}
	if got := column(t, c, "SELECT k || v FROM b ORDER BY 1"); got != "abc2 | xyz4" {
		t.Errorf("varchar(3): %s", got)
	}
}

// TestDeletesInTurn: writes and deletes of several tables do not cross, also where no
// row keeps its place.
func TestDeletesInTurn(t *testing.T) {
	dsn, c := database(t, strings.ReplaceAll(ordersDDL, ", exactly_order bytea", ""))
	cfg := orders(dsn)
	cfg.Tables = cfg.Tables[:2]
	b := batch(1, order("k", "ada", line("x", 1), line("y", 2)), "", order("k", "ann", line("z", 1)), "", order("k", "eve", line("w", 1)))
	if res, err := open(t, cfg, owner()).Apply(t.Context(), b); err != nil || len(res.Verdicts) > 0 {
		t.Fatal(res, err)
	}
	if got := column(t, c, `SELECT o.id || customer || line || sku FROM orders o JOIN lines l USING (id)`); got != "keve0w" {
		t.Errorf("got %s", got)
	}
	o := owner()
	o.Generation++
	s, err := postgres.New("out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.(sink.Outbox).OpenOutbox(t.Context(), o, sink.Pos{}); err == nil || !strings.Contains(err.Error(), "exactly_order") {
		t.Errorf("a further generation: %v", err)
	}
	if _, err := c.Exec(t.Context(), "ALTER TABLE orders ADD COLUMN exactly_order bytea"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.(sink.Outbox).OpenOutbox(t.Context(), o, sink.Pos{}); err == nil || !strings.Contains(err.Error(), `"lines"`) {
		t.Errorf("a further generation, with a column in the first table: %v", err)
	}
}

// TestLongRunsOfShapes: records that fill other columns come in long runs.
func TestLongRunsOfShapes(t *testing.T) {
	dsn, c := database(t, "CREATE TABLE t (id int, a text DEFAULT 'd', b text DEFAULT 'd')")
	var vs []string
	for i := range 400 {
		vs = append(vs, fmt.Sprintf(`{"id":%d,%q:"x\\\ty\\\\"}`, i, []string{"a", "b"}[i/100%2]))
	}
	vs = append(vs, `{"id":400}`, `{"id":401,"a":null,"b":"x"}`)
	if refused := apply(t, open(t, postgres.Config{DSN: dsn, Table: "t", Mode: "append"}, owner()), vs); len(refused) > 0 {
		t.Errorf("verdicts %v", refused)
	}
	if got := column(t, c, `SELECT count(*) || coalesce(a, 'null') || b FROM t GROUP BY a, b ORDER BY 1`); got != "1dd | 1nullx | 200dx\\\ty\\\\ | 200x\\\ty\\\\d" {
		t.Errorf("got %q", got)
	}
}

// TestRowSecurity: where the server has no COPY, rows go in by INSERT.
func TestRowSecurity(t *testing.T) {
	dsn, c := database(t, `CREATE TABLE t (id int); ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (true);
		DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN; GRANT ALL ON t TO guarded; GRANT ALL ON SCHEMA public TO guarded`)
	var vs []string
	for i := range 300 {
		vs = append(vs, fmt.Sprintf(`{"id":%d}`, i))
	}
	cfg := postgres.Config{DSN: strings.Replace(dsn, "postgres@", "guarded@", 1), Table: "t", Mode: "append"}
	if refused := apply(t, open(t, cfg, owner()), vs); len(refused) > 0 || column(t, c, "SELECT count(*)::text FROM t") != "300" {
		t.Errorf("verdicts %v", refused)
	}
	if _, err := c.Exec(t.Context(), "DROP OWNED BY guarded; DROP ROLE guarded"); err != nil {
		t.Fatal(err)
	}
}

// TestRaised: a trigger may raise whatever state it likes; and a table that was
// altered meanwhile is looked at again before a row is refused.
func TestRaised(t *testing.T) {
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, v int);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v = 7 THEN RAISE EXCEPTION 'no sevens' USING ERRCODE = 'BR001'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER f BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()`)
	task := open(t, postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}, owner())
	b := batch(1, `{"id":1,"v":1}`, `{"id":2,"v":7}`, `{"id":3,"v":3}`)
	res, err := task.Apply(t.Context(), b)
	if err != nil || len(res.Verdicts) != 1 || res.Verdicts[0].Code != "raised" {
		t.Fatal(res, err)
	}
	if _, err := c.Exec(t.Context(), "ALTER TABLE t ALTER v TYPE bigint"); err != nil {
		t.Fatal(err)
	}
	next := batch(2, `{"id":4,"v":3000000000}`)
	next.Prev = res.Through
	if res, err = task.Apply(t.Context(), next); err != nil || len(res.Verdicts) > 0 {
		t.Error(res, err)
	}
	if got := column(t, c, "SELECT id || '=' || v FROM t ORDER BY id"); got != "1=1 | 3=3 | 4=3000000000" {
		t.Error(got)
	}
}

// TestSlowStatements: a batch that takes longer than a statement may is made smaller
// until it does not.
func TestSlowStatements(t *testing.T) {
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$;
		CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`)
	var vs []string
	for i := range 200 {
		vs = append(vs, fmt.Sprintf(`{"id":%d}`, i))
	}
	task := open(t, postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}, StatementTimeout: 500 * time.Millisecond}, owner())
	b := batch(1, vs...)
	for tries := 0; b.Prev != b.Through; tries++ {
		res, err := task.Apply(t.Context(), b)
		if err != nil && sink.Classify(err) != sink.ClassTransient || tries > 50 {
			t.Fatal(tries, err)
		}
		for len(b.Records) > 0 && !res.Through.Before(b.Records[0].Pos) {
			b.Records = b.Records[1:]
		}
		b.Prev = res.Through
	}
	if got := column(t, c, "SELECT count(*)::text FROM t"); got != "200" {
		t.Errorf("%s rows", got)
	}
}
