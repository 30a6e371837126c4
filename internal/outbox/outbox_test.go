package outbox

import (
	"errors"
	"reflect"
	"testing"

	"exactly/record"
	"exactly/sink"
)

func entry(epoch, index int64, prev sink.Pos) Entry {
	var e Entry
	e.Pos, e.Prev = sink.Pos{Epoch: epoch, Index: index}, prev
	e.Key, e.Value = []byte("k"), make([]byte, 100)
	return e
}

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	for name, kv := range map[string][2][]byte{"both": {[]byte("k"), []byte("v")}, "nil": {nil, nil}, "empty": {{}, {}}} {
		e := entry(7, 3, sink.Pos{Epoch: 7, Index: 2})
		e.Key, e.Value = kv[0], kv[1]
		e.Bytes, e.EpochTime, e.Sub, e.Timestamp, e.Offset = 1<<40, 99, 2, 55, 12
		e.Source = record.Position{Topic: "a.b", Partition: 4, Offset: 1 << 50, LeaderEpoch: -1, Timestamp: 54}
		e.Headers = []record.Header{{Key: Header, Value: []byte("the user's own")}}
		hs := append([]record.Header{{Key: Header, Value: e.Meta(nil)}}, e.Headers...)
		// A client may give nil for an empty slice and the reverse.
		got, err := Parse(append([]byte{}, kv[0]...), append([]byte(nil), kv[1]...), hs, 55, 12)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, e) {
			t.Errorf("%s: got %+v, want %+v", name, got, e)
		}
	}
}

func FuzzParse(f *testing.F) {
	e := entry(1, 0, sink.Pos{})
	f.Add(e.Meta(nil))
	f.Add([]byte{1, 0, 0x80})
	f.Fuzz(func(t *testing.T, meta []byte) {
		got, err := Parse(nil, nil, []record.Header{{Key: Header, Value: meta}}, 0, 0)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(nil, nil, []record.Header{{Key: Header, Value: got.Meta(nil)}}, 0, 0)
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("got %+v, then %+v, %v", got, again, err)
		}
	})
}

func TestTailServesInOrderAndForgetsTheOldest(t *testing.T) {
	t.Parallel()
	tail := NewTail(2200, sink.Pos{})
	prev := sink.Pos{}
	for epoch := int64(2); epoch <= 10; epoch += 2 { // every other epoch is empty
		var es []Entry
		for i := range int64(3) {
			es = append(es, entry(epoch, i, prev))
			prev = sink.Pos{Epoch: epoch, Index: i}
		}
		tail.Append(es)
	}
	if _, _, ok := tail.From(sink.Pos{}, 10, 1<<20); ok {
		t.Error("a tail of 500 bytes reaches back to the start")
	}
	pos := sink.Pos{Epoch: 8, Index: 1}
	var got []sink.Pos
	for {
		es, _, ok := tail.From(pos, 2, 1<<20)
		if !ok {
			t.Fatal("no entries behind", pos)
		}
		if len(es) == 0 {
			break
		}
		for _, e := range es {
			got = append(got, e.Pos)
			pos = e.Pos
		}
	}
	want := []sink.Pos{{Epoch: 8, Index: 2}, {Epoch: 10, Index: 0}, {Epoch: 10, Index: 1}, {Epoch: 10, Index: 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tail.Forget(pos)
	if es, _, ok := tail.From(pos, 1, 1); !ok || len(es) != 0 {
		t.Errorf("behind the head: %v, %v", es, ok)
	}
}

func TestTailWakes(t *testing.T) {
	t.Parallel()
	tail := NewTail(500, sink.Pos{Epoch: 3, Index: 9})
	_, wake, ok := tail.From(sink.Pos{Epoch: 3, Index: 9}, 1, 1)
	if !ok {
		t.Fatal("the head itself is out of reach")
	}
	tail.Append([]Entry{entry(5, 0, sink.Pos{Epoch: 3, Index: 9})})
	<-wake
	if es, _, ok := tail.From(sink.Pos{Epoch: 3, Index: 9}, 1, 1); !ok || len(es) != 1 {
		t.Errorf("got %v, %v", es, ok)
	}
	if _, _, ok := tail.From(sink.Pos{Epoch: 3, Index: 8}, 1, 1); ok {
		t.Error("a tail that began at 3/9 claims to hold it")
	}
}
