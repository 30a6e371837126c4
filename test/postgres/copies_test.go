//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"exactly/internal/services"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

// commitEpoch carries an epoch of values to its end, and gives what was committed.
func commitEpoch(t *testing.T, task sink.StagingFlusher, epoch int64, vs ...string) *sink.Committable {
	t.Helper()
	cs, err := staged(t.Context(), task, epoch, values(vs...))
	must(t, err)
	must(t, task.Commit(t.Context(), cs))
	return &cs[0]
}

// reopen opens the sink as the next attempt, which knows c as committed.
func reopen(t *testing.T, cfg postgres.Config, c *sink.Committable) (sink.StagingTask, error) {
	t.Helper()
	cfg.Mode = "two_phase"
	s, err := postgres.New("out", cfg)
	must(t, err)
	o := owner()
	o.Attempt, o.Committed = 2, c
	return s.(sink.Staging).OpenStaging(t.Context(), o)
}

// TestTwoPhaseOlderCopy: of an older copy of the database, mode two_phase has nothing
// in an outbox that would be missed. What the journal knows as committed tells.
func TestTwoPhaseOlderCopy(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "CREATE TABLE t (id int PRIMARY KEY)")
	cfg := keyed(dsn, "id")
	task := openStaged(t, cfg, owner())
	var last *sink.Committable
	for e := range int64(3) {
		last = commitEpoch(t, task, e+1, fmt.Sprintf(`{"id":%d}`, e+1))
	}
	must(t, task.Close())
	next, err := reopen(t, cfg, last)
	must(t, err)
	must(t, next.Close())
	_, err = c.Exec(t.Context(), "TRUNCATE t, exactly_ledger, exactly_ledger_epochs, exactly_ledger_verdicts")
	must(t, err)
	if _, err := reopen(t, cfg, last); !errors.Is(err, sink.ErrLedgerBehind) || sink.Classify(err) != sink.ClassFatal {
		t.Errorf("an older copy: %v", err)
	}
}

// TestFailoverLosesCommit: the standby that takes over has what was prepared, and not
// that it was committed. The sweep of the next attempt would roll it back.
func TestFailoverLosesCommit(t *testing.T) {
	server := services.Postgres(t, true)
	dsn := server.DSN(server.Database(t))
	c := session(sinktest.Wrap(t), dsn)
	_, err := c.Exec(t.Context(), "CREATE TABLE t (id int PRIMARY KEY)")
	must(t, err)
	var dir string
	must(t, c.QueryRow(t.Context(), "SELECT current_setting('data_directory')").Scan(&dir))
	cfg := keyed(dsn, "id")
	task := openStaged(t, cfg, owner())
	cs, err := staged(t.Context(), task, 1, values(`{"id":1}`))
	must(t, err)
	must(t, server.Crash())
	must(t, exec.Command("cp", "-a", dir, dir+".standby").Run())
	must(t, server.Start(t.Context()))
	must(t, task.Commit(t.Context(), cs))
	must(t, server.Crash())
	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Rename(dir+".standby", dir))
	must(t, server.Start(t.Context()))
	_, err = reopen(t, cfg, &cs[0])
	if !errors.Is(err, sink.ErrLedgerBehind) || !strings.Contains(err.Error(), "a standby took over") {
		t.Errorf("a standby without the commit: %v", err)
	}
	c = session(sinktest.Wrap(t), dsn)
	if n := column(t, c, "SELECT count(*)::text FROM pg_prepared_xacts"); n != "1" {
		t.Errorf("%s prepared transactions, want the one that is decided", n)
	}
	must(t, task.Commit(t.Context(), cs)) // by hand
	next, err := reopen(t, cfg, &cs[0])
	must(t, err)
	must(t, next.Close())
}

// TestCommitWaitsForStandby: a session that would not wait for the disk or a standby
// waits with COMMIT PREPARED as well.
func TestCommitWaitsForStandby(t *testing.T) {
	server := services.Postgres(t, true)
	dsn := server.DSN(server.Database(t))
	c := session(sinktest.Wrap(t), dsn)
	_, err := c.Exec(t.Context(), "CREATE TABLE t (id int PRIMARY KEY)")
	must(t, err)
	task := openStaged(t, keyed(dsn+"&synchronous_commit=off", "id"), owner())
	cs, err := staged(t.Context(), task, 1, values(`{"id":1}`))
	must(t, err)
	standbys := func(names string) {
		t.Helper()
		_, err := c.Exec(t.Context(), "SET synchronous_commit = off")
		must(t, err)
		_, err = c.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		must(t, err)
		_, err = c.Exec(t.Context(), "SELECT pg_reload_conf()")
		must(t, err)
		eventually(t, c, "SELECT (current_setting('synchronous_standby_names') = '"+names+"')::text", "true")
	}
	standbys("nobody")
	done := make(chan error, 1)
	go func() { done <- task.Commit(context.WithoutCancel(t.Context()), cs) }()
	eventually(t, c, "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'COMMIT PREPARED%'", "1")
	standbys("")
	must(t, <-done)
}

// TestNewIncarnation: a pipeline that is made anew, after its user has removed the
// ledger as the error says, has nothing from the old one: no verdict, no mark.
func TestNewIncarnation(t *testing.T) {
	t.Parallel()
	anew := owner()
	anew.Incarnation = "1111111111111111"
	// remedy executes the statement in the error.
	remedy := func(t *testing.T, dsn string, err error) {
		t.Helper()
		if !errors.Is(err, sink.ErrForeignMark) {
			t.Fatalf("got %v, want ErrForeignMark", err)
		}
		_, sql, _ := strings.Cut(err.Error(), "with ")
		sql, _, _ = strings.Cut(sql, ", else")
		_, err = session(sinktest.Wrap(t), dsn).Exec(t.Context(), sql)
		must(t, err)
	}
	for name, second := range map[string]string{"good": `{"id":12,"v":2}`, "refused too": `{"id":12,"v":99}`} {
		t.Run("outbox, "+name, func(t *testing.T) {
			t.Parallel()
			dsn, _ := database(t, "CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v < 10))")
			cfg := keyed(dsn, "id")
			apply(t, open(t, cfg, owner()), []string{`{"id":1,"v":1}`, `{"id":2,"v":99}`})
			s, err := postgres.New("out", cfg)
			must(t, err)
			_, _, err = s.(sink.Outbox).OpenOutbox(t.Context(), anew, sink.Pos{})
			remedy(t, dsn, err)
			task, b := open(t, cfg, anew), batch(1, `{"id":11,"v":1}`, second)
			want := map[string]string{"good": "", "refused too": "1/2 constraint"}[name]
			for range 2 { // the first answer is lost
				res, err := task.Apply(t.Context(), b)
				must(t, err)
				if got := refused(res.Verdicts); got != want {
					t.Errorf("refused: %q, want %q", got, want)
				}
			}
		})
	}
	t.Run("two_phase", func(t *testing.T) {
		t.Parallel()
		dsn, c := database(t, "CREATE TABLE t (id int PRIMARY KEY)")
		cfg := keyed(dsn, "id")
		commitEpoch(t, openStaged(t, cfg, owner()), 1, `{"id":1}`)
		two := cfg
		two.Mode = "two_phase"
		s, err := postgres.New("out", two)
		must(t, err)
		_, err = s.(sink.Staging).OpenStaging(t.Context(), anew)
		remedy(t, dsn, err)
		commitEpoch(t, openStaged(t, cfg, anew), 1, `{"id":2}`)
		if rows := column(t, c, "SELECT id::text FROM t ORDER BY id"); rows != "1 | 2" {
			t.Errorf("rows: %s", rows)
		}
	})
}

// TestNotCreatedAgain: a table that is gone is not made anew by the attempt that
// follows, whichever way its rows came into it.
func TestNotCreatedAgain(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"upsert", "append", "two_phase"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, "SELECT 1")
			cfg := postgres.Config{DSN: dsn, Table: "t", Mode: mode, Create: true, Schema: map[string]string{"id": "int NOT NULL"}}
			if mode != "append" {
				cfg.Key = []string{"id"}
			}
			s, err := postgres.New("out", cfg)
			must(t, err)
			o, confirmed := owner(), sink.Pos{}
			again := func() error {
				if st, ok := s.(sink.Staging); ok {
					task, err := st.OpenStaging(t.Context(), o)
					if err == nil {
						err = task.Close()
					}
					return err
				}
				task, _, err := s.(sink.Outbox).OpenOutbox(t.Context(), o, confirmed)
				if err == nil {
					err = task.Close()
				}
				return err
			}
			must(t, again())
			_, err = c.Exec(t.Context(), "DROP TABLE t")
			must(t, err)
			must(t, again()) // nothing was in it
			if mode == "two_phase" {
				commitEpoch(t, openStaged(t, cfg, o), 1, `{"id":1}`)
			} else {
				apply(t, open(t, cfg, o), []string{`{"id":1}`})
			}
			_, err = c.Exec(t.Context(), "DROP TABLE t")
			must(t, err)
			o.Attempt = 2
			if err := again(); err == nil || sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), "any more; restore it") {
				t.Errorf("opened after the table was dropped: %v", err)
			}
			o.Generation, confirmed = 2, sink.Pos{}
			must(t, again()) // which reads the source again
		})
	}
}
