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
	"exactly/test/rig"
)

// TestAtLeastOnceDoubles is the control: the same pipeline without the protocol
// doubles records in every sink when workers are killed, and the audit says so.
func TestAtLeastOnceDoubles(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 4, Guarantee: "at_least_once", Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	l := p.Load(500, 0)
	for name, f := range p.Feeds(l.Tally) {
		go follow(t, f, name)
	}
	c := rig.NewChaos(p, rig.Random(t), 2)
	rig.Await(t, "every sink to hold something twice", func(context.Context) (string, bool) {
		c.Kill()
		state, doubled := c.String(), true
		for _, name := range p.Sinks {
			distinct, copies := l.Shown(name)
			if name == "records" {
				copies = rewritten(p)
			}
			state += fmt.Sprintf("; %s %d and %d copies", name, distinct, copies)
			doubled = doubled && copies > 0
		}
		t.Log(state)
		return state, doubled
	})
	l.Stop()
	p.Partner.Calm()
	l.Complete(c.Slots...)
	p.Stop(c.Slots...)
	code, r := p.Audit()
	if code != 4 {
		t.Errorf("audit: exit code %d, want 4", code)
	}
	for _, name := range p.Sinks {
		s := r.Sink(t, name)
		t.Logf("%s: %d duplicates, %d conflicting writes, %d missing", name, s.Duplicate, s.ConflictingWrites, s.Missing)
		if s.Duplicate+s.ConflictingWrites == 0 || s.Missing > 0 {
			t.Errorf("audit of %s: %s", name, rig.Text(s))
		}
	}
}

// rewritten counts the writes to the table beyond one per row: its key lets it
// hold nothing twice.
func rewritten(p *rig.Pipeline) int {
	p.T.Helper()
	if _, err := os.Stat(p.DB); err != nil {
		return 0 // not yet made by a worker
	}
	db, err := rig.OpenDB(p.DB, "ro")
	rig.Check(p.T, err)
	defer db.Close()
	var n int
	if err := db.QueryRowContext(p.T.Context(), "SELECT coalesce(sum(insert_count - 1), 0) FROM payment_records").Scan(&n); err != nil {
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
		rig.Pause(t, rig.LookEvery)
	}
}

// TestWatcherSeesUndecided: the reader that finds nothing in the other tests
// does find what a consumer at read_uncommitted shows.
func TestWatcherSeesUndecided(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 2, Sinks: []string{"enriched"}, Epoch: "{ interval: 500ms }"})
	l := p.Load(300, 0)
	l.Watch(p.Tasks, map[string]watch.Feed{"uncommitted": p.TopicFeed(p.Out, kgo.ReadUncommitted())})
	w := p.Run(0)
	l.AtLeast(2000)
	n := l.Stop()
	l.Complete(w)
	p.Stop(w)
	seen := l.Judge()
	rig.WantDecided(t, "enriched", seen["enriched"])
	if u := seen["uncommitted"]; u.Violations == 0 || u.Effects < n {
		t.Errorf("read_uncommitted: %d effects of %d payments, %d while undecided: the watcher is blind", u.Effects, n, u.Violations)
	}
}

// TestAuditFinds: what is deleted, doubled or changed in any sink is found and
// counted, and nothing else.
func TestAuditFinds(t *testing.T) {
	for _, mode := range []string{"upsert", "append"} {
		t.Run(mode, func(t *testing.T) {
			p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 2, Mode: mode})
			l := p.Load(0, 1000)
			l.Watch(p.Tasks, nil)
			w := p.Run(0)
			l.Complete(w)
			p.Stop(w)
			l.WantDecided()
			p.WantRight(1000)
			d := &damage{p: p, want: map[string]rig.Row{}}
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
	p    *rig.Pipeline
	want map[string]rig.Row // only the kinds of findings
}

func (d *damage) add(sink string, f func(*rig.Row)) {
	r := d.want[sink]
	f(&r)
	d.want[sink] = r
}

// verify audits and compares.
func (d *damage) verify() {
	t := d.p.T
	t.Helper()
	code, r := d.p.Audit()
	if code != 4 {
		t.Errorf("audit: exit code %d, want 4", code)
	}
	for _, name := range d.p.Sinks {
		s := r.Sink(t, name)
		got := rig.Row{Missing: s.Missing, Duplicate: s.Duplicate, Changed: s.Changed, OutOfOrder: s.OutOfOrder, Unexpected: s.Unexpected, ConflictingWrites: s.ConflictingWrites}
		if rig.Text(got) != rig.Text(d.want[name]) {
			t.Errorf("audit of %s:\n got %s\nwant %s", name, rig.Text(got), rig.Text(d.want[name]))
		}
	}
}

func (d *damage) deleteMessage() {
	var to kadm.Offsets
	to.AddOffset(d.p.Out, 0, 1, -1)
	_, err := d.p.Admin.DeleteRecords(d.p.T.Context(), to)
	rig.Check(d.p.T, err)
	d.add("enriched", func(r *rig.Row) { r.Missing++ })
}

// doubleMessage writes the last message of partition 0 again.
func (d *damage) doubleMessage() {
	var last *kgo.Record
	for _, r := range d.p.Read(d.p.Out) {
		if r.Partition == 0 {
			last = r
		}
	}
	again := &kgo.Record{Topic: last.Topic, Partition: 0, Key: last.Key, Value: last.Value, Headers: last.Headers, Timestamp: last.Timestamp}
	cl := d.p.Cluster.Client(d.p.T, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	rig.Check(d.p.T, cl.ProduceSync(d.p.T.Context(), again).FirstErr())
	d.add("enriched", func(r *rig.Row) { r.Duplicate++ })
}

func (d *damage) sql(query string) {
	d.p.T.Helper()
	db, err := rig.OpenDB(d.p.DB, "rw")
	rig.Check(d.p.T, err)
	defer db.Close()
	res, err := db.ExecContext(d.p.T.Context(), query)
	rig.Check(d.p.T, err)
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		d.p.T.Fatalf("%s: %d rows, %v", query, n, err)
	}
}

func (d *damage) deleteRow() {
	d.sql("DELETE FROM payment_records WHERE rowid = 5")
	d.add("records", func(r *rig.Row) { r.Missing++ })
}

func (d *damage) changeRow() {
	d.sql("UPDATE payment_records SET fee_cents = fee_cents + 1 WHERE rowid = 6")
	d.add("records", func(r *rig.Row) { r.Changed++ })
}

// doubleRow: only a table without a key can hold a row twice; of the other the
// count of writes tells.
func (d *damage) doubleRow() {
	if d.p.Mode == "upsert" {
		d.sql("UPDATE payment_records SET insert_count = 2 WHERE rowid = 7")
		d.add("records", func(r *rig.Row) { r.ConflictingWrites++ })
		return
	}
	d.sql("INSERT INTO payment_records SELECT * FROM payment_records ORDER BY rowid DESC LIMIT 1")
	d.add("records", func(r *rig.Row) { r.Duplicate++ })
}

// files lists the lake, the largest file first.
func (d *damage) files() []string {
	d.p.T.Helper()
	rows := map[string]int64{}
	var paths []string
	for f, err := range object.Files(d.p.T.Context(), d.p.Lake) {
		rig.Check(d.p.T, err)
		path := filepath.Join(d.p.Dir, "lake", f.Path)
		rows[path] = footerRows(d.p.T, path)
		paths = append(paths, path)
	}
	slices.SortFunc(paths, func(a, b string) int { return int(rows[b] - rows[a]) })
	return paths
}

func (d *damage) deleteFile() {
	path := d.files()[0]
	n := footerRows(d.p.T, path)
	rig.Check(d.p.T, os.Remove(path))
	d.add("lake", func(r *rig.Row) { r.Missing += n })
}

func (d *damage) doubleFile() {
	path := d.files()[0]
	b, err := os.ReadFile(path)
	rig.Check(d.p.T, err)
	rig.Check(d.p.T, os.WriteFile(strings.TrimSuffix(path, ".parquet")+"-copy.parquet", b, 0o644))
	n := footerRows(d.p.T, path)
	d.add("lake", func(r *rig.Row) { r.Duplicate += n })
}

func (d *damage) deleteCall() {
	d.p.Partner.Edit(func(calls []rig.Call) []rig.Call { return slices.Delete(slices.Clone(calls), 3, 4) })
	d.add("partner", func(r *rig.Row) { r.Missing++ })
}

func (d *damage) doubleCall() {
	d.p.Partner.Edit(func(calls []rig.Call) []rig.Call { return append(calls, calls[len(calls)-1]) })
	d.add("partner", func(r *rig.Row) { r.Duplicate++ })
}
