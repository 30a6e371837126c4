package model

import (
	"fmt"
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// stagingMoves: a running worker with a two-phase sink. One record per epoch.
func (w *world) stagingMoves(add func(string, func(*world, int) error), i int) {
	a, _, o := w.of(i)
	if w.record(a.gen, o.next) <= w.b.Records && o.lane(o.next).epoch == 0 && o.next <= o.ended+2 {
		add(fmt.Sprintf("begin %d", o.next), (*world).beginEpoch)
	}
	for j := range o.lanes {
		l := &o.lanes[j]
		n := l.epoch
		switch {
		case n == 0:
		case !l.prepared && w.broken("NO_RESWEEP") && w.locked(i, n): // it waits for ever
		case !l.prepared:
			add(fmt.Sprintf("prepare %d", n), func(w *world, i int) error { return w.prepare(i, n) })
		case !l.built:
			if older := o.behind(n); older == nil || older.journaled {
				add(fmt.Sprintf("journal %d", n), func(w *world, i int) error { return w.journal(i, n) })
			}
		case n == o.ended+1 || w.broken("NO_CHAIN"):
			add(fmt.Sprintf("end %d", n), func(w *world, i int) error { return w.end(i, n) })
		}
	}
	if p := o.decidedWork(); p != nil {
		add("commit "+briefItem(*p), (*world).commitOne)
	}
	if w.broken("RENEW") && o.lanes[0].epoch == 0 && o.lanes[1].epoch == 0 && !a.renewed {
		add("renew one id", func(w *world, i int) error {
			a, r, o := w.of(i)
			a.renewed = true
			return r.fenced(o, epoch.Of(o.next))
		})
	}
	if w.record(a.gen, o.ended) == w.b.Records && len(o.pending) == 0 && o.lanes[0].epoch == 0 && o.lanes[1].epoch == 0 {
		add("the end", func(w *world, i int) error {
			if a := &w.ws[i]; !a.final && w.b.Kind == Staging {
				a.dead = true // a worker with nothing to do, which does not say that all is done
				return nil
			}
			return w.finish(i)
		})
	}
}

// record is which source record an epoch holds.
func (w *world) record(gen int, n int64) int { return gen*w.start + int(n) }

// barrier closes and flushes an epoch, which shows nowhere.
func (w *world) barrier(i int, n int64, upTo int) error {
	_, r, o := w.of(i)
	if l := o.lane(n); l.epoch != n || l.closed {
		return nil
	}
	if err := tell(r, o, epoch.Barrier{Sources: w.sources(upTo)}); err != nil {
		return err
	}
	if err := ask(r, o, epoch.Flush{Epoch: n}); err != nil {
		return err
	}
	tail := journal.Tail{Offset: int64(upTo)}
	if w.b.Kind == Outbox {
		before := o.tail
		if older := o.behind(n); older != nil {
			before = older.tail
		}
		tail.Pos = before.Pos
		if before.Offset != int64(upTo) {
			tail.Pos = sink.Pos{Epoch: n}
		}
	}
	return tell(r, o, epoch.Flushed{Epoch: n, Tail: tail})
}

func (w *world) beginEpoch(i int) error {
	a, r, o := w.of(i)
	n := o.next
	if o.behind(n) != nil {
		if err := w.barrier(i, n-1, a.src); err != nil {
			return err
		}
	}
	if w.b.Kind != Outbox {
		a.src = w.record(a.gen, n)
	}
	fenced := r.prods[epoch.Of(n)].owner != a.id
	if err := ask(r, o, epoch.Begin{Epoch: n, Producer: epoch.Of(n)}); err != nil {
		return err
	}
	if fenced {
		return w.lost(i)
	}
	return nil
}

// prepare stages an epoch, unless a lock is in the way: then the sweep runs
// again.
func (w *world) prepare(i int, n int64) error {
	a, r, o := w.of(i)
	if w.locked(i, n) {
		if w.sweep(i); w.locked(i, n) {
			return w.lost(i)
		}
	}
	if err := w.barrier(i, n, w.record(a.gen, n)); err != nil {
		return err
	}
	if err := ask(r, o, epoch.Prepare{Epoch: n}); err != nil {
		return err
	}
	w.work[a.gen][o.attempt()][n] = staged
	return tell(r, o, epoch.Prepared{Epoch: n, Committables: []sink.Committable{{Sink: "db", Data: []byte{byte(o.attempt()), byte(n)}}}})
}

// locked: somebody else's staged work is about the same record.
func (w *world) locked(i int, n int64) bool {
	if w.b.Kind != Generations {
		return false
	}
	a, _, o := w.of(i)
	for g := range w.work {
		k := w.record(a.gen, n) - g*w.start
		if k < 1 || k > w.b.Records {
			continue
		}
		for att := range w.work[g] {
			if w.work[g][att][k] == staged && !(g == a.gen && int64(att) == o.attempt()) {
				return true
			}
		}
	}
	return false
}

func (w *world) journal(i int, n int64) error {
	_, r, o := w.of(i)
	if !w.mine(i, n) {
		return w.lost(i)
	}
	rec, _ := r.journalRecord(o, o.lane(n))
	if err := ask(r, o, epoch.Journal{Epoch: n, Record: rec}); err != nil {
		return err
	}
	if err := tell(r, o, epoch.Journaled{Epoch: n}); err != nil {
		return err
	}
	if err := ask(r, o, epoch.Offsets{Epoch: n, Sources: rec.Sources}); err != nil {
		return err
	}
	return tell(r, o, epoch.OffsetsSent{Epoch: n})
}

func (w *world) end(i int, n int64) error {
	a, r, _ := w.of(i)
	if !w.mine(i, n) || r.prods[epoch.Of(n)].record == nil {
		return w.lost(i)
	}
	if err := w.decide(i, n); err != nil {
		return err
	}
	if w.out++; w.out != w.record(a.gen, n) && !w.b.Lax {
		return fmt.Errorf("epoch %d of generation %d is decided as record %d", n, a.gen, w.out)
	}
	return nil
}

// decide is the commit and all that follows at once.
func (w *world) decide(i int, n int64) error {
	_, r, o := w.of(i)
	l := o.lane(n)
	rec := l.record
	if err := ask(r, o, epoch.End{Epoch: n}); err != nil {
		return err
	}
	if err := r.committed(o, rec); err != nil {
		return err
	}
	if w.broken("NO_CHAIN") && n != o.ended+1 {
		o.published = n - 1
	}
	if err := tell(r, o, epoch.Decided{Epoch: n}); err != nil {
		return err
	}
	return ask(r, o, epoch.Publish{Epoch: n, Tail: rec.Tail}, epoch.Confirm{Cursors: rec.Cursors})
}

// decidedWork is the oldest work that may be committed.
func (o *owner) decidedWork() *journal.Pending {
	for _, it := range o.pending {
		if it.listed != 0 && it.listed <= o.ended && !it.handed {
			return &it.Pending
		}
	}
	return nil
}

func (w *world) commitOne(i int) error {
	_, r, o := w.of(i)
	items := []journal.Pending{*o.decidedWork()}
	if err := ask(r, o, epoch.Commit{Items: items}); err != nil {
		return err
	}
	if err := w.commitWork(i, items[0]); err != nil {
		return err
	}
	return tell(r, o, epoch.Committed{Items: items})
}

// commitWork makes staged work of a two-phase sink visible.
func (w *world) commitWork(i int, p journal.Pending) error {
	a := &w.ws[i]
	g, k := a.gen, int(p.Epoch)
	at := &w.work[g][p.Attempt][k]
	if *at == done || w.broken("MARK_ANY_GEN") && w.work[1-g][p.Attempt][k] == done {
		return nil
	}
	rec := w.record(g, p.Epoch)
	if !w.b.Lax {
		switch {
		case *at != staged:
			return fmt.Errorf("decided work of attempt %d, epoch %d is lost", p.Attempt, k)
		case rec > w.out:
			return fmt.Errorf("record %d is shown before its decision", rec)
		case rec > 1 && w.shown[rec-1] == 0:
			return fmt.Errorf("record %d is shown before the one in front of it", rec)
		case w.shown[rec] != 0:
			return fmt.Errorf("record %d is shown twice", rec)
		}
	}
	if *at == staged {
		*at = done
		w.shown[rec]++
	}
	return nil
}

// finish: the worker says that all is done.
func (w *world) finish(i int) error {
	for n := 1; n <= w.b.Records && !w.b.Lax; n++ {
		switch {
		case w.out != w.b.Records:
			return fmt.Errorf("%d records are decided at the end", w.out)
		case (w.b.Kind != Outbox || w.b.Object) && w.shown[n] != 1:
			return fmt.Errorf("record %d is shown %d times at the end", n, w.shown[n])
		case w.b.Ledger && n != w.b.Refused && w.rows[n] != 1:
			return fmt.Errorf("record %d is applied %d times at the end", n, w.rows[n])
		case w.b.Ledger && n == w.b.Refused && w.letters != 1:
			return fmt.Errorf("record %d is a dead letter %d times at the end", n, w.letters)
		}
	}
	w.stop(i, true)
	return nil
}

// firstCursors are what a first claim begins with.
func (w *world) firstCursors(c *journal.Record) {
	for _, name := range w.outboxes() {
		if c.Cursors[name] == nil {
			c.Cursors[name] = &journal.Cursor{Pos: c.Tail.Pos, Offset: c.Tail.Offset, Fresh: true}
		} else if w.broken("CURSOR_LOST") {
			c.Cursors[name] = &journal.Cursor{}
		}
	}
}

func (w *world) outboxes() []string {
	return slices.DeleteFunc([]string{"ledger", "object"}, func(s string) bool {
		return s == "ledger" && !w.b.Ledger || s == "object" && !w.b.Object
	})
}
