//go:build services

package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"exactly/sink"
	"exactly/sink/postgres"
)

// do executes statements of somebody else.
func do(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// behind makes a batch that follows another.
func behind(b sink.Batch, values ...string) sink.Batch {
	next := batch(b.Through.Epoch+1, values...)
	next.Prev = b.Through
	return next
}

// applied applies a batch that the database has nothing against.
func applied(t *testing.T, task sink.OutboxTask, b sink.Batch) {
	t.Helper()
	if res, err := task.Apply(t.Context(), b); err != nil || len(res.Verdicts) > 0 {
		t.Fatal(res, err)
	}
}

// TestShadowed: a table of the same name in a schema that the search path has before
// neither gets what is for another, nor hides a ledger.
func TestShadowed(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg postgres.Config
		ddl string // what comes up; another pipeline makes its ledger in schema postgres, too
	}{
		"table":         {postgres.Config{Table: "t", Mode: "append"}, "CREATE TABLE postgres.t (id int)"},
		"looked again":  {postgres.Config{Table: "t", Mode: "append"}, "CREATE TABLE postgres.t (id int, v int); ALTER TABLE public.t ADD v int"},
		"ledger":        {postgres.Config{Table: "t", Mode: "append"}, "SELECT 1"},
		"of statements": {postgres.Config{Mode: "statement", Statement: "INSERT INTO public.t (id) VALUES ($1)", Args: []string{"id"}}, "SELECT 1"},
		"two phases":    {postgres.Config{Table: "t", Mode: "two_phase"}, "CREATE TABLE postgres.t (id int)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, `CREATE TABLE t (id int)`)
			cfg, other := tt.cfg, owner()
			cfg.DSN = dsn
			other.Pipeline, other.Incarnation = "another", "2222222222222222"
			shadow := func() {
				t.Helper()
				do(t, c, "CREATE SCHEMA postgres; CREATE TABLE postgres.t2 (id int); "+tt.ddl)
				open(t, postgres.Config{DSN: dsn, Table: "postgres.t2", Mode: "append"}, other)
			}
			again := owner()
			again.Attempt = 2
			if cfg.Mode == "two_phase" {
				task := openStaged(t, cfg, owner())
				for e := int64(1); e <= 3; e++ {
					cs, err := staged(t.Context(), task, e, values(`{"id":1}`))
					if err != nil {
						t.Fatal(err)
					}
					if e == 1 {
						shadow()
					}
					if err := task.Commit(t.Context(), cs); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				task, first := open(t, cfg, owner()), batch(1, `{"id":1}`)
				applied(t, task, first)
				shadow()
				next := behind(first, `{"id":2,"v":1}`)
				applied(t, task, next)
				if tt.ddl == "SELECT 1" { // an attempt looks for the table anew
					task = open(t, cfg, again)
					applied(t, task, next) // who applies it again changes nothing
				}
				applied(t, task, behind(next, `{"id":3}`))
			}
			if n := column(t, c, "SELECT count(*)::text FROM public.t"); n != "3" {
				t.Errorf("%s rows, want 3", n)
			}
			if got := column(t, c, "SELECT DISTINCT pipeline FROM postgres.exactly_ledger"); got != "another" {
				t.Errorf("marks in the ledger of another: %s", got)
			}
		})
	}
}

// TestAlteredTypes: what is decided here by a column's type is decided by the one that
// it has now.
func TestAlteredTypes(t *testing.T) {
	for name, tt := range map[string]struct{ from, ddl, value, want string }{
		"to integer":   {"numeric", "ALTER TABLE t ALTER v TYPE integer", "1.5", ""},
		"from a float": {"float8", "ALTER TABLE t ALTER v TYPE integer", "1.5", ""},
		"fewer digits": {"numeric(10,4)", "ALTER TABLE t ALTER v TYPE numeric(10,2)", "1.005", ""},
		"more digits":  {"numeric(10,2)", "ALTER TABLE t ALTER v TYPE numeric(10,4)", "1.005", "1.0050"},
		"JSON":         {"text", "ALTER TABLE t ALTER v TYPE jsonb USING to_jsonb(v)", `"5"`, `"5"`},
		"swapped":      {"numeric", "ALTER TABLE t RENAME TO old; CREATE TABLE t (id int PRIMARY KEY, v int)", "1.5", ""},
		"added":        {"int, w int", "ALTER TABLE t DROP w, ADD x int", `7,"x":1`, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, v `+tt.from+`)`)
			cfg, first, o := keyed(dsn, "id"), batch(1, `{"id":1,"v":null}`), owner()
			cfg.UnknownFields, o.Sink = "reject", "staged"
			outbox, two := open(t, cfg, owner()), openStaged(t, cfg, o)
			applied(t, outbox, first)
			do(t, c, tt.ddl)
			res, err := outbox.Apply(t.Context(), behind(first, `{"id":2,"v":`+tt.value+`}`))
			if err != nil || len(res.Verdicts) > 0 != (tt.want == "") {
				t.Error(res, err)
			}
			_, err = staged(t.Context(), two, 1, values(`{"id":3,"v":`+tt.value+`}`))
			if errors.As(err, new(*sink.PoisonError)) != (tt.want == "") {
				t.Error(err)
			}
			if got := column(t, c, "SELECT coalesce(max(v::text), '') FROM t WHERE id = 2"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAlteredParameters: those of a statement are asked for again before a record is
// refused by their types.
func TestAlteredParameters(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int, n int)`)
	cfg := postgres.Config{DSN: dsn, Mode: "statement", Statement: "INSERT INTO t VALUES ($1, $2)", Args: []string{"id", "n"}}
	task, first := open(t, cfg, owner()), batch(1, `{"id":1,"n":1}`)
	applied(t, task, first)
	do(t, c, "ALTER TABLE t ALTER n TYPE numeric")
	applied(t, task, behind(first, `{"id":2,"n":1.5}`))
	if got := column(t, c, "SELECT n::text FROM t WHERE id = 2"); got != "1.5" {
		t.Errorf("got %s", got)
	}
}

// TestReplaceSwapped: tasks that looked at the table before and after it was swapped
// make its rows one after the other.
func TestReplaceSwapped(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, revenueDDL+`; CREATE TABLE revenue2 (LIKE revenue); INSERT INTO sales VALUES ('1', '2026-01-01', 'a', 5);
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
		CREATE TRIGGER s AFTER INSERT ON revenue2 FOR EACH STATEMENT EXECUTE FUNCTION slow()`)
	o0, o1 := owner(), owner()
	o0.Tasks, o1.Tasks, o1.Task = 2, 2, 1
	t0 := open(t, revenue(dsn), o0)
	do(t, c, "BEGIN; ALTER TABLE revenue RENAME TO revenue_old; ALTER TABLE revenue2 RENAME TO revenue; COMMIT")
	t1 := open(t, revenue(dsn), o1)
	done := make(chan error, 2)
	for _, task := range []sink.OutboxTask{t0, t1} {
		go func() { _, err := task.Apply(t.Context(), batch(1, `{"day":"2026-01-01"}`)); done <- err }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if got := column(t, c, "SELECT shop || cents FROM revenue"); got != "a5" {
		t.Errorf("got %s", got)
	}
}

// TestUnfitParts: a foreign part commits before the rest, and one table under two names
// has no order.
func TestUnfitParts(t *testing.T) {
	const foreign = `CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;`
	for name, tt := range map[string]struct{ ddl, second, want string }{
		"foreign part":  {foreign + `CREATE TABLE t (id int) PARTITION BY LIST (id); CREATE FOREIGN TABLE t2 PARTITION OF t FOR VALUES IN (2) SERVER s`, "", "t2 is a foreign table"},
		"foreign child": {foreign + `CREATE TABLE t (id int); CREATE FOREIGN TABLE t2 () INHERITS (t) SERVER s`, "", "t2 is a foreign table"},
		"two names":     {`CREATE TABLE t (id int)`, "public.t", "are both"},
		"a part":        {`CREATE TABLE t (id int) PARTITION BY LIST (id); CREATE TABLE t2 PARTITION OF t DEFAULT`, "t2", "a part of the other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, _ := database(t, tt.ddl)
			cfg := postgres.Config{DSN: dsn, Tables: []postgres.Table{{Table: "t"}}}
			if tt.second != "" {
				cfg.Tables = append(cfg.Tables, postgres.Table{Table: tt.second})
			}
			s, err := postgres.New("out", cfg)
			if err == nil {
				err = s.Check(t.Context())
			}
			if sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestTriggerChangesKey: keys that a trigger makes the same keep their order.
func TestTriggerChangesKey(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id text PRIMARY KEY, a int, b int);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := lower(NEW.id); RETURN NEW; END $$;
		CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`)
	applied(t, open(t, keyed(dsn, "id"), owner()), batch(1, `{"id":"z","a":0}`, `{"id":"A","a":1,"b":1}`, `{"id":"a","a":2}`))
	if got := column(t, c, "SELECT concat_ws(' ', a, b) FROM t WHERE id = 'a'"); got != "2 1" {
		t.Errorf("got %s", got)
	}
}
