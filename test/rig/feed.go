//go:build services

package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"exactly/internal/watch"
	"exactly/sink/object"
)

// noted wraps a feed so that what it shows is counted in the tally.
type noted struct {
	watch.Feed
	name  string
	tally *Tally
}

func (f noted) New(ctx context.Context, fn func(string)) error {
	return f.Feed.New(ctx, func(id string) {
		f.tally.arrive(f.name, id)
		fn(id)
	})
}

// Feeds gives a reader of each sink of the pipeline.
func (p *Pipeline) Feeds(x *Tally) map[string]watch.Feed {
	all := map[string]watch.Feed{
		"enriched": p.TopicFeed(p.Out, kgo.ReadCommitted()),
		"records":  &tableFeed{path: p.DB},
		"lake":     &lakeFeed{url: p.Lake, known: map[string]bool{}},
		"partner":  &partnerFeed{p: p.Partner},
	}
	for _, t := range p.Tables() {
		f := &postgresFeed{dsn: p.DSN, table: t.Name, seen: map[int64]bool{}, whole: "true"}
		if p.Totals == t.Name {
			f.sums = "totals"
		}
		all[t.Name] = f
	}
	if p.Has("balances") {
		all["balances"] = &postgresFeed{dsn: p.DSN, table: "balances_log", seen: map[int64]bool{}, whole: "true", sums: "balances"}
	}
	if p.Has("paired") {
		all["paired"] = &postgresFeed{
			dsn: p.DSN, table: "paired", seen: map[int64]bool{},
			whole: "(SELECT count(*) = 2 AND sum(cents) = 0 FROM paired_entries e WHERE e.payment_id = t.payment_id)",
		}
	}
	out := map[string]watch.Feed{}
	for _, name := range p.Sinks {
		out[name] = noted{all[name], name, x}
	}
	return out
}

// OpenDB opens the table's file beside the workers, read-only or not.
func OpenDB(path, mode string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode="+mode+"&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// tableFeed gives new rows of the table.
type tableFeed struct {
	path string
	db   *sql.DB // nil: not yet open
	last int64   // rowid
}

func (f *tableFeed) New(ctx context.Context, fn func(string)) (err error) {
	if f.db == nil {
		if _, err := os.Stat(f.path); err != nil {
			return nil // not yet made by a worker
		}
		if f.db, err = OpenDB(f.path, "ro"); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { f.db.Close() })
	}
	if f.last == 0 {
		var there int
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

// lakeFeed gives the rows of new files. A file appears whole.
type lakeFeed struct {
	url   string
	known map[string]bool
	next  time.Time // listing is dear: not before this
}

const lakeEvery = 100 * time.Millisecond

func (f *lakeFeed) New(ctx context.Context, fn func(string)) error {
	if time.Now().Before(f.next) {
		return nil
	}
	f.next = time.Now().Add(lakeEvery)
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
		ids, err := f.ids(ctx, file.Path)
		if err != nil {
			return err
		}
		f.known[file.Path] = true
		for _, id := range ids {
			fn(id)
		}
	}
	return nil
}

func (f *lakeFeed) ids(ctx context.Context, path string) ([]string, error) {
	var ids []string
	for row, err := range object.ReadFile(ctx, f.url, path, object.ReadOptions{}) {
		if err != nil {
			return nil, err
		}
		id, err := paymentID(row.Value)
		if err != nil {
			return nil, fmt.Errorf("row %d of %s: %w", row.Index, path, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// partnerFeed gives new executed calls.
type partnerFeed struct {
	p *Partner
	n int
}

func (f *partnerFeed) New(_ context.Context, fn func(string)) error {
	for _, c := range f.p.Since(f.n) {
		f.n++
		id, err := paymentID(c.Body)
		if err != nil {
			return fmt.Errorf("call %d: %w", f.n, err)
		}
		fn(id)
	}
	return nil
}

// topicFeed gives what a consumer of a topic of payments has received.
type topicFeed struct {
	mu  sync.Mutex
	ids []string
}

// TopicFeed starts a consumer that ends with the test.
func (p *Pipeline) TopicFeed(topic string, level kgo.IsolationLevel) *topicFeed {
	p.T.Helper()
	f := &topicFeed{}
	p.Consume(topic, level, func(r *kgo.Record) {
		f.mu.Lock()
		f.ids = append(f.ids, string(r.Key))
		f.mu.Unlock()
	})
	return f
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

// Consume reads a topic from its begin until the test ends.
func (p *Pipeline) Consume(topic string, level kgo.IsolationLevel, fn func(*kgo.Record), opts ...kgo.Opt) {
	p.T.Helper()
	cl := p.Cluster.Client(p.T, append([]kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	ctx, cancel := context.WithCancel(p.T.Context())
	done := make(chan struct{})
	p.T.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(fn) // its errors are retried by the client
		}
	}()
}
