package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/test/proxy"
)

// A client that was given the proxy produces in transactions, consumes as a
// member of a group, and never dials a broker itself; with each message taken
// apart and put together again all is as without.
func TestClientsStayBehind(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		b := newBench(t)
		if apart {
			for _, key := range []kmsg.Key{
				kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.Produce,
				kmsg.EndTxn, kmsg.Fetch, kmsg.ListOffsets, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetFetch, kmsg.OffsetCommit,
			} {
				b.p.Add(Rule{Key: key, Times: proxy.Always, Act: Rewrite(func(kmsg.Request) {})})
				b.p.Add(Rule{Key: key, Answer: true, Times: proxy.Always, Act: RewriteAnswer(func(kmsg.Request, kmsg.Response) {})})
			}
		}
		cl := b.client(kgo.TransactionalID("id"), kgo.ConsumerGroup("group"), kgo.ConsumeTopics(topic),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		check(t, cl.BeginTransaction())
		for i := range int32(3) {
			check(t, cl.ProduceSync(b.within(), &kgo.Record{Topic: topic, Partition: i, Value: []byte{'a' + byte(i)}}).FirstErr())
		}
		check(t, cl.EndTransaction(b.within(), kgo.TryCommit))
		var got []string
		for len(got) < 3 {
			fs := cl.PollFetches(b.within())
			check(t, fs.Err())
			fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		check(t, cl.CommitUncommittedOffsets(b.within()))
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("got %v", got)
		}
		b.mu.Lock()
		for _, addr := range b.c.ListenAddrs() {
			if b.dialed[addr] {
				t.Errorf("the client has dialed broker %s", addr)
			}
		}
		if len(b.dialed) != 3 {
			t.Errorf("the client has dialed %v, want one listener for each of 3 brokers", b.dialed)
		}
		b.mu.Unlock()
	}
}

// Each fault, on a producer whose repetitions the brokers cannot tell: what is
// stored shows whether the request was carried out, and how often.
func TestFaultsOfAProduce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule Rule
		want string
	}{
		{"nothing", Rule{Key: kmsg.EndTxn, Act: Drop()}, "a b c"},
		{"request dropped", Rule{Act: Drop()}, "a b c"},
		{"answer dropped", Rule{Answer: true, Act: Drop()}, "a b b c"},
		{"request cut", Rule{Act: Cut()}, "a b c"},
		{"answer cut", Rule{Answer: true, Act: Cut()}, "a b b c"},
		{"request again", Rule{Act: Again()}, "a b c b"},
		{"request delayed", Rule{Act: Delay(time.Second)}, "a b b c"}, // longer than the client's patience
		{"answer an error", Rule{Answer: true, Act: Code(kerr.NotLeaderForPartition)}, "a b b c"},
		{"answer an error twice", Rule{Answer: true, Times: 2, Act: Code(kerr.NotLeaderForPartition)}, "a b b b c"},
		{"answer a little late", Rule{Answer: true, Act: Delay(10 * time.Millisecond)}, "a b c"},
		{"of another client", Rule{Answer: true, Client: "another", Act: Cut()}, "a b c"},
		{"of this client", Rule{Answer: true, Client: "under-test", Act: Cut()}, "a b b c"},
		{"of another topic", Rule{Answer: true, Topic: "another", Act: Cut()}, "a b c"},
		{"of this topic", Rule{Answer: true, Topic: topic, Act: Cut()}, "a b b c"},
		{"of a transaction", Rule{Answer: true, TxnID: "id", Act: Cut()}, "a b c"},
		{"chosen", Rule{Answer: true, Where: func(m *Message) bool { return m.Request().(*kmsg.ProduceRequest).Acks == -1 }, Act: Cut()}, "a b b c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			cl := b.plain()
			b.produce(cl, "a")
			if tt.rule.Key == 0 {
				tt.rule.Key = kmsg.Produce
			}
			a := b.p.Add(tt.rule)
			b.produce(cl, "b", "c")
			a.Release()
			want := strings.Fields(tt.want)
			direct := b.plain()
			b.eventually("what is stored", func() bool { return b.end(direct) >= int64(len(want)) })
			got := b.stored()
			if tt.name == "request delayed" { // the late one may come before or after c
				slices.Sort(got)
			}
			b.want(got, want...)
		})
	}
}

// An idempotent producer survives the same without a copy.
func TestIdempotentProducerHasNoCopies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cl := b.client()
	b.produce(cl, "a")
	a := b.p.Add(Rule{Key: kmsg.Produce, Answer: true, Topic: topic, Times: 2, Act: Cut()})
	b.produce(cl, "b", "c")
	if a.Hits() != 2 {
		t.Errorf("hits: got %d, want 2", a.Hits())
	}
	b.want(b.stored(), "a", "b", "c")
}

// A held request is carried out when it is released, although its client has
// long gone.
func TestHeldRequestArrivesLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cl := b.plain()
	b.produce(cl, "a")
	a := b.p.Add(Rule{Key: kmsg.Produce, Act: Hold()})
	cl.Produce(b.within(), &kgo.Record{Topic: topic, Value: []byte("late")}, nil)
	check(t, a.Wait(b.within(), 1))
	cl.Close()
	b.produce(b.plain(), "b")
	b.want(b.stored(), "a", "b")
	a.Release()
	direct := b.plain()
	b.eventually("the late record", func() bool { return b.end(direct) == 3 })
	b.want(b.stored(), "a", "b", "late")
}

// EndTxn by transactional id: carried out and not told, told to have failed,
// and never received.
func TestFaultsOfEndTxn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		rule Rule
		want string // committed
	}{
		{"of another id", Rule{TxnID: "another", Act: Hold()}, "v"},
		{"carried out, an error told", Rule{TxnID: "id", Answer: true, Act: Code(kerr.UnknownServerError)}, "v"},
		{"request turned into an abort", Rule{TxnID: "id", Act: Rewrite(func(r *kmsg.EndTxnRequest) { r.Commit = false })}, ""},
		{"held for ever", Rule{TxnID: "id", Act: Hold()}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tt.rule.Key = kmsg.EndTxn
			a := b.p.Add(tt.rule)
			cl := b.client(kgo.TransactionalID("id"))
			check(t, cl.BeginTransaction())
			b.produce(cl, "v")
			ended := make(chan error, 1)
			go func() { ended <- cl.EndTransaction(b.within(), kgo.TryCommit) }()
			if tt.rule.TxnID == "another" {
				check(t, <-ended)
			} else {
				check(t, a.Wait(b.within(), 1))
			}
			if tt.name == "carried out, an error told" {
				if err := <-ended; !errors.Is(err, kerr.UnknownServerError) {
					t.Errorf("the client was told %v", err)
				}
			}
			if tt.want == "" {
				rest := b.client(kgo.TransactionalID("id")) // it ends what is open
				_, _, err := rest.ProducerID(b.within())
				check(t, err)
			}
			var got []string
			b.committed(func(v string) { got = append(got, v) })
			b.want(got, strings.Fields(tt.want)...)
		})
	}
}

// committed gives what a consumer at read_committed gets of partition 0.
func (b *bench) committed(fn func(string)) {
	b.t.Helper()
	marker := b.client(kgo.TransactionalID("marker"))
	check(b.t, marker.BeginTransaction())
	b.produce(marker, "end")
	check(b.t, marker.EndTransaction(b.within(), kgo.TryCommit))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.c.ListenAddrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	check(b.t, err)
	defer cl.Close()
	for done := false; !done; {
		fs := cl.PollFetches(b.within())
		check(b.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			if string(r.Value) == "end" {
				done = true
				return
			}
			fn(string(r.Value))
		})
	}
}

// Answers to fetches by topic, with records taken away.
func TestRewrittenFetch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produce(b.plain(), "a")
	a := b.p.Add(Rule{Key: kmsg.Fetch, Answer: true, Topic: topic, Act: RewriteAnswer(func(_ *kmsg.FetchRequest, r *kmsg.FetchResponse) {
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[j].RecordBatches = nil
			}
		}
	})})
	cl := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}), kgo.FetchMaxWait(50*time.Millisecond))
	fs := cl.PollFetches(b.within())
	check(t, fs.Err())
	if fs.NumRecords() != 1 || a.Hits() != 1 {
		t.Errorf("%d records after %d answers without them, want 1 and 1", fs.NumRecords(), a.Hits())
	}
}

// What cannot be done as the rule says is an error of the proxy, not silence.
func TestRuleThatCannotBe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, err := open(b.c.ListenAddrs())
	check(t, err)
	p.Add(Rule{Key: kmsg.Produce, Act: Rewrite(func(*kmsg.EndTxnRequest) {})})
	cl := b.client(kgo.SeedBrokers(p.Bootstrap()...), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
	b.produce(cl, "a")
	if err := p.Close(); !errors.Is(err, errUnread) {
		t.Errorf("close: got %v, want %v", err, errUnread)
	}
}

// A broker that is down is down behind the proxy as well, and not one that
// speaks something else.
func TestBrokerDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cl := b.client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordDeliveryTimeout(time.Second))
	b.produce(cl, "a")
	b.c.Close()
	err := cl.ProduceSync(b.within(), &kgo.Record{Topic: topic, Value: []byte("b")}).FirstErr()
	if strange := new(kgo.ErrFirstReadEOF); err == nil || errors.As(err, &strange) {
		t.Errorf("got %v, want that nobody is there", err)
	}
}
