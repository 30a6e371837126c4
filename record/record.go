package record

import (
	"strconv"
	"time"
)

// Position is a place in the source: it names one record for ever, and is the
// root of every identity (idempotency keys, dead letters, audit) downstream.
type Position struct {
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1 where the broker gave none
	Timestamp   int64 // of the source record, Unix milliseconds
}

// String gives "topic-partition@offset", as errors and logs show it.
func (p Position) String() string {
	return p.Topic + "-" + strconv.Itoa(int(p.Partition)) + "@" + strconv.FormatInt(p.Offset, 10)
}

// Header is one record header. Names may repeat, as in Kafka.
type Header struct {
	Key   string
	Value []byte
}

// Record is one event. The byte slices are shared, never modified in place:
// who changes a record replaces the slice.
type Record struct {
	Key       []byte // nil: none
	Value     []byte // nil: a tombstone; empty: an empty value, which is something else
	Headers   []Header
	Timestamp int64 // Unix milliseconds

	Source Position
	Sub    int32 // index among the records that one source record became (flat_map), from 0
}

// Tombstone reports whether the record says "delete what this key names".
func (r *Record) Tombstone() bool { return r.Value == nil }

// Time is Timestamp as a UTC time.
func (r *Record) Time() time.Time { return time.UnixMilli(r.Timestamp).UTC() }

// Size is about what the record holds in memory and on the wire, in bytes.
func (r *Record) Size() int {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 4
	}
	return n
}

// Header gives the last value of a header, as Kafka clients do.
func (r *Record) Header(key string) ([]byte, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}
