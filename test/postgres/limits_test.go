//go:build services

package postgres

import (
	"fmt"
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
				if mode == "two_phase" {
					task := openStaged(t, cfg, owner())
					cs, err := staged(t.Context(), task, 1, values(vs...))
					must(t, err)
					must(t, task.Commit(t.Context(), cs))
				} else {
					finish(t, open(t, cfg, owner()), batch(1, vs...), 30)
				}
				if got := column(t, c, "SELECT count(*)::text FROM t"); got != "100" {
					t.Errorf("%s rows", got)
				}
			})
		}
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
