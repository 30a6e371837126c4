package model

import (
	"fmt"
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// outboxMoves: a running worker with a ledger sink and an object sink.
func (w *world) outboxMoves(add func(string, func(*world, int) error), i int) {
	a, _, o := w.of(i)
	n := o.next
	if o.lane(n).epoch == 0 && n <= o.ended+2 {
		if a.src < w.b.Records {
			add(fmt.Sprintf("begin %d with a record", n), func(w *world, i int) error { return w.beginOutbox(i, 1) })
		}
		if a.dirty && o.behind(n) == nil {
			add(fmt.Sprintf("begin %d to confirm", n), func(w *world, i int) error { return w.beginOutbox(i, 0) })
		}
	}
	for j := range o.lanes {
		l := &o.lanes[j]
		n := l.epoch
		switch {
		case n == 0:
		case !l.built:
			if older := o.behind(n); older == nil || older.journaled {
				add(fmt.Sprintf("journal %d", n), func(w *world, i int) error { return w.journalOutbox(i, n) })
			}
		case n == o.ended+1:
			add(fmt.Sprintf("end %d", n), func(w *world, i int) error { return w.endOutbox(i, n) })
		}
	}
	w.sinkMoves(add, i)
	if low := w.trimTo(i); low > w.tasks[0].low {
		add(fmt.Sprintf("trim to %d", low), func(w *world, i int) error {
			_, r, o := w.of(i)
			return ask(r, o, epoch.Trim{Offset: low})
		})
	}
	if w.quiet(i) {
		add("the end", (*world).finish)
	}
}

func (w *world) sinkMoves(add func(string, func(*world, int) error), i int) {
	a, _, o := w.of(i)
	tail := int(o.tail.Offset)
	for _, k := range []int{1, 2} {
		if w.b.Ledger && a.place+k <= tail {
			add(fmt.Sprintf("apply through %d", a.place+k), func(w *world, i int) error { return w.apply(i, k) })
		}
		if w.b.Object && len(o.pending) == 0 && w.objectCursor(o)+k <= tail {
			add(fmt.Sprintf("stage through %d", w.objectCursor(o)+k), func(w *world, i int) error { return w.stage(i, k) })
		}
	}
	if w.kept && w.b.Refused <= w.decidedCursor(o, "ledger") {
		add("forget the verdict", func(w *world, _ int) error { w.kept = false; return nil })
	}
	if len(o.pending) > 0 && (o.decidedWork() != nil || w.broken("ITEM_EARLY")) {
		add("complete "+briefItem(o.pending[0].Pending), (*world).complete)
	}
}

func (w *world) objectCursor(o *owner) int { return int(o.cursors["object"].Offset) }

func (w *world) decidedCursor(o *owner, name string) int { return int(o.confirmed[name].Offset) }

func (w *world) quiet(i int) bool {
	a, _, o := w.of(i)
	n := int64(w.b.Records)
	for _, c := range o.confirmed {
		if c.Offset != n {
			return false
		}
	}
	return o.tail.Offset == n && len(o.pending) == 0 && !a.dirty && o.lanes[0].epoch == 0 && o.lanes[1].epoch == 0
}

// trimTo is where the worker would trim to.
func (w *world) trimTo(i int) int64 {
	_, r, o := w.of(i)
	low := r.trimBound(o)
	if w.b.Break == "" || !r.rules.trimAny {
		return low
	}
	low = o.tail.Offset
	if !w.broken("TRIM_TAIL") {
		from := o.confirmed
		if w.broken("TRIM_EARLY") {
			from = o.cursors
		}
		for _, c := range from {
			low = min(low, c.Offset)
		}
	}
	if !w.broken("TRIM_RANGE") {
		for _, it := range o.pending {
			low = min(low, it.Offset)
		}
	}
	return low
}

func (w *world) beginOutbox(i, records int) error {
	if err := w.beginEpoch(i); err != nil || w.ws[i].dead {
		return err
	}
	if a, _, o := w.of(i); o.phase == running {
		a.src += records
	}
	return nil
}

func (w *world) journalOutbox(i int, n int64) error {
	a, r, o := w.of(i)
	if !w.mine(i, n) {
		return w.lost(i)
	}
	if err := w.barrier(i, n, a.src); err != nil {
		return err
	}
	a.dirty = false
	verdicts := o.verdicts
	w.inside[epoch.Of(n)] = len(verdicts)
	if w.broken("VERDICT_APART") {
		w.inside[epoch.Of(n)] = len(a.apart)
		a.apart, a.dirty = verdicts, len(verdicts) > 0
	}
	rec, _ := r.journalRecord(o, o.lane(n))
	hidden := slices.Clone(o.pending)
	if w.broken("CURSOR_EARLY") && len(hidden) > 0 && hidden[0].listed == 0 && !a.seen {
		a.seen, a.dirty = true, true // the cursor goes alone
		o.pending = nil
		rec.Pending = nil
	} else {
		hidden = nil
	}
	if err := ask(r, o, epoch.Journal{Epoch: n, Record: rec, Verdicts: verdicts}); err != nil {
		return err
	}
	if hidden != nil {
		o.pending = hidden
	} else {
		a.seen = false
	}
	if err := tell(r, o, epoch.Journaled{Epoch: n}); err != nil {
		return err
	}
	if err := ask(r, o, epoch.Offsets{Epoch: n, Sources: rec.Sources}); err != nil {
		return err
	}
	return tell(r, o, epoch.OffsetsSent{Epoch: n})
}

func (w *world) endOutbox(i int, n int64) error {
	_, r, o := w.of(i)
	if !w.mine(i, n) || r.prods[epoch.Of(n)].record == nil {
		return w.lost(i)
	}
	before := o.tail
	if err := w.decide(i, n); err != nil {
		return err
	}
	if o.tail.Offset > before.Offset {
		w.out++
		if !w.b.Lax && w.out != int(o.tail.Offset) {
			return fmt.Errorf("record %d is decided as the %d-th", o.tail.Offset, w.out)
		}
		w.at[min(w.out, maxRecords)] = n
	}
	w.letters += w.inside[epoch.Of(n)]
	w.inside[epoch.Of(n)] = 0
	if w.letters > 1 && !w.b.Lax {
		return fmt.Errorf("record %d is a dead letter twice", w.b.Refused)
	}
	return nil
}

// reads: the records behind from are still in the outbox. A zombie may find
// them trimmed, which ends it; the rightful owner never does.
func (w *world) reads(i, from int) (bool, error) {
	_, r, o := w.of(i)
	if int64(from) >= r.low {
		return true, nil
	}
	if r.rightful(o) && !w.b.Lax {
		return false, fmt.Errorf("the outbox is needed from %d, and trimmed to %d", from, r.low)
	}
	return false, w.lost(i)
}

// openLedger: the sink answers with its own place, and with the verdicts beyond
// the journal's cursor.
func (w *world) openLedger(i int) error {
	a, r, o := w.of(i)
	if !w.b.Ledger {
		return tell(r, o, epoch.Opened{})
	}
	from := w.decidedCursor(o, "ledger")
	if w.ledger < from && r.rightful(o) && !w.b.Lax {
		return fmt.Errorf("the ledger stands at %d, behind the journal's %d", w.ledger, from)
	}
	if ok, err := w.reads(i, from); !ok {
		return err
	}
	if w.ledger > int(o.tail.Offset) {
		if r.rightful(o) && !w.b.Lax {
			return fmt.Errorf("the ledger stands at %d, decided is %d", w.ledger, o.tail.Offset)
		}
		return w.lost(i)
	}
	a.place = w.ledger
	if a.place > from {
		a.dirty = true
		if err := tell(r, o, w.applied(i, from, a.place, !w.broken("VERDICT_DROP"))); err != nil {
			return err
		}
	}
	return tell(r, o, epoch.Opened{})
}

// applied tells of the cursor, with the verdict if the ledger keeps it.
func (w *world) applied(_, from, to int, verdict bool) epoch.Applied {
	ev := epoch.Applied{Sink: "ledger", Cursor: w.cursor(to)}
	if verdict && w.kept && from < w.b.Refused && w.b.Refused <= to {
		v := epoch.Verdict{Sink: "ledger"}
		v.Pos = w.cursor(w.b.Refused).Pos
		ev.Verdicts = []epoch.Verdict{v}
	}
	return ev
}

// apply is one batch in the sink's own transaction.
func (w *world) apply(i, k int) error {
	a, r, o := w.of(i)
	if ok, err := w.reads(i, a.place); !ok {
		return err
	}
	from, to := w.ledger+1, a.place+k
	if w.broken("LEDGER_ANY") || w.broken("NO_LEDGER") {
		from = a.place + 1
	}
	if to > w.ledger || w.broken("NO_LEDGER") {
		for n := from; n <= to; n++ {
			if err := w.addRow(n); err != nil {
				return err
			}
		}
		w.ledger = to
	}
	ev := w.applied(i, a.place, to, true)
	if w.broken("VERDICT_EARLY") && len(ev.Verdicts) > 0 {
		w.kept = false
	}
	a.place, a.dirty = to, true
	return tell(r, o, ev)
}

func (w *world) addRow(n int) error {
	if n > w.out && !w.b.Lax {
		return fmt.Errorf("record %d is applied before its decision", n)
	}
	if n == w.b.Refused {
		w.kept = true
		return nil
	}
	if w.rows[n]++; w.rows[n] > 1 && !w.b.Lax {
		return fmt.Errorf("record %d is applied twice", n)
	}
	return nil
}

// stage makes an object of the next k decided records, invisible.
func (w *world) stage(i, k int) error {
	a, r, o := w.of(i)
	from := w.objectCursor(o)
	if ok, err := w.reads(i, from); !ok {
		return err
	}
	p := journal.Pending{Offset: int64(from)}
	p.Sink, p.From, p.Through, p.Data = "object", w.cursor(from).Pos, w.cursor(from+k).Pos, []byte{byte(from + k), byte(from)}
	w.work[0][o.attempt()][from+k] = staged
	a.dirty = true
	return tell(r, o, epoch.Staged{Sink: "object", Pending: []journal.Pending{p}, Cursor: w.cursor(from + k)})
}

// complete makes a decided object visible; what the store threw away is built
// again from the outbox.
func (w *world) complete(i int) error {
	a, r, o := w.of(i)
	p := o.pending[0].Pending
	at := &w.work[0][p.Attempt][p.Data[0]]
	from := int(p.Data[1])
	if *at == undone {
		if r.rightful(o) && !w.b.Lax {
			return fmt.Errorf("decided work %s is lost", briefItem(p))
		}
		if !w.broken("GONE_IS_DONE") {
			return w.lost(i)
		}
	}
	if *at == gone && !w.broken("GONE_IS_DONE") {
		if ok, err := w.reads(i, from); !ok {
			return err
		}
		*at = staged
	}
	if *at == staged {
		for n := from + 1; n <= int(p.Data[0]); n++ {
			if w.shown[n]++; w.shown[n] > 1 && !w.b.Lax {
				return fmt.Errorf("record %d is shown twice", n)
			}
			if n > 1 && w.shown[n-1] == 0 && !w.b.Lax {
				return fmt.Errorf("record %d is shown before the one in front of it", n)
			}
		}
		*at = done
	}
	a.dirty = true
	if w.broken("ITEM_EARLY") && o.decidedWork() == nil {
		o.pending = nil
		return nil
	}
	items := []journal.Pending{p}
	if err := ask(r, o, epoch.Commit{Items: items}); err != nil {
		return err
	}
	return tell(r, o, epoch.Committed{Items: items})
}
