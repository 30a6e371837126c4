//go:build services

package failures

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// TestGuessing is the control of TestAnswersToEndTxn: a client that takes an
// unclear answer for an abort doubles what was committed, and one that takes it
// for a commit loses what was not.
func TestGuessing(t *testing.T) {
	c := services.Kafka(t, one)
	for _, tt := range []struct {
		name   string
		f      fault
		repeat bool // the guess: it was aborted
		want   int  // committed copies of one record
	}{
		{"done, taken for an abort", told(kmsg.EndTxn, "", kerr.UnknownServerError)[0], true, 2},
		{"not done, taken for a commit", refused(kerr.UnknownServerError), false, 0},
		{"done, taken for a commit", told(kmsg.EndTxn, "", kerr.UnknownServerError)[0], false, 1},
		{"not done, taken for an abort", refused(kerr.UnknownServerError), true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			px := kafka.Start(t, c.Bootstrap())
			topic := c.Topic(t, "guess", 1, nil)
			write := func() error {
				cl := c.Client(t, kgo.SeedBrokers(px.Bootstrap()...), kgo.TransactionalID(topic))
				defer cl.Close()
				rig.Check(t, cl.BeginTransaction())
				rig.Check(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("payment")}).FirstErr())
				return cl.EndTransaction(t.Context(), kgo.TryCommit)
			}
			for _, r := range tt.f.rules {
				px.Add(r)
			}
			if err := write(); err == nil {
				t.Error("the client was told that all is well")
			}
			if tt.repeat {
				rig.Check(t, write())
			}
			_, _, err := c.Client(t, kgo.TransactionalID(topic)).ProducerID(t.Context()) // ends what is open
			rig.Check(t, err)
			got := strings.Count(strings.Join(librdkafka(t, c, topic), " ")+" ", " 7061796d656e74 ")
			if got != tt.want {
				t.Errorf("%d copies are committed, want %d", got, tt.want)
			}
		})
	}
}

// TestLostAcknowledgement is the oldest of all: the acknowledgement of a produce
// is lost, and the producer sends again. Brokers recognise the batch by producer
// id, epoch and sequence (docs/producer-ids.md); where a producer has none, it
// is stored twice.
func TestLostAcknowledgement(t *testing.T) {
	c := services.Kafka(t, three)
	const n = 300
	for _, tt := range []struct {
		name string
		opts []kgo.Opt
		want bool // copies
	}{
		{"without producer id", []kgo.Opt{kgo.DisableIdempotentWrite()}, true},
		{"idempotent", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			px := kafka.Start(t, c.Bootstrap())
			topic := c.Topic(t, "ack", 1, nil)
			lost := px.Add(kafka.Rule{Key: kmsg.Produce, Answer: true, Topic: topic, From: 5, Times: 20, Act: kafka.Cut()})
			cl := c.Client(t, append([]kgo.Opt{
				kgo.SeedBrokers(px.Bootstrap()...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MaxBufferedRecords(10), kgo.ProducerLinger(0),
				kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
			}, tt.opts...)...)
			for i := range n {
				cl.Produce(t.Context(), &kgo.Record{Topic: topic, Key: []byte{byte(i >> 8), byte(i)}}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			rig.Check(t, cl.Flush(t.Context()))
			met(t, "lost acknowledgements", lost, 20)
			times := map[string]int{}
			copies := 0
			for _, line := range librdkafka(t, c, topic) {
				key := line[strings.LastIndexByte(line, ' '):]
				if times[key]++; times[key] > 1 {
					copies++
				}
			}
			t.Logf("%d records, %d copies, %d acknowledgements lost", len(times), copies, lost.Hits())
			if len(times) != n || (copies > 0) != tt.want {
				t.Errorf("%d of %d records and %d copies, want copies: %t", len(times), n, copies, tt.want)
			}
		})
	}
	t.Run("the product", func(t *testing.T) {
		p, px := behind(t, c, rig.Shape{Tasks: 2, Epoch: "{ timeout: 5s }", Restart: forever})
		l := p.Load(300, 0)
		l.Watch(p.Tasks, nil)
		w := p.Run(0)
		p.AwaitTasks(2, w)
		lost := px.Add(kafka.Rule{Key: kmsg.Produce, Answer: true, Times: rig.Sized(t, 50, 1000), Act: kafka.Cut()})
		met(t, "lost acknowledgements", lost, rig.Sized(t, 50, 1000))
		finish(p, l, w)
	})
}
