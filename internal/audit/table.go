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
	fate      fate
	seen      uint8 // how often it was found, at most 255
}

// fate is what becomes of a record in the sink.
type fate uint8

const (
	fateHeld    fate = iota
	fateDeleted      // it is a tombstone
	fateRefused      // it is a dead letter of the sink
)

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
// is no order. What the sink refused takes no part. Mode Every has no use for it.
func (t *table) candidates(g []entry, fn func(*entry) bool) {
	for n := 0; n < len(g); {
		end := n
		for end < len(g) && g[end].part == g[n].part {
			end++
		}
		one := g[n:end]
		n = end
		if t.mode == Latest && !t.any {
			for i := len(one) - 1; i >= 0; i-- {
				if one[i].fate != fateRefused {
					if fn(&one[i]) {
						return
					}
					break
				}
			}
			continue
		}
		for i := range one {
			if one[i].fate == fateRefused {
				continue
			}
			if fn(&one[i]) {
				return
			}
			if !t.any {
				break
			}
		}
	}
}

// expected is how many records of a group the sink must hold; absent reports
// that it may hold none.
func (t *table) expected(g []entry) (n int64, absent bool) {
	if t.mode == Every {
		for i := range g {
			if g[i].fate != fateRefused {
				n++
			}
		}
		return n, false
	}
	live := false
	t.candidates(g, func(e *entry) bool {
		live = live || e.fate != fateDeleted
		absent = absent || e.fate == fateDeleted
		return false
	})
	if !live {
		return 0, true
	}
	return 1, absent
}
