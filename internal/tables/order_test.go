package tables

import (
	"encoding/binary"
	"testing"

	"exactly/sink"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	o := sink.Owner{Incarnation: "a", Pipeline: "b", Sink: "c", Generation: 2, Task: 3}
	b := PrefixOf(o).Place(sink.Pos{Epoch: 4, Index: 5})
	if len(b) != 32 || binary.BigEndian.Uint32(b[8:]) != 2 || binary.BigEndian.Uint32(b[12:]) != 3 ||
		binary.BigEndian.Uint64(b[16:]) != 4 || binary.BigEndian.Uint64(b[24:]) != 5 {
		t.Errorf("Place = %x", b)
	}
	o.Pipeline, o.Sink = `b" "c`, ""
	if other := PrefixOf(o); string(other[:8]) == string(b[:8]) {
		t.Errorf("two owners share a prefix")
	}
}
