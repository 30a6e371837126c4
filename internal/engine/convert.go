package engine

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/record"
	"exactly/sink"
)

func fromKafka(rec *kgo.Record) record.Record {
	r := record.Record{
		Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp.UnixMilli(),
		Source: record.Position{
			Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset,
			LeaderEpoch: rec.LeaderEpoch, Timestamp: rec.Timestamp.UnixMilli(),
		},
	}
	if len(rec.Headers) > 0 {
		r.Headers = make([]record.Header, len(rec.Headers))
		for i, h := range rec.Headers {
			r.Headers[i] = record.Header{Key: h.Key, Value: h.Value}
		}
	}
	return r
}

// slab makes the client's records, many in one piece of memory: one by one they
// are the largest share of what a record costs the collector. They are
// acknowledged about in order, so that a piece is not held for long by its last.
type slab []kgo.Record

const slabRecords = 64

// of gives m as a record of the client.
func (s *slab) of(m *sink.Message) *kgo.Record {
	if len(*s) == 0 {
		*s = make(slab, slabRecords)
	}
	r := &(*s)[0]
	*s = (*s)[1:]
	r.Topic, r.Partition, r.Key, r.Value, r.Timestamp = m.Topic, m.Partition, m.Key, m.Value, time.UnixMilli(m.Timestamp)
	if len(m.Headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(m.Headers))
		for i, h := range m.Headers {
			r.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
		}
	}
	return r
}
