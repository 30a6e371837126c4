package broker

import (
	"context"
	"math"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds of a batch, in bytes: below the first the client refuses a limit,
// above the second a request would not fit what it sends at once (100 MiB).
const (
	leastBatch = 512
	mostBatch  = 100<<20 - 64<<10
)

// Limits knows the largest batch that each topic takes (max.message.bytes). It
// is safe for concurrent use.
type Limits struct {
	a  *Admin
	mu sync.RWMutex
	of map[string]int64
}

// NewLimits gives Limits that know nothing yet.
func NewLimits(a *Admin) *Limits { return &Limits{a: a, of: map[string]int64{}} }

// Load asks for topics and keeps the answers; called again, it refreshes them.
// Without the right to ask, Kafka's default is assumed, with a warning.
func (l *Limits) Load(ctx context.Context, topics ...string) error {
	if len(topics) == 0 {
		return nil
	}
	confs, err := l.a.topicConfigs(ctx, topics)
	if CodeOf(err) == CodeACL {
		l.a.c.Log.Warn("topic_limits_unknown", "topics", topics, "assumed_max_message_bytes", DefaultMaxBytes, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, conf := range confs {
		if n, err := strconv.ParseInt(conf["max.message.bytes"], 10, 64); err == nil {
			l.of[topic] = n
		}
	}
	return nil
}

// Topic gives a topic's max.message.bytes, DefaultMaxBytes where it is unknown.
// It does no I/O.
func (l *Limits) Topic(topic string) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n, ok := l.of[topic]; ok {
		return n
	}
	return DefaultMaxBytes
}

// Largest gives the largest limit of the topics, 0 for none.
func (l *Limits) Largest(topics ...string) int64 {
	var most int64
	for _, t := range topics {
		most = max(most, l.Topic(t))
	}
	return most
}

// MaxBatch is for kgo.ProducerBatchMaxBytesFn. The client asks once, when it
// first sees a partition of the topic: Load before the first record.
func (l *Limits) MaxBatch(topic string) int32 {
	return int32(min(max(l.Topic(topic), leastBatch), mostBatch)) //nolint:gosec // bounded
}

// Option makes a producer keep to the limits.
func (l *Limits) Option() kgo.ProducerOpt { return kgo.ProducerBatchMaxBytesFn(l.MaxBatch) }

// batchOverhead is what a batch of one record adds around it: the record
// batch's header of 61 bytes (KIP-98) and the length that the client counts.
const batchOverhead = 61 + 4

// MaxRecord gives the largest record, in bytes as RecordBytes counts, that the
// client and the topic take. The client compares before it compresses.
func (l *Limits) MaxRecord(topic string) int { return int(l.MaxBatch(topic)) - batchOverhead }

// RecordBytes is how large a record is as the only one of a batch (KIP-98).
func RecordBytes(key, value []byte, headers []kgo.RecordHeader) int {
	n := 1 + 1 + 1 + // attributes, timestamp and offset delta of a batch's first record
		varint(len(key)) + len(key) + varint(len(value)) + len(value) + varint(len(headers))
	for _, h := range headers {
		n += varint(len(h.Key)) + len(h.Key) + varint(len(h.Value)) + len(h.Value)
	}
	return varint(n) + n
}

// varint is the length of a zigzag varint, in bytes.
func varint(n int) int {
	length := 1
	for u := uint64(min(n, math.MaxInt32)) << 1; u >= 0x80; u >>= 7 { //nolint:gosec // lengths are not negative
		length++
	}
	return length
}
