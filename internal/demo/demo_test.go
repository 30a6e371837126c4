package demo

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"exactly/internal/catalog"
	"exactly/internal/config"
	"exactly/internal/payments"
	"exactly/internal/watch"
	"exactly/sink"
)

func testCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := openCluster(t.Context(), nil, "test", 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(false, false); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestPipelineFileIsRight(t *testing.T) {
	t.Parallel()
	c, p := testCluster(t), newPartner(t, 10)
	dir := filepath.Join(t.TempDir(), `a "folder" with blanks`)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, g := range []sink.Guarantee{sink.ExactlyOnce, sink.AtLeastOnce} {
		path, err := writePipeline(dir, c, p, g, 4)
		if err != nil {
			t.Fatal(err)
		}
		f, err := config.Load(path, catalog.Kinds(), func(string) (string, bool) { return "w", true })
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range f.Sinks {
			names = append(names, s.Name)
		}
		if f.Guarantee != g || f.Pipeline != pipelineName || !reflect.DeepEqual(names, sinkNames) {
			t.Errorf("the file gives %s, %s, %v", f.Guarantee, f.Pipeline, names)
		}
		if got, want := f.Broker().Names(1).Group(), c.group(); got != want {
			t.Errorf("group %s, want %s", got, want)
		}
		if got, want := f.Broker().Names(1).TxnID(2, 'b'), c.txnIDs(2)[1]; got != want {
			t.Errorf("transactional id %s, want %s", got, want)
		}
	}
}

func TestProducerWritesWhatIsGranted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := testCluster(t)
	x := newIndex(c.raw, 300)
	p := &producer{cl: c.cl, topic: c.raw, x: x, n: 300}
	done := make(chan error)
	go func() { done <- p.run(ctx) }()
	until := func(n int64) {
		t.Helper()
		for x.written() < n {
			if err := pause(ctx, time.Millisecond); err != nil {
				t.Fatalf("%d of %d were written", x.written(), n)
			}
		}
	}
	p.grant(100, 10*time.Millisecond)
	until(100)
	if err := pause(ctx, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := x.written(); got != 100 || p.left() != 200 {
		t.Errorf("%d were written, %d are left, want 100 and 200", got, p.left())
	}
	p.grant(1000, time.Millisecond)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := x.written(); got != 300 {
		t.Errorf("%d were written, want 300", got)
	}
	seen := map[watch.Position]bool{}
	for i := range int64(300) {
		at, ok := x.locate(payments.ID(i))
		if !ok || seen[at] {
			t.Fatalf("payment %d is at %+v, %v", i, at, ok)
		}
		seen[at] = true
	}
}

func TestIndex(t *testing.T) {
	t.Parallel()
	x := newIndex("raw", 25)
	if _, ok := x.locate(payments.ID(3)); ok {
		t.Error("a payment that was not written has a place")
	}
	for i := range int64(25) {
		for _, name := range sinkNames {
			if x.complete() {
				t.Fatal("complete too soon")
			}
			x.arrive(name, payments.ID(i))
		}
	}
	x.arrive("lake", payments.ID(3)) // again
	x.arrive("lake", "unknown")
	if !x.complete() || x.distinct("lake") != 25 {
		t.Errorf("complete %v with %d, want all 25 and no more", x.complete(), x.distinct("lake"))
	}
	ms := x.merchants()
	if len(ms) != payments.Merchants || ms[3].Source != 2 || ms[7].Source != 1 || ms[3].Sinks["lake"] != 2 {
		t.Errorf("merchants %+v, want two payments of merchant 3 and one of merchant 7", ms)
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	x := newIndex("raw", 8)
	for i := range int64(8) {
		x.put(i, int32(i%4), i/4)
	}
	o := &outputs{x: x, tasks: 2}
	from := time.Now()
	w := o.after(from, map[int32]int64{0: 1, 1: 1, 2: 0, 3: 0})
	for _, step := range []struct {
		payment int64
		after   time.Duration
	}{
		{0, 1}, // below the mark: decided before
		{1, 2}, // likewise
		{2, 30 * time.Millisecond},
		{4, 40 * time.Millisecond}, // the same task
	} {
		o.note(payments.ID(step.payment), from.Add(step.after))
	}
	if first, every := o.measured(w); first != 30*time.Millisecond || every != 0 {
		t.Errorf("measured %v and %v, want 30ms and nothing for every task", first, every)
	}
	o.note(payments.ID(3), from.Add(70*time.Millisecond))
	o.note(payments.ID(7), from.Add(90*time.Millisecond))
	if first, every := o.measured(w); first != 30*time.Millisecond || every != 70*time.Millisecond {
		t.Errorf("measured %v and %v, want 30ms and 70ms", first, every)
	}
	select {
	case <-w.all:
	default:
		t.Error("nobody is told that every task had output")
	}
}

func TestTableFeed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.db")
	f := &tableFeed{path: path}
	defer f.close()
	read := func() (ids []string) {
		t.Helper()
		if err := f.New(t.Context(), func(id string) { ids = append(ids, id) }); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	if got := read(); got != nil {
		t.Errorf("without a file: %v", got)
	}
	db, err := openDB(path, "rwc", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(stmt string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	exec("PRAGMA journal_mode = WAL")
	if got := read(); got != nil {
		t.Errorf("without a table: %v", got)
	}
	exec("CREATE TABLE payment_records (payment_id TEXT UNIQUE, n INTEGER)")
	exec("INSERT INTO payment_records VALUES ('a', 1), ('b', 1)")
	if got, want := read(), []string{"a", "b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	exec("INSERT INTO payment_records VALUES ('c', 1), ('a', 1) ON CONFLICT DO UPDATE SET n = 2")
	if got, want := read(), []string{"c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if !unlocked(t.Context(), path) {
		t.Error("nobody holds a lock, but the database counts as locked")
	}
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "DELETE FROM payment_records"); err != nil {
		t.Fatal(err)
	}
	if unlocked(t.Context(), path) {
		t.Error("a transaction is open, but the database does not count as locked")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := Options{Exe: "x"}.withDefaults()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"payments":  func(o *Options) { o.Payments = -1 },
		"kills":     func(o *Options) { o.Kills = 1_000_000 },
		"workers":   func(o *Options) { o.Workers = 1000 },
		"tasks":     func(o *Options) { o.Tasks = -1 },
		"guarantee": func(o *Options) { o.Guarantee = "often" },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil {
			t.Errorf("%s: %+v was taken", name, o)
		}
	}
}
