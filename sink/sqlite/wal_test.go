package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLogIsBounded: a log that could not be started again for a while, here for
// a reader with an old view, is cut as soon as that is possible.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "db")
	var conns [2]*conn
	for i := range conns {
		c, err := open(ctx, path, 5*time.Second, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.close)
		conns[i] = c
	}
	w, r := conns[0], conns[1]
	run := func(c *conn, query string) {
		t.Helper()
		if err := c.run(ctx, query); err != nil {
			t.Fatalf("%.40s: %v", query, err)
		}
	}
	run(w, "CREATE TABLE t (a)")
	run(r, "BEGIN; SELECT count(*) FROM t")
	text := strings.Repeat("x", 8<<20)
	for range 9 {
		run(w, "INSERT INTO t VALUES ('"+text+"')")
	}
	if size := walSize(t, path); size < maxWAL {
		t.Fatalf("the log has %d MiB: the reader did not keep it", size>>20)
	}
	bound := func() int64 {
		t.Helper()
		if err := w.bound(ctx, path, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		return walSize(t, path)
	}
	if size := bound(); size < maxWAL || w.wal <= size {
		t.Errorf("with the reader the log has %d MiB, tried again at %d MiB", size>>20, w.wal>>20)
	}
	run(r, "COMMIT")
	w.wal = 0 // as when it has grown by a quarter
	if size := bound(); size != 0 || w.wal != 0 {
		t.Errorf("without the reader the log has %d MiB, tried again at %d MiB", size>>20, w.wal>>20)
	}
}

func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
