package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/embedded"
)

// bench is a cluster of three embedded brokers with a topic of three
// partitions, and a proxy in front of it.
type bench struct {
	t *testing.T
	c *kfake.Cluster
	p *Proxy

	mu     sync.Mutex
	dialed map[string]bool
}

const topic = "topic"

func newBench(t *testing.T) *bench {
	t.Helper()
	c, err := embedded.Start(kfake.NumBrokers(3), kfake.SeedTopics(3, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for n := range int32(3) { // the embedded brokers draw lots; each is to lead one
		check(t, c.MoveTopicPartition(topic, n, n))
	}
	return &bench{t: t, c: c, p: Start(t, c.ListenAddrs()[:1]), dialed: map[string]bool{}}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client is one behind the proxy that soon loses patience.
func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	var d net.Dialer
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.p.Bootstrap()...), kgo.ClientID("under-test"),
		kgo.ProduceRequestTimeout(100 * time.Millisecond), kgo.RequestTimeoutOverhead(200 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			b.mu.Lock()
			b.dialed[addr] = true
			b.mu.Unlock()
			return d.DialContext(ctx, network, addr)
		}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
	check(b.t, err)
	b.t.Cleanup(cl.Close)
	return cl
}

// plain is a producer that repeats what was not acknowledged, and gives the
// brokers nothing to tell a repetition by.
func (b *bench) plain() *kgo.Client {
	return b.client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
}

func (b *bench) within() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) produce(cl *kgo.Client, values ...string) {
	b.t.Helper()
	for _, v := range values {
		check(b.t, cl.ProduceSync(b.within(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr())
	}
}

// stored gives what partition 0 holds, asked of the brokers themselves.
func (b *bench) stored(opts ...kgo.Opt) []string {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.c.ListenAddrs()...), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
	}, opts...)...)
	check(b.t, err)
	defer cl.Close()
	end := b.end(cl)
	var out []string
	for next := int64(0); next < end; {
		fs := cl.PollFetches(b.within())
		check(b.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			out, next = append(out, string(r.Value)), r.Offset+1
		})
	}
	return out
}

// end is the high watermark of partition 0.
func (b *bench) end(cl *kgo.Client) int64 {
	b.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.within(), cl)
	check(b.t, err)
	return resp.Topics[0].Partitions[0].Offset
}

func (b *bench) want(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("partition 0 holds %v, want %v", got, want)
	}
}

// eventually waits for a condition that no event announces.
func (b *bench) eventually(what string, f func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx := b.within()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatal(fmt.Errorf("wait for %s: %w", what, ctx.Err()))
		}
	}
}
