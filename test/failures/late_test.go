//go:build services

package failures

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// heldFor is how long a late request is on its way: longer than the worker
// waits for it, and in the end longer than the successor's first epochs.
const heldFor = 10 * time.Second

// TestLateRequests (1): an EndTxn, a Produce and a TxnOffsetCommit arrive when
// their sender has long given up and its successor has decided other epochs.
// The brokers refuse each, since the successor's producers were initialised
// anew.
func TestLateRequests(t *testing.T) {
	for _, o := range []services.Options{one, older} {
		t.Run(fmt.Sprintf("transaction version %d", 2-o.TransactionVersion), func(t *testing.T) {
			p, px := behind(t, services.Kafka(t, o), rig.Shape{
				Tasks: 3, Partitions: 3, Sinks: []string{"enriched", "records"}, Epoch: "{ timeout: 2s }", Restart: forever,
			})
			l := p.Load(300, 0)
			l.Watch(p.Tasks, nil)
			out := p.Follow()
			w := p.Run(0)
			p.AwaitTasks(3, w)
			kinds := []kmsg.Key{kmsg.EndTxn, kmsg.Produce, kmsg.TxnOffsetCommit}
			var held []*kafka.Armed
			for task, key := range kinds {
				held = append(held, px.Add(kafka.Rule{Key: key, TxnID: txnID(p, int32(task), "a"), From: 5, Act: kafka.Hold()}))
			}
			from := time.Now()
			for i, a := range held {
				met(t, kinds[i].Name(), a, 1)
			}
			out.Current(l) // by the successor
			if n := count(w, "attempt_over"); n < len(kinds) {
				t.Errorf("%d attempts are over, want one for each of %d requests that are held", n, len(kinds))
			}
			rig.Pause(t, heldFor-time.Since(from))
			for task, key := range kinds {
				codes := refusals(px, key, txnID(p, int32(task), "a"))
				held[task].Release()
				select {
				case code := <-codes:
					fenced := []error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping}
					if err := kerr.ErrorForCode(code); !slices.Contains(fenced, err) {
						t.Errorf("late %s: the broker answered %v, want that it is fenced", key.Name(), err)
					} else {
						t.Logf("late %s: %v", key.Name(), err)
					}
				case <-time.After(rig.Patience):
					t.Errorf("late %s: the broker has not refused it", key.Name())
				}
			}
			out.Current(l)
			finish(p, l, w)
		})
	}
}

// TestLateEndTxnWithoutFence is the control: a client that goes on with the
// producer it has, on brokers where its epoch does not rise, commits with a late
// EndTxn what it is about to abort (KIP-890).
func TestLateEndTxnWithoutFence(t *testing.T) {
	for _, tt := range []struct {
		o    services.Options
		want int
	}{
		{older, 2}, // the late EndTxn has committed the second transaction
		{one, 1},   // it was refused
	} {
		t.Run(fmt.Sprintf("transaction version %d", 2-tt.o.TransactionVersion), func(t *testing.T) {
			c := services.Kafka(t, tt.o)
			px := kafka.Start(t, c.Bootstrap())
			topic := c.Topic(t, "late", 1, nil)
			again := px.Add(kafka.Rule{Key: kmsg.EndTxn, Act: kafka.Again()})
			cl := c.Client(t, kgo.SeedBrokers(px.Bootstrap()...), kgo.TransactionalID(topic))
			begin := func(value string) {
				rig.Check(t, cl.BeginTransaction())
				rig.Check(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(value)}).FirstErr())
			}
			begin("first")
			rig.Check(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
			begin("second")
			answered := px.Add(kafka.Rule{Key: kmsg.EndTxn, Answer: true})
			again.Release()
			met(t, "the late EndTxn", answered, 1)
			err := cl.EndTransaction(t.Context(), kgo.TryAbort)
			t.Logf("abort of the second transaction: %v", err)
			if got := librdkafka(t, c, topic); len(got) != tt.want {
				t.Errorf("committed: got %v, want %d", got, tt.want)
			}
		})
	}
}
