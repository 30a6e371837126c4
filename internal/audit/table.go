package audit

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// entry is one record that a sink must hold: 48 bytes.
type entry struct {
	id, value hash
	offset    int64
	sub       uint32
	part      uint16 // index into the audit's source partitions
	deleted   bool   // a tombstone
	seen      uint8  // how often it was found, at most 255
}

// place is where a record stands in its source partition.
type place struct {
	offset int64
	sub    uint32
}

func (p place) before(q place) bool {
	return p.offset < q.offset || p.offset == q.offset && p.sub < q.sub
}

func (e *entry) place() place { return place{e.offset, e.sub} }

// table holds what one sink must hold. It is filled, sealed, then searched.
type table struct {
	mode    Mode
	any     bool // any record of an identity may be the one that is held
	entries []entry
}

func (t *table) add(e entry) { t.entries = append(t.entries, e) }

// seal sorts by identity, then by source order; for mode Every by value before
// that, so that a value is found quickly among many of one identity.
func (t *table) seal() {
	slices.SortFunc(t.entries, func(a, b entry) int {
		byValue := 0
		if t.mode == Every {
			byValue = bytes.Compare(a.value[:], b.value[:])
		}
		return cmp.Or(
			bytes.Compare(a.id[:], b.id[:]), byValue, cmp.Compare(a.part, b.part),
			cmp.Compare(a.offset, b.offset), cmp.Compare(a.sub, b.sub),
		)
	})
}

// ofValue gives the entries of a value within a group; mode Every only.
func ofValue(g []entry, value hash) []entry {
	i, ok := slices.BinarySearchFunc(g, value, func(e entry, v hash) int { return bytes.Compare(e.value[:], v[:]) })
	if !ok {
		return nil
	}
	n := sort.Search(len(g)-i, func(k int) bool { return g[i+k].value != value })
	return g[i : i+n]
}

// find gives all entries of one identity.
func (t *table) find(id hash) []entry {
	i, ok := slices.BinarySearchFunc(t.entries, id, func(e entry, id hash) int { return bytes.Compare(e.id[:], id[:]) })
	if !ok {
		return nil
	}
	return t.entries[i : i+groupLen(t.entries[i:])]
}

// groups calls fn for the entries of each identity.
func (t *table) groups(fn func(g []entry)) {
	for rest := t.entries; len(rest) > 0; {
		n := groupLen(rest)
		fn(rest[:n])
		rest = rest[n:]
	}
}

func groupLen(es []entry) int {
	if len(es) == 1 || es[1].id != es[0].id {
		return 1
	}
	return sort.Search(len(es), func(i int) bool { return es[i].id != es[0].id })
}

// candidates gives those entries of a group of which the sink holds one: the
// last, or the first, of each source partition, since between partitions there
// is no order. Mode Every has no use for it.
func (t *table) candidates(g []entry, fn func(*entry) bool) {
	for i := range g {
		first := i == 0 || g[i-1].part != g[i].part
		last := i == len(g)-1 || g[i+1].part != g[i].part
		if t.any || t.mode == Latest && last || t.mode == Once && first {
			if fn(&g[i]) {
				return
			}
		}
	}
}

// expected is how many records of a group the sink must hold; absent reports
// that it may hold none.
func (t *table) expected(g []entry) (n int64, absent bool) {
	if t.mode == Every {
		return int64(len(g)), false
	}
	live := false
	t.candidates(g, func(e *entry) bool {
		live = live || !e.deleted
		absent = absent || e.deleted
		return false
	})
	if !live {
		return 0, true
	}
	return 1, absent
}
