package model

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// coder writes a state as bytes: equal states, equal bytes.
type coder []byte

func (c *coder) num(ns ...int64) {
	for _, n := range ns {
		*c = binary.AppendVarint(*c, n)
	}
}

func (c *coder) bits(bs ...bool) {
	n := int64(0)
	for i, b := range bs {
		if b {
			n |= 1 << i
		}
	}
	c.num(n)
}

func (c *coder) pos(p sink.Pos) { c.num(p.Epoch, p.Index) }

func (c *coder) pending(ps []journal.Pending) {
	c.num(int64(len(ps)))
	for _, p := range ps {
		c.num(p.Attempt, p.Epoch, p.Offset, int64(len(p.Data)))
		*c = append(*c, p.Data...)
	}
}

func (c *coder) committed(works map[string]sink.Committable) {
	for _, name := range slices.Sorted(maps.Keys(works)) {
		c.num(works[name].Attempt, works[name].Epoch)
	}
}

func (c *coder) cursors(cs map[string]*journal.Cursor) {
	for _, name := range slices.Sorted(maps.Keys(cs)) {
		c.num(cs[name].Offset)
		c.pos(cs[name].Pos)
		c.bits(cs[name].Fresh)
	}
}

func (c *coder) record(r *journal.Record) {
	if r == nil {
		c.num(0)
		return
	}
	c.num(1, r.Attempt, r.Epoch, r.Tail.Offset)
	c.pos(r.Tail.Pos)
	c.bits(r.Sealed)
	c.cursors(r.Cursors)
	c.pending(r.Pending)
	c.committed(r.Committed)
}

// key is the whole state of a world.
func (w *world) key() string {
	c := make(coder, 0, 256)
	c.num(int64(w.timeouts), int64(w.losses), int64(w.out), int64(w.letters), int64(w.meta), int64(w.start), int64(w.ledger))
	c.bits(w.kept)
	c.num(int64(w.inside[0]), int64(w.inside[1]))
	for i := range maxRecords + 1 {
		c.num(w.at[i], int64(w.shown[i]), int64(w.rows[i]))
	}
	for g := range w.work {
		for a := range w.work[g] {
			c = append(c, w.work[g][a][:]...)
		}
	}
	for i := range w.tasks {
		w.tasks[i].key(&c)
	}
	for i := range w.ws {
		a := &w.ws[i]
		c.bits(a.dead, a.ended, a.renewed, a.dirty, a.seen, a.early != nil)
		c.num(int64(a.count), int64(a.again), int64(a.src), int64(a.place), int64(len(a.apart)))
		if a.early != nil {
			c.record(a.early.Record)
		}
	}
	return string(c)
}

func (r *relation) key(c *coder) {
	c.record(r.last())
	c.num(r.low)
	for _, p := range r.prods {
		c.num(int64(p.owner))
		c.bits(p.open)
		c.record(p.record)
	}
	for _, o := range r.owners {
		o.key(c, len(r.log))
	}
}

func (o *owner) key(c *coder, log int) {
	c.num(int64(o.phase))
	if o.phase == idle || o.phase >= mustEnd {
		return
	}
	if o.phase <= claiming {
		c.record(o.read)
		c.num(int64(log - o.readAt))
		return
	}
	c.record(o.claim)
	c.num(o.next, o.ended, o.tail.Offset)
	c.pos(o.tail.Pos)
	c.cursors(o.cursors)
	c.cursors(o.confirmed)
	c.committed(o.committed)
	c.num(int64(len(o.verdicts)), int64(len(o.pending)))
	for _, it := range o.pending {
		c.num(it.listed)
		c.bits(it.handed)
		c.pending([]journal.Pending{it.Pending})
	}
	for i := range o.lanes {
		l := &o.lanes[i]
		c.num(l.epoch, l.tail.Offset)
		c.bits(l.closed, l.prepared, l.built, l.journaled)
		c.record(l.record)
	}
}

// project is what the Spin model knows of the state as well, in the words of its
// own probe.
func (w *world) project() string {
	var b strings.Builder
	last := func(g int) journal.Record {
		if r := w.tasks[g].last(); r != nil {
			return *r
		}
		return journal.Record{}
	}
	for g := range w.tasks {
		r := last(g)
		fmt.Fprintf(&b, "%d %d", r.Epoch, r.Attempt)
		if w.b.Kind == Outbox {
			w.projectRecord(&b, &r)
		} else {
			var by [maxRecords + 1]int64
			for _, p := range r.Pending {
				by[p.Epoch] = p.Attempt
			}
			for k := 1; k <= w.b.Records; k++ {
				fmt.Fprintf(&b, " %d", by[k])
			}
		}
		if w.b.Kind == Generations {
			fmt.Fprintf(&b, " %d", num(r.Sealed))
		}
		for _, p := range []epoch.Producer{epoch.A, epoch.B} {
			t := w.tasks[g].prods[p]
			fmt.Fprintf(&b, " %d%d%d", t.owner, num(t.open), num(t.open && t.record != nil))
		}
		b.WriteString("|")
	}
	if w.b.Kind == Outbox {
		fmt.Fprintf(&b, "%d %d %d %d|", w.tasks[0].low, w.ledger, num(w.kept), w.letters)
	}
	if w.b.Kind == Generations {
		fmt.Fprintf(&b, "%d %d|", w.meta, w.start)
	}
	for g := range w.tasks {
		for att := 1; att <= maxAttempts; att++ {
			for k := 1; k <= w.b.Records; k++ {
				fmt.Fprintf(&b, "%d", w.work[g][att][k])
			}
		}
	}
	return b.String()
}

func (w *world) projectRecord(b *strings.Builder, r *journal.Record) {
	offset := func(name string) int64 {
		if c := r.Cursors[name]; c != nil {
			return c.Offset
		}
		return 0
	}
	fmt.Fprintf(b, " %d %d %d", r.Tail.Offset, offset("ledger"), offset("object"))
	if len(r.Pending) > 0 {
		p := r.Pending[0]
		fmt.Fprintf(b, " %d %d %d", p.Attempt, p.Data[1], p.Data[0])
		return
	}
	b.WriteString(" 0 0 0")
}

func num(b bool) int {
	if b {
		return 1
	}
	return 0
}
