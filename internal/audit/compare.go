package audit

import (
	"cmp"
	"fmt"
	"regexp"
	"sort"
)

// comparison is one sink under audit.
type comparison struct {
	sink  *sinkState
	row   *Row
	limit int // findings kept
	parts []partition

	buf    []byte
	last   map[streamPart]place
	orphan map[hash]int64 // records of ids with several entries that equal none of them
}

type streamPart struct {
	stream hash
	part   uint16
}

func (c *comparison) held(h *Held) error {
	c.row.Total++
	id := c.sink.heldID(h)
	g := c.sink.table.find(sum(id))
	if g == nil {
		c.row.Unexpected++
		c.find(Finding{Kind: Unexpected, ID: printID(id), Place: h.Place, Detail: "nothing in the source gives it"})
		return nil
	}
	c.buf = c.sink.canon.value(c.buf[:0], h.Value)
	value := sum(c.buf)
	if n := h.Writes - int64(len(g)); n > 0 {
		c.row.ConflictingWrites += n
		c.find(Finding{
			Kind: Conflict, ID: printID(id), Place: h.Place, Source: c.source(&g[0]),
			Detail: fmt.Sprintf("written %d times, for %d records in the source", h.Writes, len(g)),
		})
	}
	if c.sink.table.mode == Every {
		c.every(h, id, value, g)
	} else {
		c.one(h, id, value, g)
	}
	return nil
}

// every matches a record of a sink that holds each record. Entries of one value
// are found in their order, so those found come before the others.
func (c *comparison) every(h *Held, id []byte, value hash, g []entry) {
	same := ofValue(g, value)
	next := sort.Search(len(same), func(i int) bool { return same[i].seen == 0 })
	switch {
	case next < len(same):
		if len(same) > 1 {
			h.Stream = "" // which of them it is cannot be told
		}
		c.found(h, id, &same[next])
	case len(same) > 0:
		c.duplicate(h, id, &same[0])
	case len(g) > 1:
		c.orphan[g[0].id]++
		c.find(Finding{Kind: Changed, ID: printID(id), Place: h.Place, Source: c.source(&g[0]), Detail: "its value is none of those that the source gives"})
	case g[0].seen > 0:
		c.duplicate(h, id, &g[0])
	default:
		c.changed(h, id, &g[0])
	}
}

// one matches a record of a sink that holds one per identity.
func (c *comparison) one(h *Held, id []byte, value hash, g []entry) {
	seen := false
	for i := range g {
		seen = seen || g[i].seen > 0
	}
	var match, other, never *entry
	for i := range g {
		if e := &g[i]; e.fate == fateRefused && e.value == value {
			never = e
		}
	}
	c.sink.table.candidates(g, func(e *entry) bool {
		if e.fate != fateDeleted && e.value == value {
			match = e
		}
		if other == nil || other.fate == fateDeleted {
			other = e
		}
		return match != nil
	})
	switch {
	case seen:
		c.duplicate(h, id, cmp.Or(other, &g[0]))
	case match != nil:
		c.found(h, id, match)
	case never != nil:
		c.mark(never) // said at the end
	case other == nil:
		c.row.Unexpected++
		c.find(Finding{Kind: Unexpected, ID: printID(id), Place: h.Place, Source: c.source(&g[0]), Detail: "every record of it is a dead letter"})
	case other.fate == fateDeleted:
		c.row.Unexpected++
		c.find(Finding{Kind: Unexpected, ID: printID(id), Place: h.Place, Source: c.source(other), Detail: "a tombstone should have removed it"})
	default:
		c.changed(h, id, other)
	}
}

func (c *comparison) found(h *Held, id []byte, e *entry) {
	c.mark(e)
	if h.Stream == "" {
		return
	}
	c.row.Ordered = true
	key := streamPart{sum([]byte(h.Stream)), e.part}
	at := e.place()
	if last, ok := c.last[key]; ok && at.before(last) {
		c.row.OutOfOrder++
		c.find(Finding{
			Kind: OutOfOrder, ID: printID(id), Place: h.Place, Source: c.source(e),
			Detail: fmt.Sprintf("stands behind the record of offset %d", last.offset),
		})
		return
	}
	c.last[key] = at
}

func (c *comparison) mark(e *entry) {
	if e.seen == 0 {
		c.row.Unique++
	}
	if e.seen < 255 {
		e.seen++
	}
}

func (c *comparison) duplicate(h *Held, id []byte, e *entry) {
	c.mark(e)
	c.row.Duplicate++
	c.find(Finding{Kind: Duplicate, ID: printID(id), Place: h.Place, Source: c.source(e)})
}

func (c *comparison) changed(h *Held, id []byte, e *entry) {
	c.mark(e)
	c.row.Changed++
	c.find(Finding{Kind: Changed, ID: printID(id), Place: h.Place, Source: c.source(e), Detail: "its value is not what the steps make of the source"})
}

// finish counts what was never found, once the sink is read.
func (c *comparison) finish() {
	defer func() {
		if note := c.sink.shape.WhenMissing; note != "" && c.row.Missing > 0 {
			c.row.Notes = append(c.row.Notes, note)
		}
	}()
	c.sink.table.groups(func(g []entry) {
		want, absent := c.sink.table.expected(g)
		var missing []*entry
		seen := false
		for i := range g {
			e := &g[i]
			switch {
			case e.seen > 0 && e.fate == fateRefused:
				c.row.Unexpected++
				c.find(Finding{Kind: Unexpected, Source: c.source(e), Detail: "it is held, and among the dead letters as well"})
			case e.seen > 0:
				seen = true
			case e.fate == fateRefused:
				c.row.DeadLettered++
			default:
				missing = append(missing, e)
			}
		}
		c.row.Expected += want
		if c.sink.table.mode != Every {
			if seen || absent || want == 0 || len(missing) == 0 {
				return
			}
			missing = missing[len(missing)-1:]
		}
		n := min(c.orphan[g[0].id], int64(len(missing))) // there, but changed
		c.row.Changed += n
		c.row.Unique += n
		c.row.Duplicate += c.orphan[g[0].id] - n
		for _, e := range missing[n:] {
			c.row.Missing++
			c.find(Finding{Kind: Missing, Source: c.source(e)})
		}
	})
}

func (c *comparison) find(f Finding) {
	f.Sink, f.Table = c.sink.name, c.sink.sink.Table
	c.row.kinds[f.Kind]++
	if c.row.kinds[f.Kind] <= c.limit {
		c.row.Findings = append(c.row.Findings, f)
	}
}

func (c *comparison) source(e *entry) string {
	p := c.parts[e.part]
	return fmt.Sprintf("%s-%d@%d", p.topic, p.number, e.offset)
}

// lengths are what text puts before a string, and the separators behind parts.
var lengths = regexp.MustCompile(`"[0-9]+ |[\x00-\x1f]+$`)

// printID shows an identity to people: text as it is, bytes quoted. A composed
// key is its parts, without the lengths that keep them apart.
func printID(id []byte) string {
	const most = 80
	var out []rune
	for _, r := range string(lengths.ReplaceAll(id, nil)) {
		if r < ' ' || r == 0x7f || r == 0xFFFD {
			r = '·'
		}
		if out = append(out, r); len(out) == most {
			return string(out) + "…"
		}
	}
	return string(out)
}
