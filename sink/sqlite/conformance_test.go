package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // readers of the tests

	"exactly/record"
	"exactly/sink"
	"exactly/sink/sqlite"
	"exactly/sinktest"
)

// config gives the settings of a variant of the conformance suite.
func config(path, variant string) sqlite.Config {
	c := sqlite.Config{
		Path: path, Table: "t", Key: []string{"id"}, Create: true, BusyTimeout: time.Second,
		Schema: map[string]string{"id": "TEXT NOT NULL", "value": "INTEGER NOT NULL CHECK (value < 1000000000)", "extra": "TEXT"},
	}
	switch variant {
	case "append":
		c.Mode, c.Key = "append", nil
	case "counted":
		c.InsertCount = true
	}
	return c
}

// target runs the suite on a database file.
func target(path, variant string) sinktest.Target {
	cfg := config(path, variant)
	var blocker *sql.DB
	return sinktest.Target{
		New: func(t sinktest.TB) sink.Sink {
			c := cfg
			if blocker != nil {
				c.BusyTimeout = 20 * time.Millisecond
			}
			s, err := sqlite.New("out", c)
			if err != nil {
				t.Fatalf("new sink: %v", err)
			}
			return s
		},
		Read: func(t sinktest.TB) []sinktest.Row { return read(t, path, variant == "counted") },
		Poison: func(s sinktest.Spec) record.Record {
			r := sinktest.Make(s)
			r.Value = []byte(`{"id":"` + s.ID + `","value":2000000000,"extra":""}`)
			return r
		},
		Down: func(t sinktest.TB) { blocker = lock(t, path) },
		Up: func(t sinktest.TB) {
			if err := blocker.Close(); err != nil {
				t.Fatalf("unlock: %v", err)
			}
		},
	}
}

// lock keeps every other writer out.
func lock(t sinktest.TB, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+uri(path))
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.Exec("BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatalf("lock the database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func read(t sinktest.TB, path string, counted bool) []sinktest.Row {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return nil // nothing was opened yet
	}
	db, err := sql.Open("sqlite", "file:"+uri(path)+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatalf("open the database: %v", err)
	}
	defer func() { _ = db.Close() }()
	count := "0"
	if counted {
		count = "insert_count"
	}
	rows, err := db.Query("SELECT id, value, extra, " + count + " FROM t ORDER BY rowid")
	if err != nil {
		t.Fatalf("read the table: %v", err)
	}
	defer func() { _ = rows.Close() }()
	var out []sinktest.Row
	for rows.Next() {
		var r sinktest.Row
		if err := rows.Scan(&r.ID, &r.Value, &r.Extra, &r.Writes); err != nil {
			t.Fatalf("read a row: %v", err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("read the table: %v", err)
	}
	return out
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Subject{
		Variants: []string{"upsert", "counted", "append"},
		Open: func(t sinktest.TB, variant string) sinktest.Target {
			return target(filepath.Join(t.TempDir(), "a b%20?#.db"), variant)
		},
	})
}

// TestKilled kills real processes that write to one file.
func TestKilled(t *testing.T) {
	for _, variant := range []string{"counted", "append"} {
		t.Run(variant, func(t *testing.T) {
			sinktest.RunKilled(t, sinktest.Killed{
				Seed: 7,
				Open: func(_ sinktest.TB, dir string) sinktest.Target { return target(dir+".db", variant) },
			})
		})
	}
}

func mustNew(t *testing.T, c sqlite.Config) *sqlite.Sink {
	t.Helper()
	s, err := sqlite.New("out", c)
	if err != nil {
		t.Fatalf("new sink: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func owner() sink.Owner {
	return sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "pay", Sink: "out", Generation: 1, Tasks: 1,
		Attempt: 1, Guarantee: sink.ExactlyOnce,
	}
}

func mustOpen(t *testing.T, s *sqlite.Sink, o sink.Owner, confirmed sink.Pos) sink.OutboxTask {
	t.Helper()
	task, _, err := s.OpenOutbox(context.Background(), o, confirmed)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return task
}

// uri writes a path for the readers of the tests.
func uri(path string) string { return (&url.URL{Path: path}).EscapedPath() }
