package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"exactly/internal/watch"
	"exactly/sink/object"
)

// noted wraps a feed so that what it shows is noted in the index too.
type noted struct {
	watch.Feed
	name string
	x    *index
}

func (f noted) New(ctx context.Context, fn func(string)) error {
	return f.Feed.New(ctx, func(id string) {
		f.x.arrive(f.name, id)
		fn(id)
	})
}

// openDB opens the database with a mode of SQLite's URIs.
func openDB(path, mode string, busy time.Duration) (*sql.DB, error) {
	u := url.URL{
		Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path),
		RawQuery: fmt.Sprintf("mode=%s&_pragma=busy_timeout(%d)", mode, busy.Milliseconds()),
	}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// unlocked reports whether the database can be written to within a moment.
func unlocked(ctx context.Context, path string) bool {
	if _, err := os.Stat(path); err != nil {
		return true
	}
	db, err := openDB(path, "rw", 300*time.Millisecond)
	if err != nil {
		return false
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false
	}
	_, err = db.ExecContext(ctx, "ROLLBACK")
	return err == nil
}

// tableFeed gives new rows of the table.
type tableFeed struct {
	path string
	db   *sql.DB // nil: not yet open
	last int64   // rowid
}

func (f *tableFeed) New(ctx context.Context, fn func(string)) error {
	if f.db == nil {
		if _, err := os.Stat(f.path); err != nil {
			return nil // not yet made by a worker
		}
		db, err := openDB(f.path, "ro", time.Second)
		if err != nil {
			return err
		}
		f.db = db
	}
	var there int
	if f.last == 0 {
		err := f.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'payment_records'").Scan(&there)
		if err != nil || there == 0 {
			return err
		}
	}
	rows, err := f.db.QueryContext(ctx, "SELECT rowid, payment_id FROM payment_records WHERE rowid > ? ORDER BY rowid", f.last)
	if err != nil {
		return fmt.Errorf("read new rows: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&f.last, &id); err != nil {
			return fmt.Errorf("read new rows: %w", err)
		}
		fn(id)
	}
	return rows.Err()
}

func (f *tableFeed) close() {
	if f.db != nil {
		_ = f.db.Close()
	}
}

// lakeFeed gives the rows of new files. A file appears whole.
type lakeFeed struct {
	url   string
	known map[string]bool
	next  time.Time // listing is dear: not before this
}

// lakeEvery is the least time between two listings; they take a tenth of the
// time at most.
const lakeEvery = 25 * time.Millisecond

func (f *lakeFeed) New(ctx context.Context, fn func(string)) error {
	if time.Now().Before(f.next) {
		return nil
	}
	begin := time.Now()
	defer func() { f.next = time.Now().Add(max(lakeEvery, 10*time.Since(begin))) }()
	for file, err := range object.Files(ctx, f.url) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.known[file.Path] {
			continue
		}
		var ids []string
		for row, err := range object.ReadFile(ctx, f.url, file.Path, object.ReadOptions{}) {
			if err != nil {
				return err
			}
			id, err := paymentID(row.Value)
			if err != nil {
				return fmt.Errorf("row %d of %s: %w", row.Index, file.Path, err)
			}
			ids = append(ids, id)
		}
		f.known[file.Path] = true
		for _, id := range ids {
			fn(id)
		}
	}
	return nil
}

// partnerFeed gives new executed calls.
type partnerFeed struct {
	p *partner
	n int
}

func (f *partnerFeed) New(_ context.Context, fn func(string)) error {
	for _, c := range f.p.since(f.n) {
		f.n++
		id, err := paymentID(c.body)
		if err != nil {
			return fmt.Errorf("call %d: %w", f.n, err)
		}
		fn(id)
	}
	return nil
}

// topicFeed gives what a consumer of the output topic has received.
type topicFeed struct {
	mu  sync.Mutex
	ids []string
}

func (f *topicFeed) add(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, id)
}

func (f *topicFeed) New(_ context.Context, fn func(string)) error {
	f.mu.Lock()
	ids := f.ids
	f.ids = nil
	f.mu.Unlock()
	for _, id := range ids {
		fn(id)
	}
	return nil
}
