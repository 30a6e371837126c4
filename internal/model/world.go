package model

import (
	"errors"
	"fmt"
	"slices"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// What becomes of staged work.
const (
	none byte = iota
	staged
	done
	undone
	gone
)

// world is the relation with everything around it: workers, broker, sinks.
type world struct {
	b     Bounds
	id    int32
	tasks []relation // one per generation
	ws    []worker

	timeouts, losses int

	// The broker's side of the records.
	out     int                   // records decided, in order
	at      [maxRecords + 1]int64 // of Outbox: the epoch that decided a record
	letters int                   // dead letters decided
	inside  [2]int                // of Outbox: dead letters in the open transactions
	meta    int                   // the current generation
	start   int                   // records before generation 1

	// The sinks' side. Staged work is named by generation, attempt, and epoch or
	// last record.
	work   [2][maxAttempts + 1][maxRecords + 1]byte
	shown  [maxRecords + 1]int // of the staging or object sink, by record
	rows   [maxRecords + 1]int // of the ledger sink
	ledger int
	kept   bool // the ledger keeps the verdict on the refused record
}

// worker is an owner and what it has beside the relation.
type worker struct {
	id    int
	gen   int
	seal  bool
	final bool // it takes over again for as long as it must
	dead  bool
	ended bool

	early   *epoch.Read
	count   int // a step's own progress: recovered items, swept attempts
	renewed bool
	again   int // takeovers after the first

	src   int // records taken from the source
	dirty bool
	place int  // of the ledger sink: through where it has applied, in this worker's view
	seen  bool // of CURSOR_EARLY
	apart []epoch.Verdict
}

// move is something that can happen next.
type move struct {
	name string
	do   func(*world) error
}

func newWorld(b Bounds) (*world, error) {
	w := &world{b: b}
	gens := 1
	if b.Kind == Generations {
		gens = 2
	}
	for g := range gens {
		r := relation{cfg: Config{Incarnation: "i", Generation: int32(g + 1), Broker: true, Staging: b.Kind != Outbox}, rules: w.rules()}
		w.tasks = append(w.tasks, r)
	}
	add := func(n, gen int, seal bool) {
		for range n {
			w.ws = append(w.ws, worker{id: len(w.ws) + 1, gen: gen, seal: seal})
		}
	}
	if b.Kind == Generations {
		add(b.Workers, 0, false)
		add(b.Bumps, 0, true)
		w.ws[len(w.ws)-1].final = true
		add(b.Next, 1, false)
	} else {
		add(b.Workers+1, 0, false)
	}
	w.ws[len(w.ws)-1].final = true
	for i := range w.ws {
		w.reset(i)
	}
	if b.Old {
		return w, w.firstDecided()
	}
	return w, nil
}

// firstDecided lets the first worker come so far that its first epoch is
// decided and not confirmed.
func (w *world) firstDecided() error {
	for w.out == 0 {
		ms := w.workerMoves(nil, 0)
		if err := ms[0].do(w); err != nil {
			return err
		}
		if _, _, o := w.of(0); o.phase == running && o.next > 1 {
			return errors.Join(w.prepare(0, 1), w.journal(0, 1), w.end(0, 1))
		}
	}
	return nil
}

func (w *world) broken(rule string) bool { return w.b.Break == rule }

// rules are what a switch means to the relation.
func (w *world) rules() rules {
	return rules{
		lax: w.b.Lax, noClaim: w.broken("NO_CLAIM"), staleRead: w.broken("READ_EARLY") || w.broken("CARRY_EARLY"),
		noChain: w.broken("NO_CHAIN"), noPending: w.broken("NO_PENDING") || w.broken("ITEM_LOST"),
		trimAny: w.broken("TRIM_TAIL") || w.broken("TRIM_EARLY") || w.broken("TRIM_RANGE"),
		early:   w.broken("ITEM_EARLY"), noSeal: w.broken("SEAL_UNSEEN"), anyCursor: w.broken("CURSOR_LOST"),
	}
}

func (w *world) clone() *world {
	c := *w
	c.tasks = slices.Clone(w.tasks)
	for i := range c.tasks {
		r := &c.tasks[i]
		r.log = slices.Clip(r.log)
		r.owners = slices.Clone(r.owners)
		for j, o := range r.owners {
			n := *o
			n.pending = slices.Clone(o.pending)
			r.owners[j] = &n
		}
	}
	c.ws = slices.Clone(w.ws)
	return &c
}

// reset makes worker i a new attempt.
func (w *world) reset(i int) {
	old := w.ws[i]
	w.ws[i] = worker{id: old.id, gen: old.gen, seal: old.seal, final: old.final, dead: old.dead, ended: old.ended, renewed: old.renewed, again: old.again}
	r := &w.tasks[old.gen]
	o := newOwner(old.id)
	for j := range r.owners {
		if r.owners[j].id == old.id {
			r.owners[j] = o
			return
		}
	}
	r.owners = append(r.owners, o)
}

func (w *world) of(i int) (*worker, *relation, *owner) {
	a := &w.ws[i]
	r := &w.tasks[a.gen]
	return a, r, r.owner(a.id)
}

// lost: worker i has failed. The final one begins anew.
func (w *world) lost(i int) error {
	a, r, o := w.of(i)
	if err := r.event(o, epoch.Failed{}); err != nil {
		return err
	}
	if err := r.action(o, epoch.Over{}); err != nil {
		return err
	}
	w.reset(i)
	if !a.final {
		a.dead = a.again == w.b.Retakes
		a.again = min(a.again+1, w.b.Retakes)
	}
	return nil
}

// stop ends worker i for good.
func (w *world) stop(i int, reached bool) {
	w.reset(i)
	w.ws[i].dead, w.ws[i].ended = true, reached
}

// ended: the last worker has come to its end.
func (w *world) ended() bool { return w.ws[len(w.ws)-1].ended }

// moves are what can happen in this state.
func (w *world) moves() []move {
	var ms []move
	for i := range w.ws {
		if !w.ws[i].dead {
			ms = w.workerMoves(ms, i)
		}
	}
	for g := range w.tasks {
		for _, p := range []epoch.Producer{epoch.A, epoch.B} {
			if w.timeouts < w.b.Timeouts && w.tasks[g].prods[p].open {
				ms = append(ms, move{"the broker aborts on " + p.String(), func(w *world) error {
					w.timeouts++
					w.tasks[g].aborted(p)
					return nil
				}})
			}
		}
	}
	if w.losses < w.b.Losses {
		for att := 1; att <= maxAttempts; att++ {
			for k := 1; k <= w.b.Records; k++ {
				if w.work[0][att][k] == staged {
					ms = append(ms, move{fmt.Sprintf("the store loses %d/%d", att, k), func(w *world) error {
						w.losses++
						w.work[0][att][k] = gone
						return nil
					}})
				}
			}
		}
	}
	return ms
}

func (w *world) workerMoves(ms []move, i int) []move {
	_, _, o := w.of(i)
	add := func(name string, do func(*world, int) error) {
		ms = append(ms, move{fmt.Sprintf("worker %d: %s", w.ws[i].id, name), func(w *world) error { return do(w, i) }})
	}
	if o.phase < running {
		w.takeoverMoves(add, i)
		return ms
	}
	if w.b.Kind == Outbox {
		w.outboxMoves(add, i)
	} else {
		w.stagingMoves(add, i)
	}
	return ms
}

// tell and ask are steps of the relation in a row.
func tell(r *relation, o *owner, es ...epoch.Event) error {
	for _, e := range es {
		if err := r.event(o, e); err != nil {
			return err
		}
	}
	return nil
}

func ask(r *relation, o *owner, as ...epoch.Action) error {
	for _, a := range as {
		if err := r.action(o, a); err != nil {
			return err
		}
	}
	return nil
}

// mine: worker i may still write to the transaction of epoch n.
func (w *world) mine(i int, n int64) bool {
	a, r, _ := w.of(i)
	p := r.prods[epoch.Of(n)]
	return p.owner == a.id && p.open
}

func (w *world) sources(n int) []journal.Source {
	return []journal.Source{{Topic: "raw", Partitions: []journal.Partition{{Offset: int64(n)}}}}
}

// pos is the outbox position of a record; of an undecided one by its epoch.
func (w *world) cursor(n int) journal.Cursor {
	c := journal.Cursor{Offset: int64(n)}
	if n > 0 {
		c.Pos = sink.Pos{Epoch: w.at[n]}
	}
	return c
}
