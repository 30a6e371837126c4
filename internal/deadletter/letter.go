package deadletter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"exactly/record"
	"exactly/sink"
)

// Names of the headers. The record's own headers stand before them, unchanged.
const (
	HeaderPrefix    = "exactly.dlq."
	HeaderPipeline  = HeaderPrefix + "pipeline"
	HeaderStage     = HeaderPrefix + "stage" // the step, or "sink NAME"
	HeaderSink      = HeaderPrefix + "sink"  // absent where a step refused the record
	HeaderCode      = HeaderPrefix + "code"  // stable
	HeaderError     = HeaderPrefix + "error" // for people
	HeaderTopic     = HeaderPrefix + "topic" // source coordinates
	HeaderPartition = HeaderPrefix + "partition"
	HeaderOffset    = HeaderPrefix + "offset"
	HeaderTimestamp = HeaderPrefix + "timestamp" // of the source record, Unix ms
	HeaderSub       = HeaderPrefix + "sub"
	HeaderTask      = HeaderPrefix + "task"
	HeaderEpoch     = HeaderPrefix + "epoch"
	HeaderPiece     = HeaderPrefix + "piece"   // "2/5": the value is one piece of the record's value
	HeaderPointer   = HeaderPrefix + "pointer" // "true": the bytes are only at the source position
	HeaderNull      = HeaderPrefix + "null"    // "true": the record's value was null
)

// Oversize says what becomes of a record that the dead-letter topic cannot
// take.
type Oversize string

const (
	Pieces  Oversize = "pieces"
	Pointer Oversize = "pointer"
)

// CodeTooLarge: a topic that the record must go to does not take its size. Such
// a record reaches no sink, though every step takes it.
const CodeTooLarge = "too_large"

// Letter is one dead letter.
type Letter struct {
	Pipeline string
	Stage    string
	Sink     string
	Code     string
	Reason   string
	Task     int32
	Epoch    int64
	Record   record.Record
}

// overhead is what a record costs in a batch beyond its key, value and headers.
const overhead = 256

// maxReason bounds the error text, which may quote the record.
const maxReason = 1024

// Messages encodes a letter for a topic that takes maxBytes a record (0: no
// limit). More than one message, where the value is cut into pieces.
func (l Letter) Messages(topic string, maxBytes int, how Oversize) []sink.Message {
	base := l.headers()
	size := overhead + len(l.Record.Key) + headerBytes(l.Record.Headers) + headerBytes(base)
	m := sink.Message{
		Topic: topic, Partition: -1, Key: l.Record.Key, Value: l.Record.Value, Timestamp: l.Record.Timestamp,
		Headers: append(append([]record.Header{}, l.Record.Headers...), base...),
	}
	if maxBytes <= 0 || size+len(l.Record.Value) <= maxBytes {
		return []sink.Message{m}
	}
	room := maxBytes - size - len(HeaderPiece) - 24
	if how == Pointer || room < 1024 {
		// Headers or key alone may be what is too large: they go as well.
		m.Headers = append(base, record.Header{Key: HeaderPointer, Value: []byte("true")})
		m.Value = nil
		if len(m.Key) > maxBytes/4 {
			m.Key = nil
		}
		return []sink.Message{m}
	}
	return pieces(m, room)
}

func pieces(m sink.Message, room int) []sink.Message {
	n := (len(m.Value) + room - 1) / room
	out := make([]sink.Message, 0, n)
	for i := range n {
		p := m
		p.Value = m.Value[i*room : min(len(m.Value), (i+1)*room)]
		p.Headers = append(append([]record.Header{}, m.Headers...),
			record.Header{Key: HeaderPiece, Value: fmt.Appendf(nil, "%d/%d", i+1, n)})
		out = append(out, p)
	}
	return out
}

func headerBytes(hs []record.Header) int {
	n := 0
	for _, h := range hs {
		n += len(h.Key) + len(h.Value) + 8
	}
	return n
}

func (l Letter) headers() []record.Header {
	src := l.Record.Source
	reason := l.Reason
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	hs := []record.Header{
		{Key: HeaderPipeline, Value: []byte(l.Pipeline)},
		{Key: HeaderStage, Value: []byte(l.Stage)},
		{Key: HeaderCode, Value: []byte(l.Code)},
		{Key: HeaderError, Value: []byte(reason)},
		{Key: HeaderTopic, Value: []byte(src.Topic)},
		{Key: HeaderPartition, Value: strconv.AppendInt(nil, int64(src.Partition), 10)},
		{Key: HeaderOffset, Value: strconv.AppendInt(nil, src.Offset, 10)},
		{Key: HeaderTimestamp, Value: strconv.AppendInt(nil, src.Timestamp, 10)},
		{Key: HeaderSub, Value: strconv.AppendInt(nil, int64(l.Record.Sub), 10)},
		{Key: HeaderTask, Value: strconv.AppendInt(nil, int64(l.Task), 10)},
		{Key: HeaderEpoch, Value: strconv.AppendInt(nil, l.Epoch, 10)},
	}
	if l.Sink != "" {
		hs = append(hs, record.Header{Key: HeaderSink, Value: []byte(l.Sink)})
	}
	if l.Record.Value == nil {
		hs = append(hs, record.Header{Key: HeaderNull, Value: []byte("true")})
	}
	return hs
}

// ErrNoLetter: the record carries no coordinates of a dead letter.
var ErrNoLetter = errors.New("not a dead letter of this program")

// Parsed is a dead letter, or one piece of it, as read from its topic.
type Parsed struct {
	Letter
	Piece, Pieces int // 1/1 where the record was not cut
	Pointer       bool
}

// Parse reads a dead letter back. The record's own headers are restored.
func Parse(key, value []byte, headers []record.Header, timestamp int64) (Parsed, error) {
	p := Parsed{Piece: 1, Pieces: 1}
	p.Record = record.Record{Key: key, Value: value, Timestamp: timestamp}
	var bad error
	num := func(b []byte) int64 {
		n, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil && bad == nil {
			bad = fmt.Errorf("%w: %v", ErrNoLetter, err)
		}
		return n
	}
	seen := 0
	for _, h := range headers {
		switch h.Key {
		case HeaderPipeline:
			p.Pipeline = string(h.Value)
		case HeaderStage:
			p.Stage = string(h.Value)
		case HeaderSink:
			p.Sink = string(h.Value)
		case HeaderCode:
			p.Code = string(h.Value)
		case HeaderError:
			p.Reason = string(h.Value)
		case HeaderTopic:
			p.Record.Source.Topic = string(h.Value)
			seen++
		case HeaderPartition:
			p.Record.Source.Partition = int32(num(h.Value))
			seen++
		case HeaderOffset:
			p.Record.Source.Offset = num(h.Value)
			seen++
		case HeaderTimestamp:
			p.Record.Source.Timestamp = num(h.Value)
		case HeaderSub:
			p.Record.Sub = int32(num(h.Value))
		case HeaderTask:
			p.Task = int32(num(h.Value))
		case HeaderEpoch:
			p.Epoch = num(h.Value)
		case HeaderNull:
			p.Record.Value = nil
		case HeaderPointer:
			p.Pointer = true
		case HeaderPiece:
			a, b, _ := strings.Cut(string(h.Value), "/")
			p.Piece, p.Pieces = int(num([]byte(a))), int(num([]byte(b)))
		default:
			p.Record.Headers = append(p.Record.Headers, h)
		}
	}
	if bad == nil && seen < 3 {
		bad = ErrNoLetter
	}
	return p, bad
}
