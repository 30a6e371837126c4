package bench

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
	"exactly/internal/payments"
	"exactly/record"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	in := []uint64{1, 3, 5, 7}
	tests := []struct {
		name string
		out  []uint64
		want Counts
	}{
		{"all", []uint64{1, 3, 5, 7}, Counts{Inputs: 4, Unique: 4}},
		{"none", nil, Counts{Inputs: 4}},
		{"doubled", []uint64{1, 1, 1, 3, 5, 7, 7}, Counts{Inputs: 4, Unique: 4, Duplicates: 3}},
		{"missing at the ends", []uint64{3, 5}, Counts{Inputs: 4, Unique: 2}},
		{"strangers", []uint64{0, 1, 2, 2, 3, 5, 7, 9}, Counts{Inputs: 4, Unique: 4, Unknown: 4}},
	}
	for _, tt := range tests {
		if got := compare(in, tt.out); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	c := Counts{Inputs: 5, Unique: 4, Duplicates: 1, Unknown: 1, Wrong: 1}
	if got := len(c.problems("x", true)); got != 4 {
		t.Errorf("exactly once: %d problems, want 4", got)
	}
	if got := len(c.problems("x", false)); got != 3 {
		t.Errorf("at least once: %d problems, want 3", got)
	}
}

// TestCount reads a topic in which a payment is missing, one is doubled, one is
// from elsewhere, one was aborted, and the first ones are wrong.
func TestCount(t *testing.T) {
	t.Parallel()
	fake, err := embedded.Start(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	o := Quick()
	o.Brokers, o.Partitions, o.Log = fake.ListenAddrs(), 2, slog.New(slog.DiscardHandler)
	r := &run{o: o}
	cl, err := r.client(kgo.TransactionalID("count"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	r.cluster = &cluster{adm: kadm.NewClient(cl)}
	if err := r.cluster.create(ctx, "out", 2); err != nil {
		t.Fatal(err)
	}
	write := func(end kgo.TransactionEndTry, change func(*kgo.Record), is ...int64) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, i := range is {
			out := enriched(t, i)
			out.Topic, out.Partition = "out", int32(i%2)
			change(out)
			if err := cl.ProduceSync(ctx, out).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for leader := int32(-1); leader < 0 && ctx.Err() == nil; { // else it may take the transaction for empty
			leader, _, _ = cl.PartitionLeader("out", 0)
		}
		if err := cl.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	same := func(*kgo.Record) {}
	write(kgo.TryCommit, func(r *kgo.Record) { r.Key = []byte("x") }, 0, 1) // in either partition: one of them is looked into
	write(kgo.TryCommit, same, 2, 3, 2, 99)
	write(kgo.TryAbort, same, 3, 4)
	inputs, err := fingerprints(5)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.count(ctx, "out", inputs)
	if want := (Counts{Inputs: 5, Unique: 4, Duplicates: 1, Unknown: 1, Wrong: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// enriched is payment i as the loop makes it.
func enriched(t *testing.T, i int64) *kgo.Record {
	t.Helper()
	p := payments.New(i, time.UnixMilli(1))
	out, err := Loop{To: "out"}.enrich(&kgo.Record{Key: p.Key(), Value: p.AppendJSON(nil)}, time.UnixMilli(2))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEnrich(t *testing.T) {
	t.Parallel()
	for _, i := range []int64{0, 389, 390, 499} { // 390: 400.00
		out := enriched(t, i)
		if !right(out) {
			t.Errorf("payment %d becomes %s", i, out.Value)
		}
		if v, _ := record.Lookup(out.Value, "processed_at"); string(v) != `"1970-01-01T00:00:00.002Z"` {
			t.Errorf("processed_at is %s", v)
		}
	}
	out, err := Loop{}.enrich(&kgo.Record{Value: []byte(`{"amount_cents":0}`)}, time.Time{})
	if out != nil || err != nil {
		t.Errorf("a payment of nothing becomes %v, %v", out, err)
	}
	if _, err := (Loop{}).enrich(&kgo.Record{Value: []byte(`{`)}, time.Time{}); err == nil {
		t.Error("half a payment is taken")
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	same := func(f float64) float64 { return f }
	if got, want := spread([]float64{3, 1, 2}, same), (Spread{Median: 2, Min: 1, Max: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := spread([]float64{4, 1, 2, 3}, same), (Spread{Median: 2.5, Min: 1, Max: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	ds := make([]time.Duration, 200)
	for i := range ds {
		ds[i] = time.Duration(200 - i)
	}
	if l := summary(ds); l.p50 != 100 || l.p99 != 198 || l.max != 200 || l.samples != 200 {
		t.Errorf("summary of 1 to 200: %+v", l)
	}
	if l := summary([]time.Duration{7}); l.p50 != 7 || l.p99 != 7 {
		t.Errorf("summary of one: %+v", l)
	}
}

// TestWanted: every figure that is aimed at is found, and can be missed.
func TestWanted(t *testing.T) {
	t.Parallel()
	result := func(factor float64) *Result {
		at := func(f float64) Spread { return Spread{Median: f, Min: f, Max: f} }
		r := &Result{Restart: []Restart{{Contestant: "exactly_once 10ms", Took: at(200 * factor)}, {Contestant: "exactly_once 100ms", Took: at(200 * factor)}}}
		for name, rate := range map[string]float64{"loop 100ms": 95, "at_least_once 100ms": 100, "exactly_once 100ms": 95 / factor} {
			r.Throughput = append(r.Throughput, Throughput{Contestant: name, Rate: at(rate)})
		}
		r.Latency = []Latency{
			{Contestant: "exactly_once 10ms", Rate: 2000, P50: at(999), P99: at(999)},
			{Contestant: "exactly_once 10ms", Rate: 10_000, P50: at(12 * factor), P99: at(40 * factor)},
		}
		return r
	}
	for factor, want := range map[float64]bool{1: true, 1.01: false} {
		ws := result(factor).wanted()
		if len(ws) != 6 {
			t.Errorf("%d figures, want 6: %+v", len(ws), ws)
		}
		for _, w := range ws {
			if w.Reached != want {
				t.Errorf("factor %v: %+v", factor, w)
			}
		}
	}
}

// TestTurned: every round has all contestants, and begins with another.
func TestTurned(t *testing.T) {
	t.Parallel()
	cs := Default().throughputContestants()
	for by := range 2 * len(cs) {
		got := turned(cs, by)
		if len(got) != len(cs) || got[0] != cs[by%len(cs)] {
			t.Errorf("turned by %d: %v", by, got)
		}
		for _, c := range cs {
			if !slices.Contains(got, c) {
				t.Errorf("turned by %d: no %s", by, c.name())
			}
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"":           func(*Options) {},
		"brokers":    func(o *Options) { o.Brokers = nil },
		"records":    func(o *Options) { o.Records = 0 },
		"partitions": func(o *Options) { o.Partitions = 0 },
		"rounds":     func(o *Options) { o.Rounds = 0 },
		"kills":      func(o *Options) { o.Kills = 0 },
		"measure":    func(o *Options) { o.Measure = 0 },
		"intervals":  func(o *Options) { o.Intervals = []time.Duration{time.Hour} },
		"rates":      func(o *Options) { o.Rates = []float64{math.NaN()} },
		"parts":      func(o *Options) { o.Parts = []string{"speed"} },
	} {
		o := Default()
		o.Brokers = []string{"localhost:9092"}
		change(&o)
		err := o.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
}
