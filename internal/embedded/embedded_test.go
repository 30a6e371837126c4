package embedded_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
)

// TestAbortedBeyondMaxBytes: answers that end at the request's limit must still say
// which of their records were aborted.
func TestAbortedBeyondMaxBytes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		start      func(...kfake.Opt) (*kfake.Cluster, error)
		clean      bool
		partitions int32
	}{
		{"one partition", embedded.Start, true, 1},
		{"three partitions", embedded.Start, true, 3},
		// Once this one fails, kfake is mended, and Start can go without the change.
		{"kfake alone", kfake.NewCluster, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := tt.start(kfake.NumBrokers(1), kfake.SeedTopics(tt.partitions, "in"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			const rounds, size = 20, 1000
			write(ctx, t, c, tt.partitions, rounds, size)

			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(),
				kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
				kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(5*size), kgo.FetchMaxPartitionBytes(5*size))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			committed, aborted := 0, 0
			for committed < rounds*int(tt.partitions) {
				fs := cl.PollFetches(ctx)
				if err := fs.Err(); err != nil {
					t.Fatalf("after %d committed and %d aborted records: %v", committed, aborted, err)
				}
				fs.EachRecord(func(r *kgo.Record) {
					if r.Value[0] == 'a' {
						aborted++
					} else {
						committed++
					}
				})
			}
			if (aborted == 0) != tt.clean {
				t.Errorf("a committed reader saw %d aborted records, want none: %t", aborted, tt.clean)
			}
		})
	}
}

// write makes rounds of an aborted and a committed transaction in each partition.
func write(ctx context.Context, t *testing.T, c *kfake.Cluster, partitions int32, rounds, size int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.TransactionalID("id"),
		kgo.DefaultProduceTopic("in"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range rounds {
		for _, commit := range []bool{false, true} {
			value := bytes.Repeat([]byte{'a'}, size)
			if commit {
				value[0] = 'c'
			}
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for p := range partitions {
				if err := cl.ProduceSync(ctx, &kgo.Record{Partition: p, Value: value}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
