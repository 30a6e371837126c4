//go:build services

package postgres

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"exactly/sink/postgres"
)

// TestTooMuchAtOnce: the server has not enough of something for so many rows.
func TestTooMuchAtOnce(t *testing.T) {
	t.Parallel()
	for what, state := range map[string]string{"locks": "53200", "time for a transaction": "25P04"} {
		for _, mode := range []string{"upsert", "append", "two_phase"} {
			t.Run(what+" "+mode, func(t *testing.T) {
				t.Parallel()
				dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY);
					CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
						IF (SELECT count(*) FROM fresh) > 10 THEN RAISE 'too much' USING errcode = '`+state+`'; END IF; RETURN NULL; END $$;
					CREATE TRIGGER f AFTER INSERT ON t REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION f()`)
				var vs []string
				for i := range 100 {
					vs = append(vs, fmt.Sprintf(`{"id":%d}`, i))
				}
				cfg := postgres.Config{DSN: dsn, Table: "t", Mode: mode}
				if mode != "append" {
					cfg.Key = []string{"id"}
				}
				putAll(t, cfg, mode, vs...)
				if got := column(t, c, "SELECT count(*)::text FROM t"); got != "100" {
					t.Errorf("%s rows", got)
				}
			})
		}
	}
}

// TestEachBytes: a list has the record's text in each row of its own. What is made at
// once is bounded, and so is what one record may come to.
func TestEachBytes(t *testing.T) {
	rec := func(id, lines int) string {
		return fmt.Sprintf(`{"id":%d,"doc":"%s","lines":[1%s]}`, id, strings.Repeat("x", 250_000), strings.Repeat(",1", lines-1))
	}
	vs := []string{rec(1, 200), rec(2, 4500), rec(3, 200), rec(4, 200), rec(5, 200)}
	for name, key := range map[string][]string{"append": nil, "upsert": {"id", "n"}} {
		t.Run(name, func(t *testing.T) {
			dsn, c := database(t, "CREATE TABLE t (id int, n int, doc text, PRIMARY KEY (id, n)); ALTER TABLE t ALTER doc SET COMPRESSION pglz")
			cfg := postgres.Config{DSN: dsn, Tables: []postgres.Table{{Table: "t", Key: key, Each: "lines", Columns: map[string]string{"id": "id", "n": "each.index", "doc": "doc"}}}}
			task := open(t, cfg, owner())
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if got := refused(apply(t, task, vs)); got != "1/2 too_big" {
				t.Errorf("refused: %s", got)
			}
			runtime.ReadMemStats(&after)
			if got := column(t, c, "SELECT string_agg(id||'='||n, ' ') FROM (SELECT id, count(*) AS n FROM t GROUP BY id ORDER BY id) x"); got != "1=200 3=200 4=200 5=200" {
				t.Errorf("rows %s", got)
			}
			if grown := (int64(after.HeapSys) - int64(before.HeapSys)) >> 20; grown > 800 {
				t.Errorf("the heap has grown by %d MiB", grown)
			}
		})
	}
}

// TestLongLedgerTable: the server cuts names, and two tables would be one.
func TestLongLedgerTable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("l", 55), "s." + strings.Repeat("l", 63), strings.Repeat("ü", 28)} {
		_, err := postgres.New("out", postgres.Config{DSN: "postgres://u@h/d", Table: "t", Mode: "append", LedgerTable: name})
		if err == nil || !strings.Contains(err.Error(), "ledger_table") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY)`)
	cfg := keyed(dsn, "id")
	cfg.LedgerTable = strings.Repeat("ü", 27)
	apply(t, open(t, cfg, owner()), []string{`{"id":1}`, `{"id":"x"}`})
	o := owner()
	o.Sink = "staged"
	task := openStaged(t, cfg, o)
	cs, err := staged(t.Context(), task, 1, values(`{"id":2}`))
	must(t, err)
	must(t, task.Commit(t.Context(), cs))
	if got := column(t, c, "SELECT count(*)::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'ü%'"); got != "3" {
		t.Errorf("%s tables of the ledger", got)
	}
}
