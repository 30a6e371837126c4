//go:build services

package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
	"exactly/internal/watch"
	"exactly/sink/object"
)

// TestAtLeastOnceDoubles is the control: the same pipeline without the protocol
// doubles records in every sink when workers are killed, and the audit says so.
func TestAtLeastOnceDoubles(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Tasks: 4, Guarantee: "at_least_once", Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	l := p.load(500, 0)
	for name, f := range p.feeds(l.tally) {
		go follow(t, f, name)
	}
	c := newChaos(p, random(t), 2)
	await(t, "every sink to hold something twice", func(context.Context) (string, bool) {
		c.kill()
		state, doubled := c.String(), true
		for _, name := range p.Sinks {
			distinct, copies := l.shown(name)
			if name == "records" {
				copies = p.rewritten()
			}
			state += fmt.Sprintf("; %s %d and %d copies", name, distinct, copies)
			doubled = doubled && copies > 0
		}
		t.Log(state)
		return state, doubled
	})
	l.stop()
	p.partner.calm()
	l.complete(c.slots...)
	p.stop(c.slots...)
	code, r := p.audit()
	if code != 4 {
		t.Errorf("audit: exit code %d, want 4", code)
	}
	for _, name := range p.Sinks {
		s := r.sink(t, name)
		t.Logf("%s: %d duplicates, %d conflicting writes, %d missing", name, s.Duplicate, s.ConflictingWrites, s.Missing)
		if s.Duplicate+s.ConflictingWrites == 0 || s.Missing > 0 {
			t.Errorf("audit of %s: %s", name, text(s))
		}
	}
}

// rewritten counts the writes to the table beyond one per row: its key lets it
// hold nothing twice.
func (p *pipeline) rewritten() int {
	p.t.Helper()
	if _, err := os.Stat(p.DB); err != nil {
		return 0 // not yet made by a worker
	}
	db, err := openDB(p.DB, "ro")
	check(p.t, err)
	defer db.Close()
	var n int
	if err := db.QueryRowContext(p.t.Context(), "SELECT coalesce(sum(insert_count - 1), 0) FROM payment_records").Scan(&n); err != nil {
		return 0 // nor the table
	}
	return n
}

// follow reads a feed until the test ends.
func follow(t *testing.T, f watch.Feed, name string) {
	for t.Context().Err() == nil {
		if err := f.New(t.Context(), func(string) {}); err != nil && t.Context().Err() == nil {
			fmt.Fprintln(os.Stderr, "follow", name+":", err) // the next look may do better
		}
		pause(t, lookEvery)
	}
}

// TestWatcherSeesUndecided: the reader that finds nothing in the other tests
// does find what a consumer at read_uncommitted shows.
func TestWatcherSeesUndecided(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Tasks: 2, Sinks: []string{"enriched"}, Epoch: "{ interval: 500ms }"})
	l := p.load(300, 0)
	l.watch(p.Tasks, map[string]watch.Feed{"uncommitted": p.topicFeed(p.Out, kgo.ReadUncommitted())})
	w := p.start(0)
	l.atLeast(2000)
	n := l.stop()
	l.complete(w)
	p.stop(w)
	seen := l.judge()
	wantDecided(t, "enriched", seen["enriched"])
	if u := seen["uncommitted"]; u.Violations == 0 || u.Effects < n {
		t.Errorf("read_uncommitted: %d effects of %d payments, %d while undecided: the watcher is blind", u.Effects, n, u.Violations)
	}
}

// TestAuditFinds: what is deleted, doubled or changed in any sink is found and
// counted, and nothing else.
func TestAuditFinds(t *testing.T) {
	for _, mode := range []string{"upsert", "append"} {
		t.Run(mode, func(t *testing.T) {
			p := newPipeline(t, services.Kafka(t, one), shape{Tasks: 2, Mode: mode})
			l := p.load(0, 1000)
			l.watch(p.Tasks, nil)
			w := p.start(0)
			l.complete(w)
			p.stop(w)
			l.wantDecided()
			p.wantRight(1000)
			d := &damage{p: p, want: map[string]row{}}
			for _, harm := range []func(){
				d.deleteMessage, d.doubleMessage, d.deleteRow, d.changeRow, d.doubleRow,
				d.deleteFile, d.doubleFile, d.deleteCall, d.doubleCall,
			} {
				harm()
				d.verify()
			}
		})
	}
}

// damage harms the sinks and keeps count of what an audit must say.
type damage struct {
	p    *pipeline
	want map[string]row // only the kinds of findings
}

func (d *damage) add(sink string, f func(*row)) {
	r := d.want[sink]
	f(&r)
	d.want[sink] = r
}

// verify audits and compares.
func (d *damage) verify() {
	t := d.p.t
	t.Helper()
	code, r := d.p.audit()
	if code != 4 {
		t.Errorf("audit: exit code %d, want 4", code)
	}
	for _, name := range d.p.Sinks {
		s := r.sink(t, name)
		got := row{Missing: s.Missing, Duplicate: s.Duplicate, Changed: s.Changed, OutOfOrder: s.OutOfOrder, Unexpected: s.Unexpected, ConflictingWrites: s.ConflictingWrites}
		if text(got) != text(d.want[name]) {
			t.Errorf("audit of %s:\n got %s\nwant %s", name, text(got), text(d.want[name]))
		}
	}
}

func (d *damage) deleteMessage() {
	var to kadm.Offsets
	to.AddOffset(d.p.Out, 0, 1, -1)
	_, err := d.p.adm.DeleteRecords(d.p.t.Context(), to)
	check(d.p.t, err)
	d.add("enriched", func(r *row) { r.Missing++ })
}

// doubleMessage writes the last message of partition 0 again.
func (d *damage) doubleMessage() {
	var last *kgo.Record
	for _, r := range d.p.read(d.p.Out) {
		if r.Partition == 0 {
			last = r
		}
	}
	again := &kgo.Record{Topic: last.Topic, Partition: 0, Key: last.Key, Value: last.Value, Headers: last.Headers, Timestamp: last.Timestamp}
	cl := d.p.c.Client(d.p.t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(d.p.t, cl.ProduceSync(d.p.t.Context(), again).FirstErr())
	d.add("enriched", func(r *row) { r.Duplicate++ })
}

func (d *damage) sql(query string) {
	d.p.t.Helper()
	db, err := openDB(d.p.DB, "rw")
	check(d.p.t, err)
	defer db.Close()
	res, err := db.ExecContext(d.p.t.Context(), query)
	check(d.p.t, err)
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		d.p.t.Fatalf("%s: %d rows, %v", query, n, err)
	}
}

func (d *damage) deleteRow() {
	d.sql("DELETE FROM payment_records WHERE rowid = 5")
	d.add("records", func(r *row) { r.Missing++ })
}

func (d *damage) changeRow() {
	d.sql("UPDATE payment_records SET fee_cents = fee_cents + 1 WHERE rowid = 6")
	d.add("records", func(r *row) { r.Changed++ })
}

// doubleRow: only a table without a key can hold a row twice; of the other the
// count of writes tells.
func (d *damage) doubleRow() {
	if d.p.Mode == "upsert" {
		d.sql("UPDATE payment_records SET insert_count = 2 WHERE rowid = 7")
		d.add("records", func(r *row) { r.ConflictingWrites++ })
		return
	}
	d.sql("INSERT INTO payment_records SELECT * FROM payment_records ORDER BY rowid DESC LIMIT 1")
	d.add("records", func(r *row) { r.Duplicate++ })
}

// files lists the lake, the largest file first.
func (d *damage) files() []string {
	d.p.t.Helper()
	rows := map[string]int64{}
	var paths []string
	for f, err := range object.Files(d.p.t.Context(), d.p.Lake) {
		check(d.p.t, err)
		path := filepath.Join(d.p.dir, "lake", f.Path)
		rows[path] = footerRows(d.p.t, path)
		paths = append(paths, path)
	}
	slices.SortFunc(paths, func(a, b string) int { return int(rows[b] - rows[a]) })
	return paths
}

func (d *damage) deleteFile() {
	path := d.files()[0]
	n := footerRows(d.p.t, path)
	check(d.p.t, os.Remove(path))
	d.add("lake", func(r *row) { r.Missing += n })
}

func (d *damage) doubleFile() {
	path := d.files()[0]
	b, err := os.ReadFile(path)
	check(d.p.t, err)
	check(d.p.t, os.WriteFile(strings.TrimSuffix(path, ".parquet")+"-copy.parquet", b, 0o644))
	n := footerRows(d.p.t, path)
	d.add("lake", func(r *row) { r.Duplicate += n })
}

func (d *damage) deleteCall() {
	p := d.p.partner
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = slices.Delete(slices.Clone(p.calls), 3, 4)
	d.add("partner", func(r *row) { r.Missing++ })
}

func (d *damage) doubleCall() {
	p := d.p.partner
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, p.calls[len(p.calls)-1])
	d.add("partner", func(r *row) { r.Duplicate++ })
}
