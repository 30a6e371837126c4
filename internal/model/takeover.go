package model

import (
	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// takeoverAction: what an owner may ask for before it runs.
func (r *relation) takeoverAction(o *owner, a epoch.Action) error {
	switch a := a.(type) {
	case epoch.Fence:
		due, next := dueFenceA, fencingA
		if a.Producer == epoch.B {
			due, next = dueFenceB, fencingB
		}
		if err := o.expect(due); err != nil {
			return err
		}
		o.phase, o.fences[a.Producer] = next, true
		if !r.cfg.Broker {
			o.bound = len(r.log)
		}
	case epoch.ReadJournal: // I4: after both fences
		return o.move(dueRead, reading)
	case epoch.ResolveStart:
		return o.move(dueResolve, resolving)
	case epoch.Claim:
		return r.askClaim(o, a.Record)
	case epoch.Verify:
		if !a.Claim.Same(o.claim) || !a.Prev.Same(o.read) || a.PrevOffset != o.offset {
			return refuse("it verifies something else than its claim on what it read")
		}
		return o.move(dueVerify, verifying)
	case epoch.Recover:
		if err := samePending(a.Pending, o.inherited(true)); err != nil {
			return refuse("recovered is what the claim lists for staging sinks: %v", err)
		}
		return o.move(dueRecover, recovering)
	case epoch.Sweep:
		if err := samePending(a.Keep, o.listed()); err != nil {
			return refuse("kept is what is still pending: %v", err)
		}
		return o.move(dueSweep, sweeping)
	case epoch.Open:
		want := o.claim.Clone()
		want.Pending = o.listed()
		if err := sameRecord(a.Record, want); err != nil {
			return refuse("it opens elsewhere than the claim says: %v", err)
		}
		return o.move(dueOpen, opening)
	default:
		return refuse("%T in a takeover", a)
	}
	return nil
}

func (o *owner) move(from, to phase) error {
	if err := o.expect(from); err != nil {
		return err
	}
	o.phase = to
	return nil
}

// takeoverEvent: what an owner may be told before it runs.
func (r *relation) takeoverEvent(o *owner, e epoch.Event) error {
	switch e := e.(type) {
	case epoch.Start:
		return o.move(idle, dueFenceA)
	case epoch.Fenced:
		return r.toldFenced(o, e.Producer)
	case epoch.Read:
		return r.toldRead(o, e)
	case epoch.Resolved:
		o.first = e.Record
		if r.cfg.Starts != nil {
			if err := sameSources(e.Record.Sources, r.cfg.Starts); err != nil {
				return refuse("the generation begins where the one before was sealed: %v", err)
			}
		}
		return o.move(resolving, dueClaim)
	case epoch.Claimed:
		if !o.claimed {
			if r.cfg.Broker {
				return refuse("told that its claim is committed, which the broker does not say")
			}
			if err := r.commitClaim(o); err != nil {
				return err
			}
		}
		return o.move(claiming, dueVerify)
	case epoch.Verified:
		return r.toldVerified(o, e)
	case epoch.Recovered:
		kept := o.pending[:0:0]
		for _, it := range o.pending {
			if !it.Through.IsZero() {
				kept = append(kept, it)
				continue
			}
			o.done(it.Committable)
		}
		o.pending = kept
		return o.move(recovering, dueSweep)
	case epoch.Swept:
		return o.move(sweeping, dueOpen)
	case epoch.Opened:
		return o.move(opening, running)
	case epoch.Applied, epoch.Staged, epoch.Committed:
		if err := o.expect(opening); err != nil {
			return err
		}
		return r.sinkEvent(o, e)
	case epoch.Stop, epoch.Renew, epoch.Moved:
		return nil
	}
	return refuse("%T in a takeover", e)
}

func (r *relation) toldFenced(o *owner, p epoch.Producer) error {
	if r.cfg.Broker && !o.inside[p] {
		return refuse("told that producer %s is fenced, which the broker does not say", p)
	}
	if p == epoch.A {
		return o.move(fencingA, dueFenceB)
	}
	return o.move(fencingB, dueRead)
}

// toldRead: what is read after both fences is no older than what was committed
// before the second one took effect (I4).
func (r *relation) toldRead(o *owner, e epoch.Read) error {
	if err := o.expect(reading); err != nil {
		return err
	}
	if !r.cfg.Broker {
		if err := r.inferCommitted(e.Record); err != nil {
			return err
		}
	}
	at := len(r.log) - 1
	for ; at >= 0 && !e.Record.Same(r.log[at]); at-- {
	}
	switch {
	case at < 0 && e.Record != nil:
		return refuse("it read a record that nobody has committed: %s", brief(e.Record))
	case at+1 < o.bound && !r.rules.staleRead:
		return refuse("it read %s, older than what was committed when it fenced: %s", brief(e.Record), brief(r.log[o.bound-1]))
	}
	o.read, o.readAt, o.offset = e.Record, at, e.Offset
	switch {
	case e.Record == nil:
		o.phase = dueResolve
	default:
		o.phase = dueClaim
	}
	return nil
}

// askClaim: a claim carries over all that was read, under the next attempt (I4).
func (r *relation) askClaim(o *owner, c *journal.Record) error {
	if err := o.expect(dueClaim); err != nil {
		return err
	}
	if o.read != nil && o.read.Sealed && !c.Sealed && !r.rules.noSeal {
		return refuse("it claims after a sealed record")
	}
	want := r.carryOver(o, c)
	if err := sameRecord(c, want); err != nil {
		return refuse("the claim does not carry over what was read: %v", err)
	}
	o.claim, o.seal = c, c.Sealed
	o.phase = claiming
	if p := &r.prods[epoch.A]; p.owner == o.id {
		p.open, p.record = true, c
	}
	return nil
}

// carryOver is the claim that is due. Sinks that are new to the pipeline may be
// added by c: they begin at the outbox's end.
func (r *relation) carryOver(o *owner, c *journal.Record) *journal.Record {
	from := o.read
	if from == nil {
		from = o.first
	}
	want := from.Clone()
	want.Incarnation, want.Generation, want.Task = r.cfg.Incarnation, r.cfg.Generation, r.cfg.Task
	want.Claim, want.Sealed = true, c.Sealed
	want.Attempt = 1
	if o.read != nil {
		want.Attempt = o.read.Attempt + 1
	} else {
		want.Epoch, want.Pending, want.Committed = 0, nil, nil
	}
	for name, cur := range c.Cursors {
		if want.Cursors[name] == nil && cur.Fresh && cur.Pos == want.Tail.Pos {
			want.Cursors[name] = cur
		}
	}
	if r.rules.anyCursor && c.Cursors != nil {
		want.Cursors = c.Cursors
	}
	return want
}

// commitClaim: the broker has committed the claim of o.
func (r *relation) commitClaim(o *owner) error {
	if r.cfg.Broker && !r.rules.noClaim {
		if p := r.prods[epoch.A]; p.owner != o.id || !p.open {
			return refuse("a claim is committed by an owner that is fenced or whose transaction was aborted")
		}
		r.prods[epoch.A] = producer{owner: o.id}
	}
	if o.readAt != len(r.log)-1 && !r.rules.lax {
		return refuse("the claim erases %s, which was committed after the read", brief(r.last()))
	}
	o.claimed = true
	r.log = append(r.log, o.claim)
	return nil
}

func (r *relation) toldVerified(o *owner, e epoch.Verified) error {
	if err := o.expect(verifying); err != nil {
		return err
	}
	if !e.Undisturbed {
		o.phase = mustEnd
		return nil
	}
	c := o.claim
	o.ended, o.next, o.published, o.tail = c.Epoch, c.Epoch+1, c.Epoch, c.Tail
	o.cursors, o.confirmed, o.committed = cloneCursors(c.Cursors), c.Cursors, c.Committed
	for _, p := range c.Pending {
		o.pending = append(o.pending, item{Pending: p, listed: p.Epoch})
	}
	o.phase = dueRecover
	return nil
}

// inherited are the claim's pending of staging sinks, or of the others.
func (o *owner) inherited(staging bool) []journal.Pending {
	var out []journal.Pending
	for _, p := range o.claim.Pending {
		if p.Through.IsZero() == staging {
			out = append(out, p)
		}
	}
	return out
}

func (o *owner) listed() []journal.Pending {
	var out []journal.Pending
	for _, it := range o.pending {
		out = append(out, it.Pending)
	}
	return out
}
