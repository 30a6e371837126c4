package tables

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"exactly/sink"
)

// ColumnOrder is the column that keeps the place of the last write beside a row.
//
// It holds 32 bytes, all big-endian, so that they compare as they should: 8 that
// stand for incarnation, pipeline and sink, 4 for the generation, 4 for the task,
// 8 for the epoch, 8 for the index. Places of different owners or tasks have no
// order, so there the later write wins.
const ColumnOrder = "exactly_order"

// Prefix is the part of a place that is the same for all records of a task.
type Prefix [16]byte

// PrefixOf gives that of a task.
func PrefixOf(o sink.Owner) (b Prefix) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %q %q", o.Incarnation, o.Pipeline, o.Sink)
	binary.BigEndian.PutUint64(b[:8], h.Sum64())
	binary.BigEndian.PutUint32(b[8:12], uint32(o.Generation)) //nolint:gosec // never negative
	binary.BigEndian.PutUint32(b[12:], uint32(o.Task))        //nolint:gosec // never negative
	return b
}

// Place gives the 32 bytes of a record.
func (prefix Prefix) Place(p sink.Pos) []byte {
	b := make([]byte, 32)
	copy(b, prefix[:])
	binary.BigEndian.PutUint64(b[16:24], uint64(p.Epoch)) //nolint:gosec // never negative
	binary.BigEndian.PutUint64(b[24:], uint64(p.Index))   //nolint:gosec // never negative
	return b
}

// NotOlder is the SQL condition that the place in b is not older than that in a:
// another owner's, or of a higher generation, or of another task of this
// generation, or higher. part formats the bytes of an expression that begin at
// the second parameter, counted from 1, as many as the third says.
func NotOlder(a, b, part string) string {
	bytes := func(of string, from, n int) string { return fmt.Sprintf(part, of, from, n) }
	return "(" + a + " IS NULL OR " + bytes(a, 1, 8) + " <> " + bytes(b, 1, 8) +
		" OR " + bytes(a, 9, 4) + " < " + bytes(b, 9, 4) +
		" OR " + bytes(a, 9, 4) + " = " + bytes(b, 9, 4) +
		" AND (" + bytes(a, 13, 4) + " <> " + bytes(b, 13, 4) + " OR " + a + " <= " + b + "))"
}
