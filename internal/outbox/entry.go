package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"

	"exactly/record"
	"exactly/sink"
)

// Header is the name of the header that holds an entry's place. It stands
// first; the record's own headers follow unchanged.
const Header = "exactly"

const format = 1

// Entry is an outbox record with all that a sink's cursor needs.
type Entry struct {
	sink.Entry
	Prev      sink.Pos // of the outbox record before this one; zero: none
	Bytes     int64    // of the task's outbox in this generation, this entry included
	EpochTime int64    // when its epoch began, Unix ms
	Offset    int64    // in the outbox topic; set once it was acknowledged
}

// Meta encodes the place of an entry: the value of the header.
func (e *Entry) Meta(b []byte) []byte {
	flags := byte(0)
	if e.Key == nil {
		flags |= 1
	}
	if e.Value == nil {
		flags |= 2
	}
	b = append(b, format, flags)
	for _, v := range [...]int64{
		e.Pos.Epoch, e.Pos.Index, e.Prev.Epoch, e.Prev.Index, e.Bytes, e.EpochTime,
		int64(e.Source.Partition), e.Source.Offset, int64(e.Source.LeaderEpoch), e.Source.Timestamp, int64(e.Sub),
	} {
		b = binary.AppendVarint(b, v)
	}
	return append(b, e.Source.Topic...)
}

// ErrFormat: the record was not written by this program.
var ErrFormat = errors.New("not an outbox record")

// Parse restores an entry from the Kafka record's parts.
func Parse(key, value []byte, headers []record.Header, timestamp, offset int64) (Entry, error) {
	if len(headers) == 0 || headers[0].Key != Header {
		return Entry{}, fmt.Errorf("%w: no header %q", ErrFormat, Header)
	}
	b := headers[0].Value
	if len(b) < 2 || b[0] != format {
		return Entry{}, fmt.Errorf("%w: unknown format", ErrFormat)
	}
	flags := b[1]
	b = b[2:]
	var v [11]int64
	for i := range v {
		n, k := binary.Varint(b)
		if k <= 0 {
			return Entry{}, fmt.Errorf("%w: cut short", ErrFormat)
		}
		v[i], b = n, b[k:]
	}
	var e Entry
	e.Pos, e.Prev = sink.Pos{Epoch: v[0], Index: v[1]}, sink.Pos{Epoch: v[2], Index: v[3]}
	e.Bytes, e.EpochTime, e.Offset = v[4], v[5], offset
	e.Source = record.Position{Topic: string(b), Partition: int32(v[6]), Offset: v[7], LeaderEpoch: int32(v[8]), Timestamp: v[9]}
	e.Sub, e.Timestamp = int32(v[10]), timestamp
	e.Key, e.Value = keepNil(key, flags&1 != 0), keepNil(value, flags&2 != 0)
	if len(headers) > 1 {
		e.Headers = headers[1:]
	}
	return e, nil
}

// keepNil restores the difference between null and empty, which clients blur.
func keepNil(b []byte, null bool) []byte {
	switch {
	case null:
		return nil
	case b == nil:
		return []byte{}
	}
	return b
}
