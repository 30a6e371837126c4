package sqlite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"exactly/sink"
	"exactly/sink/sqlite"
)

func created(path string) sqlite.Config {
	return sqlite.Config{
		Path: path, Table: "t", Key: []string{"id"}, Create: true, BusyTimeout: 50 * time.Millisecond,
		Schema: map[string]string{"id": "INTEGER", "a": "TEXT"},
	}
}

// TestOrderColumn replays the past without a ledger, as somebody does who
// removes it: older records must not overwrite newer ones.
func TestOrderColumn(t *testing.T) {
	t.Parallel()
	path, db := database(t, "SELECT 1")
	s := mustNew(t, created(path))
	first := at(1, `{"id":1,"a":"old"}`, `{"id":2,"a":"old"}`, `{"id":3,"a":"old"}`)
	second := at(2, `{"id":1,"a":"new"}`, `{"id":3,"a":"old"}`)
	task := mustOpen(t, s, owner(), sink.Pos{})
	through, _ := feed(t, task, sink.Pos{}, first)
	feed(t, task, through, second)

	const query = "SELECT id, a FROM t ORDER BY id"
	replay := func(o sink.Owner, es []sink.Entry) {
		t.Helper()
		if _, err := db.Exec("DELETE FROM exactly_ledger"); err != nil {
			t.Fatal(err)
		}
		feed(t, mustOpen(t, s, o, sink.Pos{}), sink.Pos{}, es)
	}
	replay(owner(), first)
	same(t, "replay of an older epoch", dump(t, db, query), []string{"1|new", "2|old", "3|old"})
	replay(owner(), at(1, `1=>`, `4=>`))
	same(t, "replay of an older delete", dump(t, db, query), []string{"1|new", "2|old", "3|old"})

	o := owner()
	o.Task = 1
	replay(o, at(1, `{"id":1,"a":"other task"}`))
	same(t, "an earlier epoch of another task", dump(t, db, query), []string{"1|other task", "2|old", "3|old"})
	o = owner()
	o.Generation = 2
	replay(o, at(1, `{"id":2,"a":"next generation"}`))
	replay(owner(), at(9, `{"id":2,"a":"past generation"}`))
	same(t, "generations", dump(t, db, query), []string{"1|other task", "2|next generation", "3|old"})
	o.Incarnation, o.Generation = "0badcafe0badcafe", 1
	replay(o, at(1, `{"id":2,"a":"created anew"}`, `3=>`))
	same(t, "another incarnation", dump(t, db, query), []string{"1|other task", "2|created anew"})
}

// TestLargeBatch goes through several transactions and keeps the place of each.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	path, db := database(t, "CREATE TABLE t (a CHECK (a IS NULL OR a <> 12001))")
	s := mustNew(t, sqlite.Config{Path: path, Table: "t", Mode: "append"})
	values := make([]string, 12_345)
	for i := range values {
		values[i] = `{"a":1}`
	}
	values[12_001] = `{"a":12001}`
	_, verdicts := feed(t, mustOpen(t, s, owner(), sink.Pos{}), sink.Pos{}, at(1, values...))
	same(t, "verdicts", verdicts, []string{"12001 constraint"})
	same(t, "rows", dump(t, db, "SELECT count(*) FROM t"), []string{"12344"})
	same(t, "ledger", dump(t, db, `SELECT epoch, "index" FROM exactly_ledger`), []string{"1|12344"})
}

func TestAtLeastOnceKeepsNoLedger(t *testing.T) {
	t.Parallel()
	path, db := database(t, "CREATE TABLE t (id PRIMARY KEY, a, insert_count, exactly_order)")
	s := mustNew(t, sqlite.Config{Path: path, Table: "t", Key: []string{"id"}, InsertCount: true})
	o := owner()
	o.Guarantee = sink.AtLeastOnce
	task := mustOpen(t, s, o, sink.Pos{Epoch: 7})
	feed(t, task, sink.Pos{}, at(2, `{"id":1,"a":2}`))
	feed(t, task, sink.Pos{}, at(1, `{"id":1,"a":1}`))
	same(t, "rows", dump(t, db, "SELECT a, insert_count, quote(exactly_order) FROM t"), []string{"1|2|NULL"})
	same(t, "tables", dump(t, db, "SELECT name FROM sqlite_schema WHERE type = 'table'"), []string{"t"})
}

// TestFileExchanged exchanges the file under a running sink.
func TestFileExchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "x.db"), filepath.Join(dir, "backup.db")
	s := mustNew(t, created(path))
	task := mustOpen(t, s, owner(), sink.Pos{})
	through, _ := feed(t, task, sink.Pos{}, at(1, `{"id":1}`))
	if err := s.Close(); err != nil { // the write-ahead log goes into the file
		t.Fatal(err)
	}
	copyTo(t, path, backup)
	next := at(2, `{"id":2}`)
	last, _ := feed(t, task, through, next)

	remove := func() {
		for _, f := range []string{path, path + "-wal", path + "-shm"} {
			if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	apply := func() error {
		res, err := task.Apply(context.Background(), sink.Batch{Prev: last, Through: sink.Pos{Epoch: 3}, Records: at(3, `{"id":3}`)})
		if err != nil && res.Through != last {
			t.Errorf("a failed Apply came to %s", res.Through)
		}
		return err
	}
	remove()
	if err := apply(); err == nil || sink.Classify(err) != sink.ClassTransient {
		t.Errorf("the file is gone: got %v, %v; want a transient error", err, sink.Classify(err))
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone was made again: %v", err)
	}
	copyTo(t, backup, path)
	if err := apply(); !errors.Is(err, sink.ErrLedgerBehind) || sink.Classify(err) != sink.ClassFatal {
		t.Errorf("an older copy: got %v, want ErrLedgerBehind", err)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestErrorClasses: what the engine does about errors of the database.
func TestErrorClasses(t *testing.T) {
	t.Parallel()
	path, db := database(t, "CREATE TABLE t (id PRIMARY KEY, a); CREATE TABLE u (a)")
	c := sqlite.Config{Path: path, Table: "t", Key: []string{"id"}, BusyTimeout: 30 * time.Millisecond}
	s := mustNew(t, c)
	task := mustOpen(t, s, owner(), sink.Pos{})
	apply := func(ctx context.Context) error {
		_, err := task.Apply(ctx, sink.Batch{Through: sink.Pos{Epoch: 1}, Records: at(1, `{"id":1,"a":1}`)})
		return err
	}
	for _, tt := range []struct {
		name, breaks, mends string
		want                sink.Class
	}{
		{"another writer", "BEGIN IMMEDIATE", "ROLLBACK", sink.ClassTransient},
		{"the table lost a column", "ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t RENAME COLUMN b TO a", sink.ClassFatal},
		{"the table is gone", "ALTER TABLE t RENAME TO w", "ALTER TABLE w RENAME TO t", sink.ClassFatal},
		{"the ledger is gone", "ALTER TABLE exactly_ledger RENAME TO w", "ALTER TABLE w RENAME TO exactly_ledger", sink.ClassFatal},
		{"the mark is gone", "CREATE TABLE w AS SELECT * FROM exactly_ledger; DELETE FROM exactly_ledger", "INSERT INTO exactly_ledger SELECT * FROM w", sink.ClassFatal},
	} {
		db.SetMaxOpenConns(1)
		if _, err := db.Exec(tt.breaks); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		err := apply(context.Background())
		if err == nil || sink.Classify(err) != tt.want {
			t.Errorf("%s: got %v, %v; want %v", tt.name, err, sink.Classify(err), tt.want)
		}
		if _, err := db.Exec(tt.mends); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
	}
	if err := apply(context.Background()); err != nil {
		t.Errorf("all is well again: %v", err)
	}
	same(t, "rows", dump(t, db, "SELECT id FROM t"), []string{"1"})
}

// TestWaitEndsWithContext: whoever waits for the file can be called back.
func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	path, db := database(t, "CREATE TABLE t (id PRIMARY KEY)")
	s := mustNew(t, sqlite.Config{Path: path, Table: "t", Key: []string{"id"}, BusyTimeout: time.Hour})
	o := owner()
	task := mustOpen(t, s, o, sink.Pos{})
	o.Transact.Timeout = time.Second // also of the open below
	o.Task = 1
	bounded := mustOpen(t, s, o, sink.Pos{})
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	batch := sink.Batch{Through: sink.Pos{Epoch: 1}, Records: at(1, `{"id":1}`)}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for name, f := range map[string]func() error{
		"the caller's": func() error { _, err := task.Apply(ctx, batch); return err },
		"the engine's": func() error { _, err := bounded.Apply(context.Background(), batch); return err },
	} {
		if err := f(); sink.Classify(err) != sink.ClassTransient || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s time-out: got %v, %v; want a transient deadline error", name, err, sink.Classify(err))
		}
	}
}

// TestConfirmedVerdictsGo: the table of verdicts holds what is not confirmed,
// of this task.
func TestConfirmedVerdictsGo(t *testing.T) {
	t.Parallel()
	path, db := database(t, "CREATE TABLE t (a NOT NULL)")
	s := mustNew(t, sqlite.Config{Path: path, Table: "t", Mode: "append"})
	other := owner()
	other.Task = 1
	for _, o := range []sink.Owner{owner(), other} {
		feed(t, mustOpen(t, s, o, sink.Pos{}), sink.Pos{}, at(1, `{"a":null}`, `{"a":null}`))
	}
	task := mustOpen(t, s, owner(), sink.Pos{})
	_, err := task.Apply(context.Background(), sink.Batch{
		Prev: sink.Pos{Epoch: 1, Index: 1}, Through: sink.Pos{Epoch: 2}, Confirmed: sink.Pos{Epoch: 1},
		Records: at(2, `{"a":null}`),
	})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	same(t, "verdicts", dump(t, db, `SELECT task, epoch, "index", code FROM exactly_ledger_verdicts ORDER BY 1, 2, 3`), []string{
		"0|1|1|constraint", "0|2|0|constraint", "1|1|0|constraint", "1|1|1|constraint",
	})
}

// TestTableGone: a table that vanished under a running pipeline is not made
// again: its rows are missing.
func TestTableGone(t *testing.T) {
	t.Parallel()
	path, db := database(t, "SELECT 1")
	s := mustNew(t, created(path))
	task := mustOpen(t, s, owner(), sink.Pos{})
	through, _ := feed(t, task, sink.Pos{}, at(1, `{"id":1}`))
	if _, err := db.Exec("DROP TABLE t"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // on the open connection, then on a new one
		_, err := task.Apply(context.Background(), sink.Batch{Prev: through, Through: sink.Pos{Epoch: 2}, Records: at(2, `{"id":2}`)})
		if err == nil || sink.Classify(err) != sink.ClassFatal {
			t.Errorf("got %v, %v; want a fatal error", err, sink.Classify(err))
		}
	}
	same(t, "tables", dump(t, db, "SELECT name FROM sqlite_schema WHERE name = 't'"), nil)
}
