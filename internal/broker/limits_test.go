package broker

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	cl, c := fake(t, kfake.SeedTopics(1, "plain"))
	a := newAdmin(t, c)
	makeTopic(t, a, TopicSpec{Name: "big", Config: map[string]string{"max.message.bytes": "5000000"}}, 1, nil)
	makeTopic(t, a, TopicSpec{Name: "huge", Config: map[string]string{"max.message.bytes": "2000000000"}}, 1, nil)
	makeTopic(t, a, TopicSpec{Name: "tiny", Config: map[string]string{"max.message.bytes": "10"}}, 1, nil)
	l := NewLimits(a)
	if got := l.Topic("big"); got != DefaultMaxBytes {
		t.Errorf("unknown topic: got %d, want %d", got, DefaultMaxBytes)
	}
	if err := l.Load(soon(t), "plain", "big", "huge", "tiny"); err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]int32{"plain": 1048588, "big": 5000000, "huge": mostBatch, "tiny": leastBatch, "": 1048588} {
		if got := l.MaxBatch(topic); got != want {
			t.Errorf("%q: got %d, want %d", topic, got, want)
		}
	}
	if got := l.Largest("plain", "big"); got != 5000000 {
		t.Errorf("largest: got %d", got)
	}
	if got := l.Largest(); got != 0 {
		t.Errorf("largest of none: got %d", got)
	}
	fault := cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if err := l.Load(soon(t), "big"); err != nil {
		t.Errorf("without the right to ask: %v", err)
	}
	if got := l.Topic("big"); got != 5000000 {
		t.Errorf("what was known is forgotten: %d", got)
	}
	fault.Remove()
	problem(t, l.Load(soon(t), "nowhere"), "", "nowhere")
}

// TestMaxRecord: a record of exactly MaxRecord is taken by client and broker, a
// slightly larger one is refused by the client.
func TestMaxRecord(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	a := newAdmin(t, c)
	makeTopic(t, a, TopicSpec{Name: "t", Config: map[string]string{"max.message.bytes": "20000"}}, 1, nil)
	l := NewLimits(a)
	if err := l.Load(soon(t), "t"); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(a.Options(), l.Option(), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	rec := func(total int) *kgo.Record {
		r := &kgo.Record{
			Topic: "t", Key: []byte("key"), Timestamp: time.UnixMilli(1_700_000_000_000),
			Headers: []kgo.RecordHeader{{Key: "h", Value: bytes.Repeat([]byte("x"), 300)}},
		}
		r.Value = make([]byte, total-RecordBytes(r.Key, make([]byte, 10000), r.Headers)+10000)
		if got := RecordBytes(r.Key, r.Value, r.Headers); got != total {
			t.Fatalf("record of %d bytes, want %d", got, total)
		}
		return r
	}
	most := l.MaxRecord("t")
	if err := cl.ProduceSync(soon(t), rec(most)).FirstErr(); err != nil {
		t.Errorf("%d bytes: %v", most, err)
	}
	// Newer produce requests count up to four bytes less around a batch.
	if err := cl.ProduceSync(soon(t), rec(most+5)).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("%d bytes: got %v, want MESSAGE_TOO_LARGE", most+5, err)
	}
}

func TestVarint(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 1, 63: 1, 64: 2, 8191: 2, 8192: 3, 1 << 20: 4, 1<<31 - 1: 5} {
		if got := varint(n); got != want {
			t.Errorf("varint(%d) = %d, want %d", n, got, want)
		}
	}
}
