package model

import (
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// runAction: what an owner may ask for while it runs.
func (r *relation) runAction(o *owner, a epoch.Action) error {
	if err := o.expect(running); err != nil {
		return err
	}
	switch a := a.(type) {
	case epoch.Begin:
		return r.askBegin(o, a)
	case epoch.Flush:
		l, err := o.open(a.Epoch)
		if err != nil || l.closed || !o.barred {
			return refuse("flush of epoch %d without a barrier of it", a.Epoch)
		}
		l.closed, l.sources = true, o.barrier
	case epoch.Prepare:
		l, err := o.open(a.Epoch)
		if err != nil || !l.closed || l.preparing {
			return refuse("prepare of epoch %d, which is not between barrier and prepare", a.Epoch)
		}
		l.preparing = true
	case epoch.Journal:
		return r.askJournal(o, a)
	case epoch.Offsets:
		l, err := o.open(a.Epoch)
		if err != nil || !l.built || l.sending {
			return refuse("offsets of epoch %d, whose journal record is not on its way", a.Epoch)
		}
		if older := o.behind(a.Epoch); older != nil && !older.offsets {
			return refuse("offsets of epoch %d before those of %d were acknowledged", a.Epoch, older.epoch)
		}
		l.sending = true
		return sameSources(a.Sources, l.sources)
	case epoch.End:
		return r.askEnd(o, a.Epoch)
	case epoch.Publish:
		if a.Epoch != o.published+1 || a.Epoch > o.ended { // I1
			return refuse("epoch %d is published after %d, decided through %d", a.Epoch, o.published, o.ended)
		}
		if a.Tail != o.tail {
			return refuse("epoch %d is published to %+v, decided was %+v", a.Epoch, a.Tail, o.tail)
		}
		o.published = a.Epoch
	case epoch.Commit:
		return r.askCommit(o, a.Items)
	case epoch.Confirm:
		return sameCursors(a.Cursors, o.confirmed)
	case epoch.Trim:
		return r.askTrim(o, a.Offset)
	default:
		return refuse("%T while it runs", a)
	}
	return nil
}

// open is the lane of an epoch that is begun.
func (o *owner) open(n int64) (*lane, error) {
	if l := o.lane(n); l.epoch == n && n != 0 {
		return l, nil
	}
	return nil, refuse("epoch %d is not open", n)
}

// askBegin: in order, two open at most (I2), the records before acknowledged
// (I6).
func (r *relation) askBegin(o *owner, a epoch.Begin) error {
	switch older := o.behind(a.Epoch); {
	case a.Producer != epoch.Of(a.Epoch):
		return refuse("epoch %d on producer %s", a.Epoch, a.Producer)
	case a.Epoch != o.next || a.Epoch > o.ended+2 || o.lane(a.Epoch).epoch != 0:
		return refuse("epoch %d is begun after %d, decided through %d", a.Epoch, o.next-1, o.ended)
	case older != nil && !older.flushed:
		return refuse("epoch %d is begun before the records of %d were acknowledged", a.Epoch, older.epoch)
	}
	*o.lane(a.Epoch) = lane{epoch: a.Epoch}
	o.next++
	if p := &r.prods[a.Producer]; p.owner == o.id {
		p.open, p.record = true, nil
	}
	return nil
}

// askJournal: R(n) lists all that is not known as done (I3), and the cursors
// with the verdicts that moved them (I5).
func (r *relation) askJournal(o *owner, a epoch.Journal) error {
	l, err := o.open(a.Epoch)
	if err != nil || !l.flushed || l.built || (!l.prepared && (l.preparing || r.cfg.Staging)) {
		return refuse("journal record of epoch %d, which is not flushed and prepared", a.Epoch)
	}
	if older := o.behind(a.Epoch); older != nil && !older.journaled {
		return refuse("journal record of epoch %d before that of %d", a.Epoch, older.epoch)
	}
	want, items := r.journalRecord(o, l)
	if err := sameRecord(a.Record, want); err != nil {
		return refuse("journal record of epoch %d: %v", a.Epoch, err)
	}
	if err := sameVerdicts(a.Verdicts, o.verdicts); err != nil {
		return refuse("journal record of epoch %d: %v", a.Epoch, err)
	}
	l.built, l.record = true, a.Record
	o.pending, o.verdicts = items, nil
	if p := &r.prods[epoch.Of(a.Epoch)]; p.owner == o.id && p.open {
		p.record = a.Record
	}
	return nil
}

// journalRecord is R(n) as it is due, and the pending work with it.
func (r *relation) journalRecord(o *owner, l *lane) (*journal.Record, []item) {
	items := slices.Clone(o.pending)
	for _, p := range l.staged {
		items = append(items, item{Pending: p})
	}
	rec := &journal.Record{
		Format: journal.Format, Incarnation: r.cfg.Incarnation, Generation: r.cfg.Generation, Task: r.cfg.Task,
		Attempt: o.attempt(), Epoch: l.epoch, Sealed: o.seal, Sources: l.sources, Tail: l.tail, Cursors: cloneCursors(o.cursors),
		Committed: o.committed,
	}
	for i := range items {
		if items[i].listed == 0 {
			items[i].listed, items[i].Epoch = l.epoch, l.epoch
		}
		if items[i].listed == l.epoch || !r.rules.noPending {
			rec.Pending = append(rec.Pending, items[i].Pending)
		}
	}
	return rec, items
}

// askEnd: never before the epoch in front was acknowledged as committed (I2).
func (r *relation) askEnd(o *owner, n int64) error {
	l, err := o.open(n)
	if err != nil || !l.journaled || !l.offsets || l.ending {
		return refuse("end of epoch %d, which is not complete", n)
	}
	if n != o.ended+1 && !r.rules.noChain {
		return refuse("end of epoch %d after %d", n, o.ended)
	}
	l.ending = true
	return nil
}

// askCommit: decided work only (I1), in epoch order.
func (r *relation) askCommit(o *owner, items []journal.Pending) error {
	var last int64
	for _, p := range items {
		it := o.find(p)
		switch {
		case it == nil:
			return refuse("commit of %s, which is not pending", briefItem(p))
		case (it.listed == 0 || it.listed > o.ended) && !r.rules.early:
			return refuse("commit of %s, decided through %d", briefItem(it.Pending), o.ended)
		case it.handed:
			return refuse("second commit of %s", briefItem(p))
		case it.listed < last:
			return refuse("commit of %s after work of epoch %d", briefItem(p), last)
		}
		it.handed, last = true, it.listed
	}
	return nil
}

func (o *owner) find(p journal.Pending) *item {
	for i := range o.pending {
		if sameItem(o.pending[i].Pending, p) {
			return &o.pending[i]
		}
	}
	return nil
}

// askTrim: below every decided cursor and every unconfirmed committable (I8).
func (r *relation) askTrim(o *owner, offset int64) error {
	if low := r.trimBound(o); offset > low && !r.rules.trimAny {
		return refuse("trim to %d, needed from %d", offset, low)
	}
	if last := r.last(); last != nil && !r.rules.trimAny {
		if low := lowest(last); offset > low {
			return refuse("trim to %d, the journal needs from %d", offset, low)
		}
	}
	r.low = max(r.low, offset)
	return nil
}

func (r *relation) trimBound(o *owner) int64 {
	low := o.tail.Offset
	for _, c := range o.confirmed {
		low = min(low, c.Offset)
	}
	for _, it := range o.pending {
		if !it.Through.IsZero() {
			low = min(low, it.Offset)
		}
	}
	return low
}

// lowest is where a takeover that reads rec may begin to read. What is done
// holds nothing, although rec may still list it.
func lowest(rec *journal.Record) int64 {
	low := rec.Tail.Offset
	for _, c := range rec.Cursors {
		low = min(low, c.Offset)
	}
	return low
}
