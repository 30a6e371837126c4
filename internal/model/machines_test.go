package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// machines is a world of real epoch.Machines around a broker and sinks of all
// kinds, with crashes, zombies, lost answers and broker time-outs in random
// order. It writes down all that happens.
type machines struct {
	rnd    *rand.Rand
	steps  []step
	log    []*journal.Record
	prods  [2]txn
	actors []*actor
	next   int // number of the next owner

	outbox []entry // decided
	ledger int     // entries applied by "rows"
}

type txn struct {
	owner int
	open  bool
	rec   *journal.Record
	outs  []sink.Pos
}

type entry struct {
	pos sink.Pos
	n   int64 // source record
}

// actor is a worker: one machine after the other.
type actor struct {
	id      int
	m       *epoch.Machine
	todo    []epoch.Action
	inbox   []epoch.Event
	source  int64
	index   map[int64]int64 // outbox records by open epoch
	tail    journal.Tail
	rows    int // its view of the ledger
	files   int // entries staged
	started bool
	open    bool
	over    bool
	seal    bool
}

const traceRecords = 12

// record walks until the steps are used up or all is confirmed, and gives the
// trace.
func record(seed uint64, seal bool) []step {
	w := &machines{rnd: rand.New(rand.NewPCG(seed, 11)), next: 1}
	for range 3 {
		w.actors = append(w.actors, w.take(&actor{}))
	}
	for turn := range 4000 {
		if seal && turn == 1500 {
			w.actors = []*actor{w.take(&actor{seal: true}), w.actors[1]}
		}
		if w.rnd.IntN(300) == 0 {
			if p := epoch.Producer(w.rnd.IntN(2)); w.prods[p].open {
				w.steps = append(w.steps, step{0, "aborts", p})
				w.prods[p] = txn{}
			}
			continue
		}
		w.turn(w.actors[w.rnd.IntN(len(w.actors))])
	}
	return w.steps
}

func (w *machines) take(a *actor) *actor {
	a.id = w.next
	w.next++
	a.m = epoch.New(epoch.Config{
		Incarnation: "i", Pipeline: "p", Generation: 1, Staging: true, Outbox: []string{"rows", "files"},
		Seal: a.seal, Worker: fmt.Sprint(a.id),
	})
	a.todo, a.inbox, a.index = nil, nil, map[int64]int64{}
	a.started, a.open, a.over = false, false, false
	return a
}

func (w *machines) turn(a *actor) {
	switch n := w.rnd.IntN(400); {
	case n == 0: // SIGKILL, and another worker
		w.take(a)
	case a.over:
		if w.rnd.IntN(20) == 0 {
			w.take(a)
		}
	case !a.started:
		if w.rnd.IntN(40) == 0 || len(w.log) == 0 {
			a.started = true
			w.tell(a, epoch.Start{})
		}
	case len(a.todo) > 0 && n%2 == 0:
		act := a.todo[0]
		a.todo = a.todo[1:]
		w.act(a, act)
	case len(a.inbox) > 0:
		ev := a.inbox[0]
		a.inbox = a.inbox[1:]
		w.tell(a, ev)
	case a.open && a.m.Running():
		w.work(a)
	}
}

func (w *machines) tell(a *actor, ev epoch.Event) {
	w.steps = append(w.steps, step{a.id, "is told", ev})
	for _, act := range a.m.Step(ev) {
		w.steps = append(w.steps, step{a.id, "asks for", act})
		if _, ok := act.(epoch.Over); ok {
			a.over = true
			w.late(a)
			return
		}
		a.todo = append(a.todo, act)
	}
}

// late: a request that was sent before the end may take effect after it.
func (w *machines) late(a *actor) {
	for _, act := range a.todo {
		if end, ok := act.(epoch.End); ok && w.rnd.IntN(2) == 0 {
			w.end(a, end.Epoch)
		}
	}
	a.todo, a.inbox = nil, nil
}

// reply puts an answer on its way, or loses it.
func (w *machines) reply(a *actor, ev epoch.Event) {
	if w.rnd.IntN(200) == 0 {
		ev = epoch.Failed{Err: errors.New("lost answer")}
	}
	a.inbox = append(a.inbox, ev)
}

func (w *machines) fail(a *actor) {
	a.inbox = append(a.inbox, epoch.Failed{Err: errors.New("fenced")})
}

func (w *machines) mine(a *actor, e int64) bool {
	t := &w.prods[e&1]
	return t.owner == a.id && t.open
}

func (w *machines) sources(n int64) []journal.Source {
	return []journal.Source{{Topic: "raw", ID: "1", Partitions: []journal.Partition{{Offset: n}}}}
}

// work is what a running attempt does by itself.
func (w *machines) work(a *actor) {
	switch n := w.rnd.IntN(8); {
	case n < 2 && a.m.CanFill() && a.source < traceRecords*100:
		if a.m.Open() == 0 {
			w.tell(a, epoch.Fill{})
			return
		}
		e := a.m.Open()
		if !w.mine(a, e) {
			return
		}
		w.prods[e&1].outs = append(w.prods[e&1].outs, sink.Pos{Epoch: e, Index: a.index[e]})
		a.tail.Pos = sink.Pos{Epoch: e, Index: a.index[e]}
		a.index[e]++
		a.tail.Offset += 1 + int64(w.rnd.IntN(2)) // markers take offsets too
		a.source++
	case n < 4:
		w.tell(a, epoch.Barrier{Sources: w.sources(a.source)})
	case n == 4 && w.rnd.IntN(20) == 0:
		w.tell(a, []epoch.Event{epoch.Renew{}, epoch.Moved{}}[w.rnd.IntN(2)])
	case n < 6:
		w.apply(a)
	default:
		w.stage(a)
	}
}

// decided is how many outbox entries this attempt knows as decided.
func (w *machines) decided(a *actor) int {
	n := 0
	for n < len(w.outbox) && w.outbox[n].pos.Epoch <= a.m.Ended() {
		n++
	}
	return n
}

func (w *machines) cursor(n int) journal.Cursor {
	if n == 0 {
		return journal.Cursor{}
	}
	return journal.Cursor{Pos: w.outbox[n-1].pos, Offset: w.outbox[n-1].n}
}

func (w *machines) apply(a *actor) {
	n := w.decided(a)
	if a.rows >= n {
		return
	}
	to := a.rows + 1 + w.rnd.IntN(n-a.rows)
	w.ledger = max(w.ledger, to)
	ev := epoch.Applied{Sink: "rows", Cursor: w.cursor(to)}
	for i := a.rows; i < to; i++ {
		if w.outbox[i].n%3 == 0 {
			ev.Verdicts = append(ev.Verdicts, epoch.Verdict{Sink: "rows", Verdict: sink.Verdict{Pos: w.outbox[i].pos, Code: "no"}})
		}
	}
	a.rows = to
	w.reply(a, ev)
}

func (w *machines) stage(a *actor) {
	n := w.decided(a)
	if a.files >= n || !a.m.CanStage("files") || w.rnd.IntN(3) != 0 {
		return
	}
	from, to := w.cursor(a.files), w.cursor(a.files+1+w.rnd.IntN(n-a.files))
	ev := epoch.Staged{Sink: "files", Cursor: to}
	for part := range 1 + w.rnd.IntN(2) {
		p := journal.Pending{Offset: from.Offset}
		p.Sink, p.From, p.Through = "files", from.Pos, to.Pos
		p.Data = fmt.Appendf(nil, "%s-%d-%d", to.Pos, a.id, part)
		ev.Pending = append(ev.Pending, p)
	}
	for a.files < n && !to.Pos.Before(w.outbox[a.files].pos) {
		a.files++
	}
	w.reply(a, ev)
}

func (w *machines) act(a *actor, act epoch.Action) {
	switch act := act.(type) {
	case epoch.Fence:
		w.prods[act.Producer] = txn{owner: a.id}
		w.steps = append(w.steps, step{a.id, "fences", act.Producer})
		w.reply(a, epoch.Fenced(act))
	case epoch.ReadJournal:
		ev := epoch.Read{Offset: int64(len(w.log)) - 1}
		if len(w.log) > 0 {
			ev.Record = w.log[len(w.log)-1]
		}
		w.reply(a, ev)
	case epoch.ResolveStart:
		w.reply(a, epoch.Resolved{Record: &journal.Record{Sources: w.sources(0)}})
	case epoch.Claim:
		if w.prods[epoch.A].owner != a.id {
			w.fail(a)
			return
		}
		w.commit(a, act.Record)
		w.reply(a, epoch.Claimed{})
	case epoch.Verify:
		i := slices.Index(w.log, act.Claim)
		w.reply(a, epoch.Verified{Undisturbed: int64(i) == act.PrevOffset+1})
	case epoch.Recover:
		w.reply(a, epoch.Recovered{})
	case epoch.Sweep:
		w.reply(a, epoch.Swept{})
	case epoch.Open:
		r := act.Record
		a.source, a.tail, a.open = r.Sources[0].Partitions[0].Offset, r.Tail, true
		a.rows, a.files = w.behind(r.Cursors["rows"].Pos), w.behind(r.Cursors["files"].Pos)
		a.inbox = append(a.inbox, epoch.Opened{})
	default:
		w.actEpoch(a, act)
	}
}

func (w *machines) behind(p sink.Pos) int {
	n := 0
	for n < len(w.outbox) && !p.Before(w.outbox[n].pos) {
		n++
	}
	return n
}

func (w *machines) actEpoch(a *actor, act epoch.Action) {
	switch act := act.(type) {
	case epoch.Begin:
		if w.prods[act.Producer].owner != a.id {
			w.fail(a)
			return
		}
		w.prods[act.Producer] = txn{owner: a.id, open: true}
	case epoch.Flush:
		if !w.mine(a, act.Epoch) {
			w.fail(a)
			return
		}
		w.reply(a, epoch.Flushed{Epoch: act.Epoch, Tail: a.tail})
	case epoch.Prepare:
		ev := epoch.Prepared{Epoch: act.Epoch}
		for k := range a.index[act.Epoch] {
			if k < 2 {
				ev.Committables = append(ev.Committables, sink.Committable{Sink: "db", Data: fmt.Appendf(nil, "%d/%d/%d", a.id, act.Epoch, k)})
			}
		}
		w.reply(a, ev)
	case epoch.Journal:
		if !w.mine(a, act.Epoch) {
			w.fail(a)
			return
		}
		w.prods[act.Epoch&1].rec = act.Record
		w.reply(a, epoch.Journaled{Epoch: act.Epoch})
	case epoch.Offsets:
		w.reply(a, epoch.OffsetsSent{Epoch: act.Epoch})
	case epoch.End:
		if !w.end(a, act.Epoch) {
			w.fail(a)
			return
		}
		w.reply(a, epoch.Decided(act))
	case epoch.Commit:
		bySink := map[string][]journal.Pending{}
		for _, it := range act.Items {
			bySink[it.Sink] = append(bySink[it.Sink], it)
		}
		for _, name := range []string{"files", "db"} {
			if len(bySink[name]) > 0 {
				w.reply(a, epoch.Committed{Items: bySink[name]})
			}
		}
	}
}

func (w *machines) end(a *actor, e int64) bool {
	t := &w.prods[e&1]
	if !w.mine(a, e) || t.rec == nil {
		return false
	}
	for i, pos := range t.outs {
		n := t.rec.Tail.Offset - int64(len(t.outs)-1-i)
		w.outbox = append(w.outbox, entry{pos, n})
	}
	rec := t.rec
	*t = txn{owner: a.id}
	w.commit(a, rec)
	return true
}

func (w *machines) commit(a *actor, r *journal.Record) {
	w.log = append(w.log, r)
	w.steps = append(w.steps, step{a.id, "commits", r})
}
