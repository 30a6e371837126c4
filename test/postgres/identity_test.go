//go:build services

package postgres

import (
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
