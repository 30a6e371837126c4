package model

import (
	"fmt"

	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// takeoverMoves: fence, fence, read, claim, recover, sweep, open. Each move is
// one atomic step of the Spin models.
func (w *world) takeoverMoves(add func(string, func(*world, int) error), i int) {
	a, _, o := w.of(i)
	switch o.phase {
	case idle:
		switch {
		case a.gen < w.meta:
			add("too late", func(w *world, i int) error { w.stop(i, false); return nil })
		case a.gen == w.meta && w.broken("READ_EARLY") && a.early == nil:
			add("read before the fences", (*world).readEarly)
		case a.gen == w.meta:
			add("fence a", func(w *world, i int) error {
				_, r, o := w.of(i)
				if err := tell(r, o, epoch.Start{}); err != nil {
					return err
				}
				return w.fence(i, epoch.A)
			})
		}
	case dueFenceB:
		if w.broken("CARRY_EARLY") && a.early == nil {
			add("read before fence b", (*world).readEarly)
			return
		}
		add("fence b", func(w *world, i int) error { return w.fence(i, epoch.B) })
	case dueRead:
		add("read", (*world).readJournal)
	case dueClaim:
		add("claim", (*world).claim)
	case recovering:
		if pending := o.inherited(true); a.count < len(pending) {
			p := pending[a.count]
			add("recover "+briefItem(p), func(w *world, i int) error {
				w.ws[i].count++
				return w.commitWork(i, p)
			})
			return
		}
		add("recovered", func(w *world, i int) error {
			a, r, o := w.of(i)
			a.count = 1
			if err := tell(r, o, epoch.Recovered{}); err != nil {
				return err
			}
			return ask(r, o, epoch.Sweep{Keep: o.listed()})
		})
	case sweeping:
		w.sweepMoves(add, i)
	case opening:
		add("the ledger says where it stands", (*world).openLedger)
	}
}

func (w *world) fence(i int, p epoch.Producer) error {
	a, r, o := w.of(i)
	if err := ask(r, o, epoch.Fence{Producer: p}); err != nil {
		return err
	}
	if w.broken("FENCE_ONE") && a.seal && p == epoch.B {
		o.inside[p] = true
	} else if err := r.fenced(o, p); err != nil {
		return err
	}
	w.inside[p] = 0
	return tell(r, o, epoch.Fenced{Producer: p})
}

func (w *world) readEarly(i int) error {
	a, r, _ := w.of(i)
	a.early = &epoch.Read{Record: r.last(), Offset: int64(len(r.log))}
	return nil
}

func (w *world) readJournal(i int) error {
	a, r, o := w.of(i)
	ev := epoch.Read{Record: r.last(), Offset: int64(len(r.log))}
	if a.early != nil {
		ev, a.early = *a.early, nil
	}
	if err := ask(r, o, epoch.ReadJournal{}); err != nil {
		return err
	}
	if err := tell(r, o, ev); err != nil {
		return err
	}
	if o.phase == dueResolve {
		if err := ask(r, o, epoch.ResolveStart{}); err != nil {
			return err
		}
		return tell(r, o, epoch.Resolved{Record: &journal.Record{Sources: w.sources(w.start)}})
	}
	return nil
}

func (w *world) claim(i int) error {
	a, r, o := w.of(i)
	if o.read != nil && o.read.Sealed && !a.seal && !w.broken("SEAL_UNSEEN") {
		w.stop(i, false)
		return nil
	}
	if a.seal && w.broken("NO_SEAL") {
		if w.meta == 0 && o.read != nil {
			w.start, w.meta = int(o.read.Epoch), 1
		}
		w.stop(i, false)
		return nil
	}
	c := r.carryOver(o, &journal.Record{Sealed: a.seal})
	if w.b.Kind == Outbox {
		w.firstCursors(c)
	}
	fenced := r.prods[epoch.A].owner != a.id
	if err := ask(r, o, epoch.Claim{Record: c}); err != nil {
		return err
	}
	if fenced && !w.broken("NO_CLAIM") {
		return w.lost(i)
	}
	if w.broken("NO_CLAIM") {
		w.claimNothing(r, o)
	} else if err := r.committed(o, c); err != nil {
		return err
	}
	if err := tell(r, o, epoch.Claimed{}); err != nil {
		return err
	}
	if err := ask(r, o, epoch.Verify{Prev: o.read, PrevOffset: o.offset, Claim: o.claim}); err != nil {
		return err
	}
	if err := tell(r, o, epoch.Verified{Undisturbed: true}); err != nil {
		return err
	}
	a.count = 0
	a.src = int(c.Tail.Offset)
	if a.seal && w.broken("META_EARLY") && w.meta == 0 {
		w.start, w.meta = int(c.Epoch), 1
	}
	if c.Attempt > maxAttempts {
		return fmt.Errorf("attempt %d: the bounds are too small", c.Attempt)
	}
	return ask(r, o, epoch.Recover{Pending: o.inherited(true)})
}

// claimNothing: the attempt is counted, and what was read may be old.
func (w *world) claimNothing(r *relation, o *owner) {
	c := r.carryOver(o, o.claim)
	if last := r.last(); last != nil {
		c = last.Clone()
		c.Attempt, c.Claim = last.Attempt+1, true
	}
	mine := *o.claim
	mine.Attempt = c.Attempt
	o.claim, o.claimed = &mine, true
	r.log = append(r.log, c)
	r.prods[epoch.A] = cutClaim(r.prods[epoch.A], o)
}

// cutClaim takes the claim's transaction back, which was never begun.
func cutClaim(p producer, o *owner) producer {
	if p.owner == o.id {
		return producer{owner: o.id}
	}
	return p
}

// swept is the count of a worker whose sweep is behind it.
const swept = 100

func (w *world) sweepMoves(add func(string, func(*world, int) error), i int) {
	a := &w.ws[i]
	if w.b.Kind == Staging && a.count <= maxAttempts {
		// The Spin model sweeps attempt by attempt; those that hold nothing make
		// no difference.
		add(fmt.Sprintf("sweep attempt %d", a.count), func(w *world, i int) error {
			a, _, o := w.of(i)
			n := int64(a.count)
			if n < o.attempt() || w.broken("SWEEP_ALL") && n != o.attempt() {
				w.sweepAttempt(0, a.count, o)
			}
			a.count++
			return nil
		})
		return
	}
	if a.seal && a.count != swept { // the bump writes meta in a step of its own
		add("sweep", func(w *world, i int) error {
			w.sweep(i)
			w.ws[i].count = swept
			return nil
		})
		return
	}
	add("swept", func(w *world, i int) error {
		a, r, o := w.of(i)
		a.count = 0
		if w.b.Kind != Staging && !a.seal {
			w.sweep(i)
		}
		if err := tell(r, o, epoch.Swept{}); err != nil {
			return err
		}
		rec := o.claim.Clone()
		rec.Pending = o.listed()
		if err := ask(r, o, epoch.Open{Record: rec}); err != nil {
			return err
		}
		switch {
		case a.seal:
			w.bumped(i)
			return nil
		case w.b.Kind == Outbox:
			return nil // the ledger is asked in a step of its own
		}
		return tell(r, o, epoch.Opened{})
	})
}

// sweep is all of it in one step.
func (w *world) sweep(i int) {
	a, _, o := w.of(i)
	for g := range w.work {
		for att := 1; att <= maxAttempts; att++ {
			older := g == a.gen && int64(att) < o.attempt() || g < a.gen && !w.broken("SWEEP_OWN_GEN")
			if w.broken("SWEEP_ANY_GEN") {
				older = int64(att) < o.attempt()
			}
			if older {
				w.sweepAttempt(g, att, o)
			}
		}
	}
}

// sweepAttempt rolls back what an attempt staged and o's claim does not list.
func (w *world) sweepAttempt(g, att int, o *owner) {
	for k := 1; k <= w.b.Records; k++ {
		if w.work[g][att][k] == staged && (w.broken("SWEEP_LISTED") || !w.listedIn(o, g, att, k)) {
			w.work[g][att][k] = undone
		}
	}
}

func (w *world) listedIn(o *owner, g, att, k int) bool {
	if int32(g+1) != o.claim.Generation {
		return false
	}
	for _, p := range o.claim.Pending {
		if p.Attempt == int64(att) && w.slot(p) == k {
			return true
		}
	}
	return false
}

// slot is the last part of the name of staged work.
func (w *world) slot(p journal.Pending) int {
	if w.b.Kind == Outbox {
		return int(p.Data[0])
	}
	return int(p.Epoch)
}

// bumped ends the bump: the next generation begins where this one is sealed.
func (w *world) bumped(i int) {
	_, _, o := w.of(i)
	if w.meta == 0 {
		w.start, w.meta = int(o.claim.Epoch), 1
	}
	w.stop(i, false)
}
