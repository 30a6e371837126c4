package sinktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"exactly/sink"
)

// zombie: an older attempt, which knows nothing of its successor, applies or
// commits what it once was right to.
func zombie(w *world) {
	l := w.lane(baseOwner())
	owner := l.started()
	var stale []func() error
	for e := range 6 {
		l.feed(numbered("a", e*6, 6))
		stale = append(stale, owner.staleCall())
		owner = l.started()
		w.must(owner.advance(), "the new owner advances")
		for _, call := range stale {
			_ = call() // whatever it answers, it must not change anything
		}
		w.check()
	}
	// And side by side with the new owner, the newest call first.
	l.feed(numbered("a", 36, 30))
	stale = append(stale, owner.staleCall())
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 5 {
			for i := len(stale) - 1; i >= 0; i-- {
				_ = stale[i]()
			}
		}
	})
	w.mend(l)
	wg.Wait()
	w.finish()
}

// staleCall is a call with decided work that this process could make at any
// later time.
func (p *process) staleCall() func() error {
	p.l.w.t.Helper()
	ctx := p.l.w.t.Context()
	c := p.committer()
	if c == nil {
		b := p.l.batch(p.l.j.Confirmed, 1000)
		return func() error {
			_, err := p.outbox.Apply(ctx, b)
			return err
		}
	}
	wk, err := p.stage()
	p.l.w.must(err, "stage")
	p.l.w.must(p.decide(wk), "decide")
	cs := append([]sink.Committable(nil), p.l.j.Pending...)
	return func() error { return c.Commit(ctx, cs) }
}

// raceOfOwners lets two attempts apply the same batch at once. The newer has to
// succeed; the older is superseded, and a sink may fence it.
func raceOfOwners(w *world) {
	l := w.lane(baseOwner())
	older, newer := l.started(), l.started()
	for round := range w.subject.Rounds {
		l.feed(numbered("r", round*3, 3))
		batch := l.batch(l.j.Confirmed, 100)
		ok := w.race(
			func() error { return older.applies(batch) },
			func() error { return newer.applies(batch) },
			round)
		if !ok {
			return
		}
		w.must(l.confirm(l.end(), nil), "confirm")
	}
	w.check()
}

// applies carries one batch through, without refusals.
func (p *process) applies(b sink.Batch) error {
	res, err := p.outbox.Apply(p.l.w.t.Context(), b)
	switch {
	case len(res.Verdicts) > 0:
		return sink.Poison(res.Verdicts[0].Code, fmt.Errorf("attempt %d refuses records: %s", p.owner.Attempt, res.Verdicts[0].Reason))
	case err == nil && res.Through != b.Through:
		return fmt.Errorf("apply came to %s, want %s", res.Through, b.Through)
	}
	return err
}

// race runs the calls of two attempts at once, each again while its error is
// transient: the newer's until it succeeds, the older's while the newer is at it.
func (w *world) race(older, newer func() error, round int) bool {
	w.t.Helper()
	var first, second error
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer over.Store(true)
		second = repeat(newer, func() bool { return false })
	})
	wg.Go(func() { first = repeat(older, over.Load) })
	wg.Wait()
	if second != nil {
		w.t.Errorf("round %d, the newer attempt: %v", round, second)
	}
	if !mayAnswer(first) {
		w.t.Errorf("round %d, the older attempt: %v: %v", round, sink.Classify(first), first)
	}
	return !w.t.Failed()
}

// mayAnswer says what a superseded attempt may answer: see sink.OutboxTask and
// sink.Committer.
func mayAnswer(err error) bool {
	return err == nil || sink.Classify(err) != sink.ClassPoison && !errors.Is(err, sink.ErrLost)
}

// repeat makes a call again while its error is transient, unless enough says that
// this will do.
func repeat(call func() error, enough func() bool) (err error) {
	for range 50 {
		if err = call(); err == nil || sink.Classify(err) != sink.ClassTransient || enough() {
			return err
		}
	}
	return err
}

// foreignMark: the target belongs to another incarnation of the pipeline.
func foreignMark(w *world) {
	l := w.lane(baseOwner())
	l.feed(numbered("a", 0, 4))
	p := l.started()
	w.must(p.advance(), "advance")
	for _, task := range []int32{1, 2} { // its own mark, and that of a neighbour
		other := newLane(w, baseOwner().with(func(o *sink.Owner) {
			o.Incarnation, o.Task = "0badcafe0badcafe", task
		}))
		_, err := other.open(nil)
		if !errors.Is(err, sink.ErrForeignMark) {
			w.t.Errorf("task %d of another incarnation opens: got %v, want ErrForeignMark", task, err)
		}
		if err != nil && sink.Classify(err) != sink.ClassFatal {
			w.t.Errorf("ErrForeignMark is classed %v, want fatal", sink.Classify(err))
		}
	}
	w.finish()
}

// newLane is a lane that finish and check leave out.
func newLane(w *world, id identity) *lane {
	l := w.lane(id)
	w.lanes = w.lanes[:len(w.lanes)-1]
	return l
}

// lookalikes are owners whose names resemble the base owner's.
func lookalikes() map[string]identity {
	m := map[string]identity{}
	for name, f := range map[string]func(o *sink.Owner){
		"task 10":       func(o *sink.Owner) { o.Task = 10 },
		"task 11":       func(o *sink.Owner) { o.Task = 11 },
		"task 0":        func(o *sink.Owner) { o.Task = 0 },
		"payments":      func(o *sink.Owner) { o.Pipeline = "payments" },
		"pay-out":       func(o *sink.Owner) { o.Pipeline = "pay-out" },
		"sink out1":     func(o *sink.Owner) { o.Sink = "out1" },
		"sink ou":       func(o *sink.Owner) { o.Sink = "ou" },
		"generation 10": func(o *sink.Owner) { o.Generation = 10 },
		"generation 2":  func(o *sink.Owner) { o.Generation = 2 },
		"pipeline p_y":  func(o *sink.Owner) { o.Pipeline = "p-y" },
	} {
		m[name] = baseOwner().with(f)
	}
	return m
}

// otherOwners: each owner has a ledger of its own, however alike the names.
func otherOwners(w *world) {
	n := 0
	for name, id := range lookalikes() {
		l := w.lane(id)
		n++
		l.feed(numbered(fmt.Sprintf("o%d", n), 0, 3))
		p := l.started()
		w.must(p.advance(), name)
	}
	l := w.lane(baseOwner())
	l.feed(numbered("base", 0, 5))
	w.finish()
	w.finish()
}
