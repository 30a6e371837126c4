package model

import (
	"maps"
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// runEvent: what an owner may be told while it runs.
func (r *relation) runEvent(o *owner, e epoch.Event) error {
	switch e := e.(type) {
	case epoch.Fill, epoch.Renew, epoch.Moved, epoch.Stop:
		return nil
	case epoch.Barrier:
		o.barrier, o.barred = e.Sources, true
		return nil
	case epoch.Flushed:
		return o.toldFlushed(e)
	case epoch.Prepared:
		l, err := o.open(e.Epoch)
		if err != nil || !l.preparing || l.prepared {
			return refuse("told that epoch %d is prepared, which was not asked for", e.Epoch)
		}
		l.prepared = true
		for _, c := range e.Committables {
			c.Attempt, c.Epoch = o.attempt(), e.Epoch
			l.staged = append(l.staged, journal.Pending{Committable: c})
		}
		return nil
	case epoch.Journaled:
		l, err := o.open(e.Epoch)
		if err != nil || !l.built || l.journaled {
			return refuse("told that the journal record of epoch %d is in its transaction, which was not asked for", e.Epoch)
		}
		l.journaled = true
		return nil
	case epoch.OffsetsSent:
		l, err := o.open(e.Epoch)
		if err != nil || !l.sending || l.offsets {
			return refuse("told that the offsets of epoch %d are in its transaction, which was not asked for", e.Epoch)
		}
		l.offsets = true
		return nil
	case epoch.Decided:
		return r.toldDecided(o, e.Epoch)
	case epoch.Applied, epoch.Staged, epoch.Committed:
		return r.sinkEvent(o, e)
	}
	return refuse("%T while it runs", e)
}

func (o *owner) toldFlushed(e epoch.Flushed) error {
	l, err := o.open(e.Epoch)
	if err != nil || !l.closed || l.flushed {
		return refuse("told that epoch %d is flushed, which was not asked for", e.Epoch)
	}
	before := o.tail
	if older := o.behind(e.Epoch); older != nil {
		before = older.tail
	}
	if e.Tail.Pos.Before(before.Pos) || e.Tail.Pos.Epoch > e.Epoch || e.Tail.Offset < before.Offset {
		return refuse("the outbox of epoch %d ends at %+v, after %+v", e.Epoch, e.Tail, before)
	}
	l.flushed, l.tail = true, e.Tail
	return nil
}

func (r *relation) toldDecided(o *owner, n int64) error {
	l, err := o.open(n)
	if err != nil || !l.ending {
		return refuse("told that epoch %d is decided, which was not asked for", n)
	}
	if !l.committed {
		if r.cfg.Broker {
			return refuse("told that epoch %d is decided, which the broker does not say", n)
		}
		if err := r.commitEpoch(o, l); err != nil {
			return err
		}
	}
	o.ended, o.tail, o.confirmed = n, l.tail, l.record.Cursors
	*l = lane{}
	return nil
}

// commitEpoch: the broker has committed the transaction of an epoch.
func (r *relation) commitEpoch(o *owner, l *lane) error {
	if p := &r.prods[epoch.Of(l.epoch)]; r.cfg.Broker {
		if p.owner != o.id || !p.open || p.record == nil {
			return refuse("epoch %d is decided by an owner that is fenced or whose transaction was aborted", l.epoch)
		}
		*p = producer{owner: o.id}
	}
	if last := r.last(); !r.rules.lax {
		switch {
		case last == nil || last.Attempt != o.attempt():
			return refuse("epoch %d is decided by attempt %d after %s", l.epoch, o.attempt(), brief(last))
		case last.Epoch != l.epoch-1: // I2
			return refuse("epoch %d is decided after %s", l.epoch, brief(last))
		case last.Sealed && !l.record.Sealed:
			return refuse("epoch %d is decided after the seal", l.epoch)
		}
	}
	l.committed = true
	r.log = append(r.log, l.record)
	return nil
}

func (r *relation) sinkEvent(o *owner, e epoch.Event) error {
	switch e := e.(type) {
	case epoch.Applied:
		return r.moveCursor(o, e.Sink, e.Cursor, e.Verdicts)
	case epoch.Staged:
		cur := o.cursors[e.Sink]
		if cur == nil {
			return refuse("sink %s has no cursor", e.Sink)
		}
		for _, p := range e.Pending {
			if p.From.Before(cur.Pos) || !p.From.Before(p.Through) || e.Cursor.Pos.Before(p.Through) {
				return refuse("%s was staged between the cursors %s and %s", briefItem(p), cur.Pos, e.Cursor.Pos)
			}
			if p.Offset < r.low && r.rightful(o) && !r.rules.trimAny {
				return refuse("%s was staged from offset %d, the outbox is trimmed to %d", briefItem(p), p.Offset, r.low)
			}
			p.Attempt = o.attempt()
			o.pending = append(slices.Clone(o.pending), item{Pending: p})
		}
		return r.moveCursor(o, e.Sink, e.Cursor, e.Verdicts)
	case epoch.Committed:
		for _, p := range e.Items {
			it := o.find(p)
			if it == nil || !it.handed {
				return refuse("told that %s is committed, which was not asked for", briefItem(p))
			}
			o.done(it.Committable)
			o.pending = slices.DeleteFunc(slices.Clone(o.pending), func(it item) bool { return sameItem(it.Pending, p) })
		}
	}
	return nil
}

// done: work of a staging sink is committed. The newest is remembered.
func (o *owner) done(c sink.Committable) {
	if !c.Through.IsZero() || c.Epoch < o.committed[c.Sink].Epoch {
		return
	}
	next := map[string]sink.Committable{}
	maps.Copy(next, o.committed)
	next[c.Sink] = c
	o.committed = next
}

// decidedThrough reports whether the outbox holds decided records up to pos. A
// sink reads them there, and may be ahead of the owner: of one whose answer is
// still on its way, and of one that was fenced.
func (r *relation) decidedThrough(pos sink.Pos) bool {
	last := r.last()
	if last == nil {
		return false
	}
	if !last.Tail.Pos.Before(pos) {
		return true
	}
	for _, o := range r.owners {
		l := o.lane(last.Epoch + 1)
		if !r.cfg.Broker && l.ending && !l.committed && l.epoch == last.Epoch+1 && o.attempt() == last.Attempt && !l.tail.Pos.Before(pos) {
			return r.commitEpoch(o, l) == nil // seen, so it was committed
		}
	}
	return false
}

// moveCursor: forward, and over decided records only (I1). A cursor that stays
// brings its verdicts, if it has any.
func (r *relation) moveCursor(o *owner, name string, c journal.Cursor, vs []epoch.Verdict) error {
	old := o.cursors[name]
	switch {
	case old == nil:
		return refuse("sink %s has no cursor", name)
	case c.Pos.Before(old.Pos):
		return refuse("cursor of sink %s moves back from %s to %s", name, old.Pos, c.Pos)
	case o.tail.Pos.Before(c.Pos) && !r.decidedThrough(c.Pos):
		return refuse("sink %s has applied through %s, decided was through %s", name, c.Pos, o.tail.Pos)
	}
	for _, v := range vs {
		if c.Pos.Before(v.Pos) {
			return refuse("a verdict at %s comes with the cursor %s", v.Pos, c.Pos)
		}
	}
	if c.Pos == old.Pos && len(vs) == 0 {
		return nil
	}
	o.cursors = cloneCursors(o.cursors)
	o.cursors[name] = &c
	o.verdicts = append(slices.Clone(o.verdicts), vs...)
	return nil
}
