//go:build services

package postgres

import (
	"fmt"
	"strings"
	"testing"

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
