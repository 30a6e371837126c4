package model

import (
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// fenced: InitProducerId of o took effect; an open transaction is aborted, and
// whoever was let in before cannot commit any more. It may happen after the
// owner has given up: a late request.
func (r *relation) fenced(o *owner, p epoch.Producer) error {
	if !o.fences[p] {
		return refuse("producer %s is fenced by an owner that did not ask for it", p)
	}
	r.prods[p] = producer{owner: o.id}
	o.inside[p] = true
	if o.inside[epoch.A] && o.inside[epoch.B] && o.phase <= reading {
		o.bound = len(r.log)
	}
	return nil
}

// aborted: the broker has ended a transaction by itself.
func (r *relation) aborted(p epoch.Producer) {
	if r.prods[p].open {
		r.prods[p] = producer{}
	}
}

// committed: a transaction of o with this journal record is committed. The
// owner need not know, nor live.
func (r *relation) committed(o *owner, rec *journal.Record) error {
	if o.claim != nil && !o.claimed && rec.Claim && rec.Same(o.claim) {
		if err := sameRecord(rec, o.claim); err != nil {
			return refuse("the claim that is committed is not the one that was asked for: %v", err)
		}
		return r.commitClaim(o)
	}
	l := o.lane(rec.Epoch)
	if rec.Claim || l.epoch != rec.Epoch || !l.ending || l.committed {
		return refuse("nobody asked for the commit of %s", brief(rec))
	}
	if err := sameRecord(rec, l.record); err != nil {
		return refuse("what is committed is not what was asked for: %v", err)
	}
	return r.commitEpoch(o, l)
}

// inferCommitted finds whose commit it was that somebody reads and nobody was
// told of: its answer was lost.
func (r *relation) inferCommitted(rec *journal.Record) error {
	if rec == nil || slices.ContainsFunc(r.log, func(l *journal.Record) bool { return identical(rec, l) }) {
		return nil
	}
	for _, o := range r.owners {
		if o.claim != nil && !o.claimed && identical(rec, o.claim) {
			return r.commitClaim(o)
		}
		if l := o.lane(rec.Epoch); l.ending && !l.committed && l.epoch == rec.Epoch && identical(rec, l.record) {
			return r.commitEpoch(o, l)
		}
	}
	return nil
}

// identical tells rival claims apart, which say the same about the task.
func identical(a, b *journal.Record) bool {
	return a.Same(b) && a.Worker == b.Worker && a.Time == b.Time
}
