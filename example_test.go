package exactly_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly"
	"exactly/record"
	"exactly/sink"
	"exactly/step"
)

// store is a database of the example: rows and a ledger that change together.
type store struct {
	mu     sync.Mutex
	rows   []string
	ledger map[int32]sink.Pos // per task
	full   chan struct{}      // closed when there are as many rows as want
	want   int
}

// rowSink is an outbox sink over a store: it applies decided records, and moves
// its ledger in the same transaction.
type rowSink struct{ db *store }

func (s rowSink) Features() sink.Features     { return sink.Features{Keyless: true, DurableVerdicts: true} }
func (s rowSink) Check(context.Context) error { return nil }
func (s rowSink) Close() error                { return nil }

// OpenOutbox says where the ledger stands.
func (s rowSink) OpenOutbox(_ context.Context, o sink.Owner, _ sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return rowTask{s.db, o.Task}, sink.Resume{Through: s.db.ledger[o.Task]}, nil
}

type rowTask struct {
	db   *store
	task int32
}

// Apply accepts exactly the next batch: records that the ledger has passed were
// applied before, by an attempt whose answer was lost.
func (t rowTask) Apply(_ context.Context, b sink.Batch) (sink.Result, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	at := t.db.ledger[t.task]
	if at.Before(b.Prev) {
		return sink.Result{Through: b.Prev}, sink.ErrLedgerBehind
	}
	for _, r := range b.Records {
		if at.Before(r.Pos) {
			t.db.rows = append(t.db.rows, string(r.Value))
		}
	}
	if at.Before(b.Through) {
		t.db.ledger[t.task] = b.Through
	}
	if len(t.db.rows) == t.db.want {
		close(t.db.full)
		t.db.want = 0
	}
	return sink.Result{Through: b.Through}, nil
}

func (rowTask) Close() error { return nil }

// A pipeline with an outbox sink of one's own, on an embedded broker.
func ExamplePipeline() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "payments.raw"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	produce(ctx, broker.ListenAddrs(), `{"id":1,"cents":500}`, `{"id":2,"cents":-1}`, `{"id":3,"cents":90000}`)

	db := &store{ledger: map[int32]sink.Pos{}, full: make(chan struct{}), want: 2}
	p := exactly.Pipeline{
		Name:   "payments",
		Kafka:  exactly.Kafka{Brokers: broker.ListenAddrs(), CreateTopics: true},
		Source: exactly.Source{Topics: []string{"payments.raw"}},
		Steps: []step.Spec{
			{Where: "cents > 0"},
			{Set: []step.Assign{{Field: "status", Expr: `cents >= 40000 ? "review" : "ok"`}}},
		},
		Sinks: []exactly.Sink{{Name: "rows", Sink: rowSink{db}}},
		Log:   slog.New(slog.DiscardHandler),
	}
	go func() {
		<-db.full
		stop() // what is open is decided, applied and confirmed first
	}()
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	slices.Sort(db.rows)
	for _, row := range db.rows {
		fmt.Println(row)
	}
	// Output:
	// {"id":1,"cents":500,"status":"ok"}
	// {"id":3,"cents":90000,"status":"review"}
}

func produce(ctx context.Context, brokers []string, values ...string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cl.Close()
	for i, v := range values {
		r := &kgo.Record{Topic: "payments.raw", Key: fmt.Append(nil, i), Value: []byte(v)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			fmt.Println(err)
		}
	}
}

// twoPhase is a staging sink: what is written is invisible until the epoch is
// decided. A real one stages durably (PREPARE TRANSACTION, a file beside its
// final name); this one in memory, so it cannot survive its process.
type twoPhase struct {
	mu      sync.Mutex
	staged  map[int64][]string
	visible []string
	want    int
	done    func()
}

func (s *twoPhase) Features() sink.Features     { return sink.Features{Keyless: true} }
func (s *twoPhase) Check(context.Context) error { return nil }
func (s *twoPhase) Close() error                { return nil }

func (s *twoPhase) OpenStaging(context.Context, sink.Owner) (sink.StagingTask, error) {
	return &twoPhaseTask{s}, nil
}

type twoPhaseTask struct{ s *twoPhase }

func (t *twoPhaseTask) Write(_ context.Context, epoch int64, rs []record.Record) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, r := range rs {
		t.s.staged[epoch] = append(t.s.staged[epoch], string(r.Value))
	}
	return nil
}

// Prepare hands out what names the staged work from any process.
func (t *twoPhaseTask) Prepare(_ context.Context, epoch int64) ([]sink.Committable, error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if len(t.s.staged[epoch]) == 0 {
		return nil, nil
	}
	return []sink.Committable{{Data: fmt.Append(nil, epoch)}}, nil
}

// Commit is called after the decision, as often as needed: it is idempotent.
func (t *twoPhaseTask) Commit(_ context.Context, cs []sink.Committable) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, c := range cs {
		t.s.visible = append(t.s.visible, t.s.staged[c.Epoch]...)
		delete(t.s.staged, c.Epoch)
	}
	if len(t.s.visible) >= t.s.want {
		t.s.done()
	}
	return nil
}

func (t *twoPhaseTask) Abort(_ context.Context, cs []sink.Committable) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, c := range cs {
		delete(t.s.staged, c.Epoch)
	}
	return nil
}

func (t *twoPhaseTask) Sweep(context.Context, []sink.Committable) error { return nil }
func (t *twoPhaseTask) Close() error                                    { return nil }

// A pipeline with a staging sink of one's own.
func ExamplePipeline_staging() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments.raw"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	produce(ctx, broker.ListenAddrs(), `{"id":1}`, `{"id":2}`)

	target := &twoPhase{staged: map[int64][]string{}, want: 2, done: stop}
	p := exactly.Pipeline{
		Name:   "payments",
		Kafka:  exactly.Kafka{Brokers: broker.ListenAddrs(), CreateTopics: true},
		Source: exactly.Source{Topics: []string{"payments.raw"}},
		Sinks:  []exactly.Sink{{Name: "target", Sink: target}},
		Log:    slog.New(slog.DiscardHandler),
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range target.visible {
		fmt.Println(row)
	}
	// Output:
	// {"id":1}
	// {"id":2}
}
