package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/embedded"
	"exactly/internal/engine"
	"exactly/record"
	"exactly/sink"
	"exactly/sinktest"
	"exactly/step"
)

// pass is a chain without steps.
type pass struct{}

func (pass) Apply(dst []record.Record, r record.Record, _ step.Epoch) ([]record.Record, error) {
	if string(r.Value) == "bad" {
		return dst, &step.Error{Step: "steps[0].where", Code: "expression", Err: fmt.Errorf("bad")}
	}
	return append(dst, r), nil
}

// copyTo is a Kafka sink.
type copyTo string

func (c copyTo) Features() sink.Features     { return sink.Features{Keyless: true, Deletes: true} }
func (c copyTo) Check(context.Context) error { return nil }
func (c copyTo) Close() error                { return nil }
func (c copyTo) Topics() []string            { return []string{string(c)} }
func (c copyTo) Route(dst []sink.Message, r *record.Record) ([]sink.Message, error) {
	return append(dst, sink.Message{Topic: string(c), Partition: -1, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}), nil
}

type bench struct {
	t       *testing.T
	c       *kfake.Cluster
	brokers []string
	srv     *sinktest.Server
	made    int // records that deadOf has produced
}

func newBench(t *testing.T, partitions int32) *bench {
	t.Helper()
	c, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "raw", "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &bench{t: t, c: c, brokers: c.ListenAddrs(), srv: sinktest.NewServer()}
}

func (b *bench) config() engine.Config {
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	return engine.Config{
		Pipeline: "payments",
		Broker:   broker.Config{Brokers: b.brokers, CreateTopics: true, SessionTimeout: 6 * time.Second, Log: slog.New(slog.DiscardHandler)},
		Source:   engine.Source{Topics: []string{"raw"}},
		Epoch:    engine.Epoch{Interval: 20 * time.Millisecond, Timeout: 10 * time.Second},
		Restart:  engine.Restart{Max: -1},
		NewChain: func() step.Chain { return pass{} },
		Sinks: []engine.Sink{
			{Name: "out", Sink: copyTo("out")},
			{Name: "rows", Sink: sinktest.NewModelOutbox(b.srv, sinktest.Options{Table: "rows"})},
			{Name: "files", Sink: sinktest.NewModelStager(b.srv, sinktest.Options{Table: "files"})},
			{Name: "db", Sink: sinktest.NewModelStaging(b.srv, sinktest.Options{Table: "db"})},
		},
		Dir: b.t.TempDir(),
		Events: func(e engine.Event) {
			if testing.Verbose() && e.Kind != engine.SinkLag {
				b.t.Logf("%s task %d epoch %d n %d %s %v", e.Kind, e.Task, e.Epoch, e.N, e.Sink, e.Err)
			}
		},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
}

func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.brokers...))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

func (b *bench) produce(from, n int) {
	b.t.Helper()
	cl := b.client()
	for i := from; i < from+n; i++ {
		cl.Produce(b.t.Context(), &kgo.Record{Topic: "raw", Key: fmt.Appendf(nil, "k%d", i%17), Value: fmt.Appendf(nil, "v%d", i)}, nil)
	}
	if err := cl.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// until polls for a condition with a deadline.
func (b *bench) until(what string, f func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			b.t.Fatal("not within a minute: ", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *bench) rows(table string) map[string]int {
	got := map[string]int{}
	for _, r := range b.srv.Records(table) {
		got[string(r.Value)]++
	}
	return got
}

func (b *bench) topic(name string) map[string]int {
	b.t.Helper()
	got := map[string]int{}
	b.each(name, func(r *kgo.Record) { got[string(r.Value)]++ })
	return got
}

// each reads the committed records of a topic to its stable end.
func (b *bench) each(name string, f func(*kgo.Record)) {
	b.t.Helper()
	ends, err := kadm.NewClient(b.client()).ListCommittedOffsets(b.t.Context(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	cl := b.client(kgo.ConsumeTopics(name), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	at := map[int32]int64{}
	done := func() bool {
		ok := true
		ends.Each(func(o kadm.ListedOffset) { ok = ok && at[o.Partition] >= o.Offset })
		return ok
	}
	for !done() {
		cl.PollFetches(b.t.Context()).EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				f(r)
			}
		})
	}
}

func wantEach(t *testing.T, what string, got map[string]int, n int) {
	t.Helper()
	if len(got) != n {
		t.Errorf("%s: %d different records, want %d", what, len(got), n)
	}
	for v, c := range got {
		if c != 1 {
			t.Errorf("%s: %s is there %d times", what, v, c)
		}
	}
}

func TestEverySinkGetsEachRecordOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	b.produce(0, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- engine.New(b.config()).Run(ctx) }()
	b.until("1000 rows", func() bool {
		return len(b.rows("rows")) == 1000 && len(b.rows("files")) == 1000 && len(b.rows("db")) == 1000
	})
	b.produce(1000, 500)
	b.until("1500 rows", func() bool {
		return len(b.rows("rows")) == 1500 && len(b.rows("files")) == 1500 && len(b.rows("db")) == 1500
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"rows", "files", "db"} {
		wantEach(t, table, b.rows(table), 1500)
	}
	wantEach(t, "out", b.topic("out"), 1500)
}

func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	b := newBench(t, 4)
	var wg sync.WaitGroup
	stopAll := make(chan struct{})
	b.produce(0, 500)
	for i := range 3 {
		wg.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stopAll:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				c := b.config()
				var decided atomic.Int64
				c.Events = func(e engine.Event) {
					if e.Kind == engine.EpochDecided && decided.Add(1) == int64(8+4*i) {
						cancel()
					}
				}
				go func() {
					select {
					case <-stopAll:
						cancel()
					case <-ctx.Done():
					}
				}()
				if err := engine.New(c).Run(ctx); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	for i := range 10 {
		b.produce(500+100*i, 100)
		time.Sleep(100 * time.Millisecond)
	}
	b.until("1500 rows", func() bool {
		return len(b.rows("rows")) == 1500 && len(b.rows("db")) == 1500 && len(b.rows("files")) == 1500
	})
	close(stopAll)
	wg.Wait()
	for _, table := range []string{"rows", "files", "db"} {
		wantEach(t, table, b.rows(table), 1500)
	}
	wantEach(t, "out", b.topic("out"), 1500)
}

// ownedStaging tells for whom it is opened.
type ownedStaging struct {
	*sinktest.ModelStaging
	owners chan sink.Owner
}

func (s ownedStaging) OpenStaging(ctx context.Context, o sink.Owner) (sink.StagingTask, error) {
	select {
	case s.owners <- o:
	default:
	}
	return s.ModelStaging.OpenStaging(ctx, o)
}

func TestOwnersKnowTheStagingSinks(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	c := b.config()
	s := ownedStaging{sinktest.NewModelStaging(b.srv, sinktest.Options{Table: "more"}), make(chan sink.Owner, 1)}
	c.Sinks = append(c.Sinks, engine.Sink{Name: "more", Sink: s})
	stop := b.run(c)
	if o := <-s.owners; o.Stagings != 2 {
		t.Errorf("got %d staging sinks, want 2", o.Stagings)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
