//go:build services

package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
)

// producer is a transactional one for the test's own id.
func producer(t *testing.T, c *services.KafkaCluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return c.Client(t, append([]kgo.Opt{
		kgo.TransactionalID(t.Name()),
		kgo.TransactionTimeout(20 * time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProduceRequestTimeout(2 * time.Second), // a frozen broker is given up soon
		kgo.RequestTimeoutOverhead(2 * time.Second),
	}, opts...)...)
}

// write produces the values to partition 0 in one transaction and ends it.
func write(ctx context.Context, p *kgo.Client, topic string, end kgo.TransactionEndTry, values ...string) error {
	if err := p.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, v := range values {
		if err := p.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			return fmt.Errorf("produce %s: %w", v, err)
		}
	}
	if err := p.EndTransaction(ctx, end); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}

// read returns the first n values of partition 0, or fewer when time is up.
func read(ctx context.Context, t *testing.T, c *services.KafkaCluster, topic string, n int, opts ...kgo.Opt) []string {
	t.Helper()
	cl := c.Client(t, append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}, opts...)...)
	var got []string
	for len(got) < n && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

func wantValues(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestTransactionIsolation(t *testing.T) {
	for _, o := range []services.Options{{Nodes: 1}, {Nodes: 3}, {Nodes: 1, TransactionVersion: 1}} {
		t.Run(fmt.Sprintf("%d nodes, transaction version %d", o.Nodes, o.TransactionVersion), func(t *testing.T) {
			c := services.Kafka(t, o)
			ctx := deadline(t)
			topic := c.Topic(t, "harness", 1, nil)
			p := producer(t, c)
			check(t, write(ctx, p, topic, kgo.TryCommit, "a", "b"))
			check(t, write(ctx, p, topic, kgo.TryAbort, "never"))
			check(t, write(ctx, p, topic, kgo.TryCommit, "c"))

			committed := read(ctx, t, c, topic, 3, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			wantValues(t, "read_committed", committed, "a", "b", "c")
			all := read(ctx, t, c, topic, 4, kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
			wantValues(t, "read_uncommitted", all, "a", "b", "never", "c")
		})
	}
}

func TestZombieProducerIsFenced(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3})
	ctx := deadline(t)
	topic := c.Topic(t, "harness", 1, nil)
	zombie, heir := producer(t, c), producer(t, c)
	check(t, write(ctx, zombie, topic, kgo.TryCommit, "a"))
	check(t, write(ctx, heir, topic, kgo.TryCommit, "b"))
	if err := write(ctx, zombie, topic, kgo.TryCommit, "late"); err == nil {
		t.Error("the zombie committed")
	}
	check(t, write(ctx, heir, topic, kgo.TryCommit, "c"))
	wantValues(t, "read_committed", read(ctx, t, c, topic, 3, kgo.FetchIsolationLevel(kgo.ReadCommitted())), "a", "b", "c")
}
