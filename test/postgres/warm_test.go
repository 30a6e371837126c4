//go:build services

package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/sink"
	"exactly/sink/postgres"
)

// sessionsOfTasks are those of the pipeline's tasks, by what follows the task's number
// in their names.
const sessionsOfTasks = `SELECT substring(application_name FROM 't[0-9]+ a(.*)') FROM pg_stat_activity
	WHERE application_name ~ '^exactly [0-9a-f]{16} t' AND datname = current_database() ORDER BY 1`

func sessionsAre(t *testing.T, c *pgx.Conn, want string) {
	t.Helper()
	eventually(t, c, sessionsOfTasks, want)
}

// eventually waits until a query gives what it is to give.
func eventually(t *testing.T, c *pgx.Conn, sql, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		got := column(t, c, sql)
		if got == want {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%s: %q, want %q", sql, got, want)
		}
	}
}

// warmed calls Warm beside, until the test says so.
func warmed(t *testing.T, s sink.Sink) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	o := owner()
	o.Attempt = 0
	go func() {
		s.(sink.Warmer).Warm(ctx, o)
		close(done)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// TestWarm: a task takes the sessions that were opened ahead, under the name of its
// attempt, and needs no others. What nobody takes is closed, and one that the server
// has ended meanwhile costs nothing but its time.
func TestWarm(t *testing.T) {
	t.Parallel()
	const ddl = "CREATE TABLE t (id int PRIMARY KEY, v int)"
	o := owner()
	o.Attempt = 7
	opened := map[string]func(t *testing.T, s sink.Sink) (work func(), end func() error){
		"upsert": func(t *testing.T, s sink.Sink) (func(), func() error) {
			task, _, err := s.(sink.Outbox).OpenOutbox(t.Context(), o, sink.Pos{})
			if err != nil {
				t.Fatal(err)
			}
			return func() { apply(t, task, []string{`{"id":1,"v":1}`}) }, task.Close
		},
		"two_phase": func(t *testing.T, s sink.Sink) (func(), func() error) {
			task, err := s.(sink.Staging).OpenStaging(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				for epoch := range int64(2) {
					cs, err := staged(t.Context(), task.(sink.StagingFlusher), epoch+1, values(`{"id":1,"v":1}`))
					if err == nil {
						err = task.Commit(t.Context(), cs)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}, task.Close
		},
	}
	for mode, open := range opened {
		n := map[string]int{"upsert": 1, "two_phase": 3}[mode]
		spare, taken := strings.TrimSuffix(strings.Repeat("- | ", n), " | "), strings.TrimSuffix(strings.Repeat("7 | ", n), " | ")
		warm := func(t *testing.T) (c *pgx.Conn, s sink.Sink, stop func()) {
			dsn, c := database(t, ddl)
			s, err := postgres.New("out", postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			stop = warmed(t, s)
			sessionsAre(t, c, spare)
			return c, s, stop
		}
		pids := "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity WHERE application_name ~ '^exactly [0-9a-f]{16} t' AND datname = current_database()"
		t.Run(mode+" taken", func(t *testing.T) {
			t.Parallel()
			c, s, stop := warm(t)
			before := column(t, c, pids)
			work, end := open(t, s)
			work()
			stop() // nothing is closed that is in use
			sessionsAre(t, c, taken)
			if after := column(t, c, pids); after != before {
				t.Errorf("sessions %s, of which %s were opened ahead", after, before)
			}
			if v := column(t, c, "SELECT v::text FROM t"); v != "1" {
				t.Errorf("the table holds %q", v)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			sessionsAre(t, c, "")
		})
		t.Run(mode+" not taken", func(t *testing.T) {
			t.Parallel()
			c, _, stop := warm(t)
			stop()
			sessionsAre(t, c, "")
		})
		t.Run(mode+" ended meanwhile", func(t *testing.T) {
			t.Parallel()
			c, s, _ := warm(t)
			column(t, c, `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
				WHERE application_name ~ '^exactly [0-9a-f]{16} t' AND datname = current_database()`)
			sessionsAre(t, c, "")
			work, end := open(t, s)
			work()
			sessionsAre(t, c, taken)
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}
