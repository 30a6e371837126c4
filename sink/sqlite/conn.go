package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	moderncsqlite "modernc.org/sqlite"

	"exactly/sink"
)

// conn is the one connection of a sink. Only who holds Sink.turn uses it.
type conn struct {
	raw   driver.Conn
	file  os.FileInfo // the file that was opened
	stmts map[string]driver.Stmt
	plan  *plan // of the table, once it was looked at
	wal   int64 // size of the write-ahead log at which bound tries again; 0: maxWAL
}

// open opens the database file; it is created only if create says so.
func open(ctx context.Context, path string, busy time.Duration, create bool) (*conn, error) {
	mode := "rw"
	if create {
		mode = "rwc"
	}
	// _dqs=0: a quoted name that is no column is an error, not a string.
	dsn := "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) + "?mode=" + mode + "&_dqs=0"
	connector, err := moderncsqlite.NewConnector(dsn)
	if err != nil {
		return nil, sink.Fatal(fmt.Errorf("open %s: %w", path, err))
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, sink.Transient(fmt.Errorf("open %s: %w", path, err))
	}
	c := &conn{raw: raw, stmts: map[string]driver.Stmt{}}
	if err := c.setUp(ctx, busy); err != nil {
		c.close()
		return nil, classed(fmt.Errorf("open %s: %w", path, err))
	}
	if c.file, err = os.Stat(path); err != nil {
		c.close()
		return nil, sink.Transient(fmt.Errorf("open %s: %w", path, err))
	}
	return c, nil
}

// setUp makes commits durable: the outbox is trimmed once Apply has returned,
// so a commit must outlive a power cut, which WAL mode promises with FULL only.
func (c *conn) setUp(ctx context.Context, busy time.Duration) error {
	for _, p := range []string{
		fmt.Sprintf("busy_timeout=%d", busy.Milliseconds()),
		"journal_mode=WAL", // a file system without shared memory stays with its own journal: slower, as safe
		"synchronous=FULL",
		"fullfsync=1", "checkpoint_fullfsync=1", // macOS: fsync alone leaves data in the drive's cache
		"cache_size=-16384", "wal_autocheckpoint=4000", // 16 MiB each
		"temp_store=MEMORY", // the journal of one statement; in a file it costs a quarter of the time
		"trusted_schema=0",
	} {
		if err := c.query(ctx, "PRAGMA "+p, nil, func([]driver.Value) error { return nil }); err != nil {
			return fmt.Errorf("PRAGMA %s: %w", p, err)
		}
	}
	return nil
}

// maxWAL is the size of the write-ahead log, in bytes, from which on it is
// started again by force: four times what wal_autocheckpoint allows.
const maxWAL = 64 << 20

// restartWait is how long that may hold up the writer.
const restartWait = 500 * time.Millisecond

// bound keeps the write-ahead log from growing for ever. The checkpoints that
// SQLite makes by itself never catch up while several processes write without a
// pause: each ends behind what another has added meanwhile, and the log is
// started again only when nothing is left in it. Where somebody reads who cannot
// be waited for, it is tried again when the log has grown by a quarter.
func (c *conn) bound(ctx context.Context, path string, busy time.Duration) error {
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() < max(maxWAL, c.wal) {
		return nil // no log, or another journal mode
	}
	none := func([]driver.Value) error { return nil }
	err = errors.Join(
		c.query(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", restartWait.Milliseconds()), nil, none),
		c.query(ctx, "PRAGMA wal_checkpoint(TRUNCATE)", nil, none),
		c.query(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", busy.Milliseconds()), nil, none),
	)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if info, err = os.Stat(path + "-wal"); err == nil && info.Size() >= maxWAL {
		c.wal = info.Size() + maxWAL/4
		return nil
	}
	c.wal = 0
	return nil
}

// replaced reports whether the file at path is no longer the one that is open:
// SQLite would go on writing into a file that nobody can see.
func (c *conn) replaced(path string) bool {
	now, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, c.file)
}

func (c *conn) close() {
	if c.plan != nil {
		c.plan.close()
	}
	for _, s := range c.stmts {
		_ = s.Close()
	}
	_ = c.raw.Close()
}

// stmt prepares a statement once per connection.
func (c *conn) stmt(ctx context.Context, query string) (driver.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.prepare(ctx, query)
	if err == nil {
		c.stmts[query] = s
	}
	return s, err
}

func (c *conn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	return c.raw.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

// exec runs a statement and gives the number of rows that it changed.
func (c *conn) exec(ctx context.Context, query string, args ...driver.Value) (int64, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	res, err := s.(driver.StmtExecContext).ExecContext(ctx, named(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// run runs a statement that is not worth keeping: DDL, BEGIN and the like.
func (c *conn) run(ctx context.Context, query string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(ctx, query, nil)
	return err
}

// query calls f with each row, which is good until f returns.
func (c *conn) query(ctx context.Context, query string, args []driver.Value, f func(row []driver.Value) error) (err error) {
	rows, err := c.raw.(driver.QueryerContext).QueryContext(ctx, query, named(args))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return out
}

// transact runs f in a transaction that holds the write lock from the start:
// one that takes it later can fail in the middle, with its view out of date.
// commit stands for COMMIT, so that the caller can put something around it.
func (c *conn) transact(ctx context.Context, f func() error, commit func(do func() error) error) error {
	if err := c.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() { // also when a panic passes
		if !done {
			_ = c.run(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	if err := f(); err != nil {
		return err
	}
	return commit(func() error {
		// A cancelled COMMIT would only leave it open whether it happened.
		if err := c.run(context.WithoutCancel(ctx), "COMMIT"); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		done = true
		return nil
	})
}

// plainly is a commit with nothing around it.
func plainly(do func() error) error { return do() }
