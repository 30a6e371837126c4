package deadletter

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"exactly/record"
)

func letter(value []byte) Letter {
	return Letter{
		Pipeline: "payments", Stage: "steps[0].where", Code: "not_json", Reason: "at byte 3", Task: 2, Epoch: 7,
		Record: record.Record{
			Key: []byte("k"), Value: value, Timestamp: 5, Sub: 1, Headers: []record.Header{{Key: "h", Value: []byte("v")}},
			Source: record.Position{Topic: "raw", Partition: 3, Offset: 1 << 40, Timestamp: 5},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, value := range map[string][]byte{"value": []byte("x{"), "null": nil, "empty": {}} {
		want := letter(value)
		ms := want.Messages("dlq", 0, Pieces)
		if len(ms) != 1 || ms[0].Topic != "dlq" {
			t.Fatalf("%s: got %d messages", name, len(ms))
		}
		got, err := Parse(ms[0].Key, ms[0].Value, ms[0].Headers, ms[0].Timestamp)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Letter, want) || got.Piece != 1 || got.Pieces != 1 {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestPiecesHoldEveryByte(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte("0123456789"), 2000)
	const limit = 4096
	var joined []byte
	ms := letter(value).Messages("dlq", limit, Pieces)
	for i, m := range ms {
		if n := len(m.Key) + len(m.Value) + headerBytes(m.Headers) + overhead; n > limit {
			t.Errorf("piece %d has %d bytes, more than %d", i, n, limit)
		}
		p, err := Parse(m.Key, m.Value, m.Headers, m.Timestamp)
		if err != nil || p.Piece != i+1 || p.Pieces != len(ms) {
			t.Errorf("piece %d: %d/%d, %v", i, p.Piece, p.Pieces, err)
		}
		joined = append(joined, p.Record.Value...)
	}
	if !bytes.Equal(joined, value) {
		t.Errorf("the pieces hold %d bytes, the record had %d", len(joined), len(value))
	}
}

func TestPointer(t *testing.T) {
	t.Parallel()
	big := letter(bytes.Repeat([]byte("x"), 9000))
	hugeKey := letter([]byte("v"))
	hugeKey.Record.Key = bytes.Repeat([]byte("k"), 9000)
	hugeHeader := letter([]byte("v"))
	hugeHeader.Record.Headers = []record.Header{{Key: "h", Value: bytes.Repeat([]byte("h"), 9000)}}
	for name, tc := range map[string]struct {
		l   Letter
		how Oversize
	}{"by setting": {big, Pointer}, "huge key": {hugeKey, Pieces}, "huge header": {hugeHeader, Pieces}} {
		ms := tc.l.Messages("dlq", 4096, tc.how)
		if len(ms) != 1 {
			t.Fatalf("%s: got %d messages", name, len(ms))
		}
		if n := len(ms[0].Key) + len(ms[0].Value) + headerBytes(ms[0].Headers); n > 4096 {
			t.Errorf("%s: still %d bytes", name, n)
		}
		p, err := Parse(ms[0].Key, ms[0].Value, ms[0].Headers, 0)
		if err != nil || !p.Pointer || p.Record.Source.Offset != 1<<40 {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
}

func TestParseRefusesOthers(t *testing.T) {
	t.Parallel()
	for _, hs := range [][]record.Header{
		nil,
		{{Key: HeaderTopic, Value: []byte("t")}},
		{{Key: HeaderTopic, Value: []byte("t")}, {Key: HeaderPartition, Value: []byte("x")}, {Key: HeaderOffset, Value: []byte("1")}},
	} {
		if _, err := Parse(nil, nil, hs, 0); !errors.Is(err, ErrNoLetter) {
			t.Errorf("%v: got %v", hs, err)
		}
	}
}

func TestLongReasonIsCut(t *testing.T) {
	t.Parallel()
	l := letter([]byte("v"))
	l.Reason = strings.Repeat("é", 4000)
	m := l.Messages("dlq", 0, Pieces)[0]
	p, _ := Parse(m.Key, m.Value, m.Headers, 0)
	if len(p.Reason) > maxReason+8 {
		t.Errorf("reason has %d bytes", len(p.Reason))
	}
}
