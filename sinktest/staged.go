package sinktest

import (
	"context"
	"errors"
	"fmt"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// stagedWork opens a process and stages n records through it, decided in name
// only: the lane's journal does not know of them.
func stagedWork(w *world, l *lane, prefix string, n int) (*process, work) {
	w.t.Helper()
	l.feed(numbered(prefix, 0, n))
	p := l.started()
	wk, err := p.stage()
	w.must(err, "stage")
	if len(wk.cs) == 0 {
		w.t.Fatalf("staging %d records gave no committable", n)
	}
	return p, wk
}

func invisible(w *world) {
	l := w.lane(baseOwner())
	for i := range 3 {
		before := len(w.target.Read(w.t))
		p, wk := stagedWork(w, l, fmt.Sprintf("e%d", i), 5)
		w.sees(before, "before the decision")
		w.must(p.decide(wk), "decide")
		w.sees(before, "before the commit")
		w.must(p.commit(), "commit")
		w.check()
	}
}

// commitTwice commits again: at once, later, in another process and after
// newer work.
func commitTwice(w *world) {
	l := w.lane(baseOwner())
	p, wk := stagedWork(w, l, "a", 5)
	w.must(p.decide(wk), "decide")
	cs := l.j.Pending
	for range 3 {
		w.must(p.committer().Commit(w.t.Context(), cs), "commit")
		w.check()
	}
	w.must(p.commit(), "commit")
	l.feed(numbered("b", 0, 3))
	w.must(p.advance(), "advance")
	other := l.started()
	w.must(other.committer().Commit(w.t.Context(), cs), "commit by another process")
	w.check()
	l.feed(numbered("c", 0, 3))
	w.must(other.advance(), "advance")
	w.must(other.committer().Sweep(w.t.Context(), nil), "sweep")
	w.must(other.committer().Commit(w.t.Context(), cs), "commit after a sweep")
	w.finish()
}

// commitOfLost: work that is gone and was never committed is not success.
func commitOfLost(w *world) {
	l := newLane(w, baseOwner())
	p, wk := stagedWork(w, l, "a", 5)
	w.must(p.committer().Abort(w.t.Context(), wk.cs), "abort")
	for i := range 2 {
		if i == 1 {
			p = l.started()
		}
		err := p.committer().Commit(w.t.Context(), wk.cs)
		if !errors.Is(err, sink.ErrLost) {
			w.t.Errorf("commit of work that is gone: got %v, want ErrLost", err)
		}
		if err != nil && sink.Classify(err) != sink.ClassFatal {
			w.t.Errorf("ErrLost is classed %v, want fatal", sink.Classify(err))
		}
	}
	w.sees(0, "after the abort")
}

// journalAheadOfMarks: the journal knows work as committed of which the target does
// not, so that the target lost data.
func journalAheadOfMarks(w *world) {
	l := w.lane(baseOwner())
	p, wk := stagedWork(w, l, "a", 5)
	w.must(p.decide(wk), "decide")
	w.must(p.commit(), "commit")
	known := l.j.Committed

	lost, gone := stagedWork(w, l, "b", 5)
	w.must(lost.committer().Abort(w.t.Context(), gone.cs), "abort")
	gone.cs[0].Epoch = max(gone.epoch, 1)
	l.j.Committed = &gone.cs[0]
	if _, err := l.open(nil); !errors.Is(err, sink.ErrLedgerBehind) {
		w.t.Errorf("open with a journal that knows more as committed: got %v, want ErrLedgerBehind", err)
	}
	l.j.Committed = known
	w.finish()

	w.target.New = w.subject.Open(w.t, w.variant).New
	if _, err := l.open(nil); !errors.Is(err, sink.ErrLedgerBehind) {
		w.t.Errorf("open an empty target with a journal that saw data in it: got %v, want ErrLedgerBehind", err)
	}
}

func abortTwice(w *world) {
	l := newLane(w, baseOwner())
	p, wk := stagedWork(w, l, "a", 5)
	for range 2 {
		w.must(p.committer().Abort(w.t.Context(), wk.cs), "abort")
		w.sees(0, "after the abort")
	}
	w.must(l.started().committer().Abort(w.t.Context(), wk.cs), "abort by another process")
	w.sees(0, "after the abort")
}

// sweep: only what older attempts of exactly this owner staged and keep does
// not list may go.
func sweep(w *world) {
	for _, spared := range []string{"same attempt", "later attempt"} {
		w.again(spared, func(w *world) { sweepSparing(w, spared) })
	}
}

func sweepSparing(w *world, spared string) {
	l := newLane(w, baseOwner())
	l.feed(numbered("kept", 0, 2))
	first, orphan := l.stages() // undecided, so the next attempt stages it again
	second, kept := l.stages()
	w.must(second.decide(kept), "decide")
	keep := append([]sink.Committable(nil), l.j.Pending...)
	l.feed(numbered("alive", 0, 2))
	sweeper, alive := l.stages()
	stager := sweeper // of what is alive
	if spared == "later attempt" {
		w.must(sweeper.committer().Abort(w.t.Context(), alive.cs), "abort")
		stager, alive = l.stages()
	}
	type neighbour struct {
		name string
		p    *process
		cs   []sink.Committable
	}
	var neighbours []neighbour
	for name, id := range lookalikes() {
		other := newLane(w, id)
		other.feed(numbered(name, 0, 2))
		p, wk := other.stages()
		neighbours = append(neighbours, neighbour{name, p, wk.cs})
	}
	owners := []sink.Owner{second.owner, stager.owner}
	for _, n := range neighbours {
		owners = append(owners, n.p.owner)
	}
	observed(w, sweeper, owners, first.owner)
	for range 2 {
		w.must(sweeper.committer().Sweep(w.t.Context(), keep), "sweep")
	}
	rolledBack := second.ended.rolledBack + sweeper.ended.rolledBack + stager.ended.rolledBack
	commit := sweeper.committer().Commit
	if err := commit(w.t.Context(), orphan.cs); !errors.Is(err, sink.ErrLost) {
		w.t.Errorf("an orphan of an older attempt after the sweep: got %v, want ErrLost", err)
	}
	w.sees(0, "after the sweep")
	if err := commit(w.t.Context(), keep); err != nil {
		w.t.Errorf("the sweep took work that it was to keep: %v", err)
	}
	if err := commit(w.t.Context(), alive.cs); err != nil {
		w.t.Errorf("the sweep took work of the %s: %v", spared, err)
	}
	// Each was ended once, by the one who is told.
	if _, tells := sweeper.sink.(sink.Observer); tells && (rolledBack == 0 || sweeper.ended.committed != len(keep)+len(alive.cs)) {
		w.t.Errorf("told of %d rolled back and %d committed, want the orphan and %d", rolledBack, sweeper.ended.committed, len(keep)+len(alive.cs))
	}
	for _, n := range neighbours {
		if err := n.p.committer().Commit(w.t.Context(), n.cs); err != nil {
			w.t.Errorf("the sweep took work of %s: %v", n.name, err)
		}
	}
}

// sweepOlderGeneration: what a zombie of an older generation staged goes, whatever
// its task.
func sweepOlderGeneration(w *world) {
	old := newLane(w, baseOwner())
	old.feed(numbered("old", 0, 2))
	zombie, orphan := old.stages()
	next := newLane(w, baseOwner().with(func(o *sink.Owner) { o.Generation, o.Task = o.Generation+1, o.Task+1 }))
	next.feed(numbered("new", 0, 2))
	p, wk := next.stages()
	for range 2 {
		w.must(p.committer().Sweep(w.t.Context(), nil), "sweep")
	}
	if err := zombie.committer().Commit(w.t.Context(), orphan.cs); !errors.Is(err, sink.ErrLost) {
		w.t.Errorf("work of an older generation after the sweep: got %v, want ErrLost", err)
	}
	if err := zombie.committer().Sweep(w.t.Context(), nil); err != nil {
		w.t.Logf("the zombie's sweep: %v", err)
	}
	if err := p.committer().Commit(w.t.Context(), wk.cs); err != nil {
		w.t.Errorf("a sweep took work of this or a later generation: %v", err)
	}
}

// stages takes over without recovery and sweep, and stages what there is.
func (l *lane) stages() (*process, work) {
	l.w.t.Helper()
	p, err := l.open(nil)
	l.w.must(err, "open")
	wk, err := p.stage()
	l.w.must(err, "stage")
	if len(wk.cs) == 0 {
		l.w.t.Fatalf("staging records gave no committable")
	}
	for i := range wk.cs {
		wk.cs[i].Epoch = max(wk.epoch, 1)
	}
	return p, wk
}

// lateZombie stages after its successor has swept. Its work may hold locks
// until it is swept, and must never be seen.
func lateZombie(w *world) {
	l := w.lane(baseOwner())
	zombie := l.started()
	l.feed(numbered("a", 0, 5))
	p := l.started()
	if _, err := zombie.stage(); err != nil {
		w.t.Logf("the zombie was refused: %v", err)
	}
	w.sees(0, "after a zombie staged")
	err := p.advance()
	if err != nil && sink.Classify(err) == sink.ClassTransient { // a lock wait timed out
		p = l.started()
		err = p.advance()
	}
	w.must(err, "the owner advances")
	w.check()
	w.must(p.committer().Sweep(w.t.Context(), nil), "sweep")
	w.finish()
}

// raceOfCommits lets two processes finish one work at once, each round with a
// work that is committed by nobody yet.
func raceOfCommits(w *world) {
	l := w.lane(baseOwner())
	other := l.started()
	p := l.started()
	for round := range w.subject.Rounds {
		l.feed(numbered("r", round*2, 2))
		wk, err := p.stage()
		w.must(err, "stage")
		w.must(p.decide(wk), "decide")
		cs := l.j.Pending
		ok := w.race(
			func() error { return other.committer().Commit(w.t.Context(), cs) },
			func() error {
				if round%2 == 0 { // a sweep that must keep it
					if err := p.committer().Sweep(w.t.Context(), cs); err != nil {
						return err
					}
				}
				return p.committer().Commit(w.t.Context(), cs)
			},
			round)
		if !ok {
			return
		}
		w.must(p.commit(), "confirm")
	}
	w.check()
}

// nothingToStage: an epoch without records gives no committable.
func nothingToStage(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	var cs []sink.Committable
	w.must(p.call(func(ctx context.Context) (err error) {
		if p.staging != nil {
			cs, err = p.staging.Prepare(ctx, 1)
			return err
		}
		wk, err := p.stageTaken()
		cs = wk.cs
		return err
	}), "stage nothing")
	if len(cs) > 0 {
		w.t.Errorf("nothing to stage gave %d committables", len(cs))
	}
	for name, f := range map[string]func(context.Context, []sink.Committable) error{
		"commit": p.committer().Commit, "abort": p.committer().Abort, "sweep": p.committer().Sweep,
	} {
		if err := f(w.t.Context(), nil); err != nil {
			w.t.Errorf("%s of nothing: %v", name, err)
		}
	}
}

// stageFails: a Stage that fails is called again by the same process, as the
// engine does for as long as a store is away. Nothing may be lost over it.
func stageFails(w *world) {
	for _, at := range []failpoint.Point{failpoint.SinkStageBefore, failpoint.SinkStageAfter} {
		w.again(string(at), func(w *world) { stageFailsAt(w, at) })
	}
}

func stageFailsAt(w *world, at failpoint.Point) {
	l := w.lane(baseOwner())
	fails := 2
	p, err := l.start(func(_ context.Context, p failpoint.Point, _ int32, _ int64) error {
		if p == at && fails > 0 {
			fails--
			return errLost
		}
		return nil
	})
	w.must(err, "start")
	for round := range 3 {
		l.feed(numbered(fmt.Sprintf("f%d", round), 0, 3))
		wk, err := p.stage()
		for try := 0; err != nil && try < 5; try++ {
			if c := sink.Classify(err); c != sink.ClassTransient {
				w.t.Fatalf("a Stage that fails is classed %v: %v", c, err)
			}
			wk, err = p.stageTaken()
		}
		w.must(err, "stage again")
		w.must(p.decide(wk), "decide")
		w.must(p.commit(), "commit")
	}
	if fails > 0 {
		w.t.Errorf("the sink hits no fail point %s", at)
	}
	w.finish()
}
