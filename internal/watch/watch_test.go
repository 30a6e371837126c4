package watch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/embedded"
)

func set(ts ...txn) map[txn]bool {
	m := map[txn]bool{}
	for _, t := range ts {
		m[t] = true
	}
	return m
}

func TestJudge(t *testing.T) {
	t.Parallel()
	a, b := txn{"a", 1, 1, 1}, txn{"b", 2, 1, 1}
	next := txn{"b", 2, 2, 9}
	type look struct {
		committed int64
		ongoing   map[txn]bool
		want      verdict
	}
	tests := []struct {
		name  string
		first states
		looks []look // the effect is of offset 10
	}{
		{"decided, offsets late", states{ongoing: set()}, []look{{10, set(a), open}, {11, set(a), cleared}}},
		{"another one moved the offset", states{ongoing: set(b)}, []look{{5, set(b), open}, {11, set(b), cleared}}},
		{"another one moved it, a new one began", states{ongoing: set(b)}, []look{{11, set(b, a), cleared}}},
		{"its own commit moved it", states{ongoing: set(b)}, []look{{10, set(b), open}, {11, set(), violation}}},
		{"its own commit, and the next is open", states{ongoing: set(b)}, []look{{10, set(b), open}, {11, set(next), violation}}},
		{"one of two", states{ongoing: set(a, b)}, []look{{10, set(a, b), open}, {11, set(b), violation}}},
		{"aborted, then replayed", states{ongoing: set(b)}, []look{{10, set(), open}, {10, set(next), open}, {11, set(), violation}}},
		{"too quick to tell", states{ongoing: set(b)}, []look{{11, set(), undetermined}}},
		{"one was being committed", states{ongoing: set(b), preparing: true}, []look{{10, set(b), open}, {11, set(), undetermined}}},
		{"one was being committed, then its own", states{ongoing: set(b), preparing: true}, []look{{10, set(b), open}, {10, set(b), open}, {11, set(), violation}}},
		{"one was being committed, the other goes on for a while", states{ongoing: set(b), preparing: true}, []look{{10, set(b), open}, {11, set(b), cleared}}},
		{"one was being committed, the other goes on", states{ongoing: set(b), preparing: true}, []look{{11, set(b), cleared}}},
	}
	for _, tt := range tests {
		s := suspect{at: Position{Offset: 10}, seen: tt.first}
		for i, l := range tt.looks {
			if got := s.judge(l.committed, states{ongoing: l.ongoing}); got != l.want {
				t.Errorf("%s: look %d: %d, want %d", tt.name, i, got, l.want)
			}
		}
	}
}

// feed is a sink that shows what it is told to.
type feed struct {
	mu  sync.Mutex
	ids []string
}

func (f *feed) show(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, id)
}

func (f *feed) New(_ context.Context, fn func(string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.ids {
		fn(id)
	}
	f.ids = nil
	return nil
}

// pipeline commits the offset of partition 0 in a transaction, as a task does.
type pipeline struct {
	t  *testing.T
	cl *kgo.Client
}

func newPipeline(t *testing.T, opts ...kgo.Opt) *pipeline {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.TransactionalID("txn"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &pipeline{t, cl}
}

func (p *pipeline) begin(ctx context.Context) {
	p.t.Helper()
	if err := p.cl.BeginTransaction(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cl.ProduceSync(ctx, &kgo.Record{Topic: "out", Value: []byte("x")}).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipeline) commit(ctx context.Context, offset int64) {
	p.t.Helper()
	pid, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "txn", pid, epoch, "group"
	if resp, err := add.RequestWith(ctx, p.cl); err != nil || resp.ErrorCode != 0 {
		p.t.Fatal(err, resp)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.Generation = "txn", pid, epoch, "group", -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = "raw"
	topics, err := kadm.NewClient(p.cl).ListTopics(ctx, "raw")
	if err != nil {
		p.t.Fatal(err)
	}
	rt.TopicID = topics["raw"].ID
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, p.cl)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		p.t.Fatal(err, resp)
	}
	if err := p.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		p.t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(1, "raw", "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	cl, err := kgo.NewClient(seeds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	honest, early, never := &feed{}, &feed{}, &feed{}
	w := New(Config{
		Client: cl, Group: "group", Interval: time.Millisecond, Grace: time.Second,
		TxnIDs: func(int32) []string { return []string{"txn"} },
		Locate: func(id string) (Position, bool) {
			at, ok := map[string]int64{"0": 0, "1": 1, "2": 2, "99": 99}[id]
			return Position{Topic: "raw", Offset: at}, ok
		},
		Feeds: map[string]Feed{"honest": honest, "early": early, "never": never},
	})
	stop, done := make(chan struct{}), make(chan error)
	go func() { done <- w.Run(ctx, stop) }()

	p := newPipeline(t, seeds)
	until := func(what string, ok func(m map[string]Seen) bool) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !ok(w.Result()) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("not reached: %s: %+v", what, w.Result())
			}
		}
	}
	p.begin(ctx)
	early.show("0") // while the transaction is open
	until("early effect suspected", func(m map[string]Seen) bool { return m["early"].Suspects == 1 })
	looks := w.Result()["early"].Looks
	until("looked again", func(m map[string]Seen) bool { return m["early"].Looks > looks+2 })
	p.commit(ctx, 1)
	honest.show("0")
	never.show("99")
	never.show("unknown")
	until("honest effect seen", func(m map[string]Seen) bool { return m["honest"].Effects == 1 })
	p.begin(ctx)
	p.commit(ctx, 3)
	honest.show("1")
	honest.show("2")
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := w.Result()
	if s := got["honest"]; s.Effects != 3 || s.Violations != 0 || s.Suspects != 0 || s.Undetermined != 0 {
		t.Errorf("honest sink: %+v, want 3 effects and nothing else", s)
	}
	if s := got["early"]; s.Violations != 1 || len(s.First) != 1 {
		t.Errorf("sink that was early: %+v, want 1 violation", s)
	}
	if s := got["never"]; s.Violations != 2 {
		t.Errorf("sink with effects of nothing: %+v, want 2 violations", s)
	}
}
