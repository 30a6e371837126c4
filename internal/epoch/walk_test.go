package epoch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"exactly/internal/journal"
	"exactly/sink"
)

// TestRandomWalks runs machines of several owners against a model of the broker
// and of two sinks, with crashes, zombies, lost answers and broker time-outs in
// random order, and holds the promise against what the sinks got. One source
// record per epoch at most, so that record k is due once, in order, everywhere.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	walks := 2000
	if testing.Short() {
		walks = 400
	}
	for seed := range walks {
		if err := walk(uint64(seed), rules{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestRandomWalksCanFail breaks one rule at a time: the walks must notice.
func TestRandomWalksCanFail(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]rules{
		"no fence":                      {noFence: true},
		"journal read before the fence": {readEarly: true},
		"claim not verified, no claim":  {noClaim: true},
		"ledger ignored":                {noLedger: true},
		"sweep of other than older":     {sweepAll: true},
		"pending forgotten":             {noPending: true},
		"commit before the decision":    {commitEarly: true},
		"verdict dropped":               {dropVerdict: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range 20000 {
				if walk(uint64(seed), r) != nil {
					t.Logf("caught after %d walks", seed+1)
					return
				}
			}
			t.Error("not caught in 20,000 walks")
		})
	}
}

// rules says which rule of the protocol the world breaks.
type rules struct {
	noFence, readEarly, noClaim, noLedger, sweepAll, noPending, commitEarly, dropVerdict bool
}

const (
	walkRecords = 6
	walkOwners  = 4
)

// txn is one producer's transaction in the model broker.
type txn struct {
	owner   int // who was last fenced in; -1: nobody
	open    bool
	rec     *journal.Record
	outs    []int64 // source records in it
	letters []int64 // dead letters in it
}

// world is the model: one task, its journal, two producers, a staging sink, an
// outbox sink with ledger, and the outputs.
type world struct {
	rnd     *rand.Rand
	rules   rules
	txns    [2]txn
	journal []*journal.Record
	out     []int64           // committed output
	letters map[int64]int     // committed dead letters, by record
	decided map[int64][]int64 // epoch -> records in the outbox
	staged  map[string][]int64
	state   map[string]int // 1 staged, 2 committed, 3 rolled back
	db      []int64        // what the staging sink shows
	rows    []int64        // what the outbox sink shows
	ledger  sink.Pos
	verdict map[sink.Pos]int64
	err     error
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// owner is a worker with one attempt.
type owner struct {
	id      int
	m       *Machine
	todo    []Action
	token   [2]int
	early   *Read
	fill    map[int64][]int64 // records by epoch
	next    int64             // next source record
	applied sink.Pos
	final   bool
	dead    bool
}

func newOwner(id int, final bool) *owner {
	o := &owner{id: id, final: final}
	o.retake()
	return o
}

func (o *owner) retake() {
	o.m = New(Config{Incarnation: "i", Pipeline: "p", Generation: 1, Outbox: []string{"rows"}, Staging: true, Worker: fmt.Sprint(o.id)})
	o.todo, o.early, o.fill = nil, nil, map[int64][]int64{}
}

func walk(seed uint64, r rules) error {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 7)), rules: r, letters: map[int64]int{}, decided: map[int64][]int64{},
		staged: map[string][]int64{}, state: map[string]int{}, verdict: map[sink.Pos]int64{},
	}
	w.txns[0].owner, w.txns[1].owner = -1, -1
	var owners []*owner
	for i := range walkOwners {
		owners = append(owners, newOwner(i, i == walkOwners-1))
	}
	for step := 0; step < 6000 && w.err == nil; step++ {
		live := slices.DeleteFunc(slices.Clone(owners), func(o *owner) bool { return o.dead })
		o := live[w.rnd.IntN(len(live))]
		if o.final && len(live) > 1 && w.rnd.IntN(4) != 0 {
			continue
		}
		switch n := w.rnd.IntN(200); {
		case n == 0 && !o.final:
			o.dead = true
		case n == 1 && w.rnd.IntN(4) == 0:
			w.timeout(w.rnd.IntN(2))
		default:
			w.turn(o)
		}
		if last := owners[len(owners)-1]; len(live) == 1 && last.m.Quiet() && last.next == walkRecords && w.done(last) {
			return w.check()
		}
	}
	if w.err == nil {
		w.fail("the last owner did not come to an end")
	}
	return w.err
}

// timeout: the broker aborts a transaction and fences its producer.
func (w *world) timeout(i int) {
	if w.txns[i].open {
		w.txns[i] = txn{owner: -1}
	}
}

func (w *world) done(o *owner) bool {
	return o.m.Pending() == 0 && o.m.cursors["rows"].Pos == o.m.tail.Pos
}

// turn lets an owner do one thing.
func (w *world) turn(o *owner) {
	if len(o.todo) > 0 {
		i := 0
		if w.rnd.IntN(3) == 0 { // actions for different epochs may pass each other
			i = w.rnd.IntN(len(o.todo))
			if !free(o.todo[:i], o.todo[i]) {
				i = 0
			}
		}
		a := o.todo[i]
		o.todo = slices.Delete(o.todo, i, i+1)
		w.act(o, a)
		return
	}
	switch {
	case o.m.state == stIdle:
		w.step(o, Start{})
	case o.m.state == stOver:
		if o.final || w.rnd.IntN(2) == 0 {
			o.retake()
		} else {
			o.dead = true
		}
	case o.m.Running():
		w.work(o)
	}
}

// free: a may pass the actions before it.
func free(before []Action, a Action) bool {
	c, ok := a.(Commit)
	if !ok {
		return false
	}
	for _, b := range before {
		if _, same := b.(Commit); same {
			return false
		}
	}
	return len(c.Items) > 0
}

func (w *world) work(o *owner) {
	switch n := w.rnd.IntN(6); {
	case n == 0 && o.next < walkRecords && o.m.CanFill():
		if o.m.Open() == 0 {
			w.step(o, Fill{})
		}
		if e := o.m.Open(); e != 0 && w.inTxn(o, e) {
			o.fill[e] = append(o.fill[e], o.next)
			t := &w.txns[e&1]
			t.outs = append(t.outs, o.next)
			o.next++
		}
	case n <= 2:
		w.step(o, Barrier{Sources: sourcesAt(o.next)})
	case n == 3 && o.final && w.rnd.IntN(40) == 0:
		w.step(o, Renew{})
	default:
		w.apply(o)
	}
}

func sourcesAt(next int64) []journal.Source {
	return []journal.Source{{Topic: "raw", ID: "1", Partitions: []journal.Partition{{Offset: next}}}}
}

func (w *world) inTxn(o *owner, e int64) bool {
	t := &w.txns[e&1]
	return t.owner == o.token[e&1] && t.open
}

// apply lets the outbox sink take the next decided record of the owner's view.
// Record 3 is refused: a verdict, kept in the ledger until it is confirmed.
func (w *world) apply(o *owner) {
	for e := o.applied.Epoch; e <= o.m.Ended(); e++ {
		for i, rec := range w.decided[e] {
			pos := sink.Pos{Epoch: e, Index: int64(i)}
			if !o.applied.Before(pos) {
				continue
			}
			if w.ledger.Before(pos) || w.rules.noLedger {
				if rec == 3 {
					w.verdict[pos] = rec
				} else {
					w.rows = append(w.rows, rec)
				}
				w.ledger = pos
			}
			ev := Applied{Sink: "rows", Cursor: journal.Cursor{Pos: pos, Offset: rec}}
			if _, ok := w.verdict[pos]; ok && !w.rules.dropVerdict {
				ev.Verdicts = []Verdict{{Sink: "rows", Verdict: sink.Verdict{Pos: pos, Code: "no"}, Payload: rec}}
			}
			o.applied = pos
			w.step(o, ev)
			return
		}
	}
}

func (w *world) step(o *owner, ev Event) {
	o.todo = append(o.todo, slices.Clone(o.m.Step(ev))...)
}

var errFenced = errors.New("fenced")

// act carries out one action on the model.
func (w *world) act(o *owner, a Action) {
	switch a := a.(type) {
	case Fence:
		w.fence(o, a.Producer)
	case ReadJournal:
		if o.early != nil {
			w.step(o, *o.early)
			return
		}
		w.step(o, w.read())
	case ResolveStart:
		w.step(o, Resolved{Record: &journal.Record{Sources: sourcesAt(0)}})
	case Claim:
		w.claim(o, a)
	case Verify:
		i := slices.Index(w.journal, a.Claim)
		ok := i >= 0 && int64(i) == a.PrevOffset+1 || w.rules.noClaim
		w.step(o, Verified{Undisturbed: ok})
	case Recover:
		for _, p := range a.Pending {
			w.commitStaged(p)
		}
		w.step(o, Recovered{})
	case Sweep:
		w.sweep(o, a)
		w.step(o, Swept{})
	case Open:
		o.next = a.Record.Sources[0].Partitions[0].Offset
		o.applied = a.Record.Cursors["rows"].Pos
		w.step(o, Opened{})
	default:
		w.actEpoch(o, a)
	}
}

func (w *world) fence(o *owner, p Producer) {
	if w.rules.readEarly && p == A {
		r := w.read()
		o.early = &r
	}
	if !w.rules.noFence {
		w.txns[p] = txn{owner: o.id}
	} else if !w.txns[p].open {
		w.txns[p].owner = o.id
	}
	o.token[p] = o.id
	if w.rules.noFence {
		w.txns[p].owner = o.id // both may go on
	}
	w.step(o, Fenced{Producer: p})
}

func (w *world) read() Read {
	if len(w.journal) == 0 {
		return Read{Offset: -1}
	}
	return Read{Record: w.journal[len(w.journal)-1], Offset: int64(len(w.journal) - 1)}
}

func (w *world) claim(o *owner, a Claim) {
	if w.rules.noClaim {
		w.journal = append(w.journal, a.Record)
		w.step(o, Claimed{})
		return
	}
	if w.txns[A].owner != o.id {
		w.step(o, Failed{Err: errFenced})
		return
	}
	w.journal = append(w.journal, a.Record)
	if w.lost(o) {
		w.step(o, Failed{Err: errors.New("lost answer")})
		return
	}
	w.step(o, Claimed{})
}

// lost: the act happened, but its answer does not arrive.
func (w *world) lost(o *owner) bool {
	if o.final {
		return w.rnd.IntN(40) == 0
	}
	return w.rnd.IntN(8) == 0
}

func (w *world) actEpoch(o *owner, a Action) {
	switch a := a.(type) {
	case Begin:
		t := &w.txns[a.Producer]
		if t.owner != o.id {
			w.step(o, Failed{Err: errFenced})
			return
		}
		*t = txn{owner: o.id, open: true}
	case Flush:
		if !w.inTxn(o, a.Epoch) {
			w.step(o, Failed{Err: errFenced})
			return
		}
		tail := o.m.tail
		if n := len(o.fill[a.Epoch]); n > 0 {
			tail = journal.Tail{Pos: sink.Pos{Epoch: a.Epoch, Index: int64(n - 1)}, Offset: o.fill[a.Epoch][n-1] + 1}
		} else if prev := o.fill[a.Epoch-1]; len(prev) > 0 {
			tail = journal.Tail{Pos: sink.Pos{Epoch: a.Epoch - 1, Index: int64(len(prev) - 1)}, Offset: prev[len(prev)-1] + 1}
		}
		w.step(o, Flushed{Epoch: a.Epoch, Tail: tail})
	case Prepare:
		w.prepare(o, a.Epoch)
	case Journal:
		if !w.inTxn(o, a.Epoch) {
			w.step(o, Failed{Err: errFenced})
			return
		}
		t := &w.txns[a.Epoch&1]
		t.rec = a.Record
		for _, v := range a.Verdicts {
			t.letters = append(t.letters, v.Payload.(int64))
		}
		w.step(o, Journaled{Epoch: a.Epoch})
	case Offsets:
		w.step(o, OffsetsSent{Epoch: a.Epoch})
	case End:
		w.end(o, a.Epoch)
	case Commit:
		for _, p := range a.Items {
			w.commitStaged(p)
		}
		if w.lost(o) {
			o.todo = append(o.todo, a) // the committer asks again
			return
		}
		w.step(o, Committed(a))
	case Confirm:
		for pos := range w.verdict {
			if c := a.Cursors["rows"]; c != nil && !c.Pos.Before(pos) {
				delete(w.verdict, pos)
			}
		}
	case Over, Publish, Trim:
	}
}

func stagedID(attempt, epoch int64) string { return fmt.Sprintf("%d/%d", attempt, epoch) }

func (w *world) prepare(o *owner, e int64) {
	if len(o.fill[e]) == 0 {
		w.step(o, Prepared{Epoch: e})
		return
	}
	id := stagedID(o.m.attempt, e)
	if w.rules.commitEarly {
		w.db = append(w.db, o.fill[e]...)
		w.state[id] = 2
	} else if w.state[id] == 0 {
		w.state[id] = 1
	}
	w.staged[id] = o.fill[e]
	if w.lost(o) {
		w.step(o, Failed{Err: errors.New("lost answer to prepare")})
		return
	}
	w.step(o, Prepared{Epoch: e, Committables: []sink.Committable{{Sink: "db", Data: []byte(id)}}})
}

func (w *world) commitStaged(p journal.Pending) {
	id := string(p.Data)
	switch w.state[id] {
	case 1:
		w.db = append(w.db, w.staged[id]...)
		w.state[id] = 2
	case 2:
	default:
		w.fail("decided work %s is lost: state %d", id, w.state[id])
	}
	if _, ok := w.decidedBy(p.Epoch); !ok {
		w.fail("%s committed before epoch %d was decided", id, p.Epoch)
	}
}

func (w *world) decidedBy(e int64) (*journal.Record, bool) {
	for _, r := range w.journal {
		if r.Epoch >= e {
			return r, true
		}
	}
	return nil, false
}

func (w *world) sweep(o *owner, a Sweep) {
	for id, st := range w.state {
		var attempt, e int64
		if _, err := fmt.Sscanf(id, "%d/%d", &attempt, &e); err != nil {
			w.fail("%v", err)
		}
		mine := attempt < o.m.attempt || (w.rules.sweepAll && attempt != o.m.attempt)
		listed := slices.ContainsFunc(a.Keep, func(p journal.Pending) bool { return string(p.Data) == id })
		if st == 1 && mine && !listed {
			w.state[id] = 3
		}
	}
}

func (w *world) end(o *owner, e int64) {
	t := &w.txns[e&1]
	if !w.inTxn(o, e) || t.rec == nil {
		w.step(o, Failed{Err: errFenced})
		return
	}
	if w.rules.noPending {
		t.rec.Pending = slices.DeleteFunc(t.rec.Pending, func(p journal.Pending) bool { return p.Epoch != e })
	}
	w.journal = append(w.journal, t.rec)
	w.out = append(w.out, t.outs...)
	if len(t.outs) > 0 {
		w.decided[e] = t.outs
	}
	for _, l := range t.letters {
		w.letters[l]++
	}
	*t = txn{owner: o.id}
	if w.lost(o) {
		w.step(o, Failed{Err: errors.New("lost answer to EndTxn")})
		return
	}
	w.step(o, Decided{Epoch: e})
}

// check is the promise.
func (w *world) check() error {
	want, rows := []int64{}, []int64{}
	for i := range int64(walkRecords) {
		want = append(want, i)
		if i != 3 {
			rows = append(rows, i)
		}
	}
	if !slices.Equal(w.out, want) {
		w.fail("output %v, want %v", w.out, want)
	}
	if !slices.Equal(w.db, want) {
		w.fail("staging sink %v, want %v", w.db, want)
	}
	if !slices.Equal(w.rows, rows) {
		w.fail("outbox sink %v, want %v", w.rows, rows)
	}
	if w.letters[3] != 1 || len(w.letters) != 1 {
		w.fail("dead letters %v, want one of record 3", w.letters)
	}
	for id, st := range w.state {
		if st == 1 {
			w.fail("staged work %s was left behind", id)
		}
	}
	return w.err
}
