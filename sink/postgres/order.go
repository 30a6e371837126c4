package postgres

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"exactly/sink"
)

// The column exactly_order holds 32 bytes, all big-endian, so that they compare
// as they should: 8 that stand for incarnation, pipeline and sink, 4 for the
// generation, 4 for the task, 8 for the epoch, 8 for the index. Places of
// different owners or tasks have no order, so there the later write wins.
const orderSize = 32

// orderPrefix is the part that is the same for all records of a task.
func orderPrefix(o sink.Owner) (b [16]byte) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %q %q", o.Incarnation, o.Pipeline, o.Sink)
	binary.BigEndian.PutUint64(b[:8], h.Sum64())
	binary.BigEndian.PutUint32(b[8:12], uint32(o.Generation)) //nolint:gosec // never negative
	binary.BigEndian.PutUint32(b[12:], uint32(o.Task))        //nolint:gosec // never negative
	return b
}

func orderOf(prefix [16]byte, p sink.Pos) []byte {
	b := make([]byte, orderSize)
	copy(b, prefix[:])
	binary.BigEndian.PutUint64(b[16:24], uint64(p.Epoch)) //nolint:gosec // never negative
	binary.BigEndian.PutUint64(b[24:], uint64(p.Index))   //nolint:gosec // never negative
	return b
}

// orderAfter is the SQL condition that the mark in b is not older than that in
// a: another owner's, or of a higher generation, or of another task of this
// generation, or higher.
func orderAfter(a, b string) string {
	return fmt.Sprintf("(%[1]s IS NULL OR substring(%[1]s from 1 for 8) <> substring(%[2]s from 1 for 8)"+
		" OR substring(%[1]s from 9 for 4) < substring(%[2]s from 9 for 4)"+
		" OR substring(%[1]s from 9 for 4) = substring(%[2]s from 9 for 4)"+
		" AND (substring(%[1]s from 13 for 4) <> substring(%[2]s from 13 for 4) OR %[1]s <= %[2]s))", a, b)
}
