package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"exactly/internal/broker"
	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/internal/mutation"
	"exactly/internal/outbox"
	"exactly/sink"
	"exactly/step"
)

// attempt is one ownership of a task: an event loop around one epoch.Machine.
// Its fields belong to the goroutine of live, except where noted.
type attempt struct {
	s    *supervisor
	w    *Worker
	task int32
	log  *slog.Logger

	m      *epoch.Machine
	blank  bool        // the end of a generation that has no journal
	early  epoch.Event // the journal, read too early: only with a broken rule
	prod   [2]*broker.Producer
	events chan epoch.Event // from everything that runs beside the loop
	wg     sync.WaitGroup
	over   error // set by the Over action

	// reading
	plain  bool // of the at-least-once loop: the machine idles
	chain  step.Chain
	reader *broker.Reader
	chunks chan chunk
	chunk  chunk
	pos    positions
	moved  bool // the position is ahead of what the last epoch said

	// the open epochs, by number
	open       map[int64]*openEpoch
	lastTail   journal.Tail // as of the last flushed epoch
	outPos     sink.Pos     // of the last outbox record that was produced
	outBytes   int64
	lastClosed time.Time // of the last barrier
	lastEnded  time.Time // of the last decision
	running    time.Time // since when the takeover is done
	barriers   int       // of this attempt

	// sinks
	routers  []router
	stagings []*staging
	runners  []*runner
	tail     *outbox.Tail
	cursors  map[string]journal.Cursor
	trimmer  *trimmer

	stopping   bool
	stopBefore time.Time
	full       bool // an outbox limit is reached
	outs       scratch
}

func newAttempt(s *supervisor) *attempt {
	w := s.w
	a := &attempt{
		s: s, w: w, task: s.task,
		log:    w.c.Log.With("pipeline", w.c.Pipeline, "task", s.task),
		events: make(chan epoch.Event, 64),
		chunks: make(chan chunk),
		open:   map[int64]*openEpoch{}, cursors: map[string]journal.Cursor{},
		chain: w.c.NewChain(),
	}
	cfg := epoch.Config{
		Incarnation: w.meta.Incarnation, Pipeline: w.c.Pipeline, Generation: w.meta.Generation, Task: s.task,
		Worker: w.c.Worker, Staging: len(w.stagingSinks()) > 0, Seal: w.seal,
	}
	for _, o := range w.outboxSinks() {
		cfg.Outbox = append(cfg.Outbox, o.Name)
	}
	a.m = epoch.New(cfg)
	return a
}

func (a *attempt) took() time.Time { return a.running }

// live runs the attempt until it is over, or until a graceful stop is done.
func (a *attempt) live(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		a.wg.Wait()
		a.close(err)
	}()
	if err := a.producers(ctx); err != nil {
		return err
	}
	for _, p := range a.prod {
		a.wg.Go(func() { p.Warm(ctx) })
	}
	for _, s := range a.w.c.Sinks {
		if w, ok := s.Sink.(sink.Warmer); ok {
			owner := a.owner(s.Name)
			a.wg.Go(func() { w.Warm(ctx, owner) })
		}
	}
	if err := a.s.prove(ctx); err != nil {
		return err
	}
	a.step(ctx, epoch.Start{})
	return a.blame(ctx, a.loop(ctx))
}

// blame looks twice at an error that would stop the process or count as a
// failure. To a zombie that does not know yet that it is one, what its successor
// did looks like damage: marks beyond everything that it knows as decided, an
// outbox that is trimmed.
func (a *attempt) blame(ctx context.Context, err error) error {
	if err == nil || judge(err) == retake || a.m.Attempt() == 0 || ctx.Err() != nil {
		return err
	}
	lim, cancel := a.limited(ctx)
	defer cancel()
	if r, rerr := a.w.lastRecord(lim, a.task); rerr == nil && r != nil && r.Attempt > a.m.Attempt() {
		return fmt.Errorf("%w; what it met: %v", epoch.ErrDisturbed, err)
	}
	return err
}

func (a *attempt) producers(ctx context.Context) (err error) {
	for i := range a.prod {
		if err := a.producer(ctx, epoch.Producer(i)); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) producer(ctx context.Context, i epoch.Producer) (err error) {
	lane := []broker.Lane{broker.LaneA, broker.LaneB}[i]
	a.prod[i], err = broker.NewProducer(a.w.base(), broker.ProducerConfig{
		TransactionalID: a.w.names.TxnID(a.task, lane), Group: a.w.names.Group(),
		Journal: a.w.names.Journal(), Partition: a.task,
		Timeout: a.w.c.Epoch.TransactionTimeout(), V2: a.w.feat.TransactionVersion >= 2,
		BatchBytes: a.w.limits.MaxBatch, Linger: a.w.c.Epoch.linger(),
		OnError: func(err error) { a.post(ctx, epoch.Failed{Err: err}) },
	})
	return err
}

// loop blocks for nothing but its own channels.
func (a *attempt) loop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	renew := time.NewTicker(a.w.c.RenewEvery)
	defer renew.Stop()
	stop := a.s.stop
	for {
		a.drain(ctx)
		if a.over != nil {
			return a.over
		}
		if a.stopping && a.stopped() {
			return nil
		}
		if a.fill(ctx) {
			continue
		}
		timer.Reset(a.until())
		var chunks chan chunk
		if a.wantsChunk() {
			chunks = a.chunks
		}
		select {
		case ev := <-a.events:
			a.step(ctx, ev)
		case c := <-chunks:
			a.take(ctx, c)
		case <-timer.C:
			a.tick(ctx)
		case <-renew.C:
			if mutation.On(mutation.RenewByInit) {
				a.renewByInit(ctx)
				continue
			}
			a.step(ctx, epoch.Renew{})
		case <-a.s.changed:
			a.addPartitions(ctx)
		case <-stop:
			stop = nil
			a.stopping, a.stopBefore = true, time.Now().Add(a.s.within)
			a.step(ctx, epoch.Stop{})
			a.tick(ctx)
		case <-ctx.Done():
			return errLost
		}
	}
}

// renewByInit is what the protocol forbids: an id is taken back without a claim.
func (a *attempt) renewByInit(ctx context.Context) {
	if !a.m.Quiet() {
		return
	}
	next := epoch.Of(a.m.Ended() + 1)
	a.prod[next].Close()
	if err := a.producer(ctx, next); err == nil {
		_ = a.prod[next].Init(ctx)
	}
}

// drain handles what has been reported, so that commits and confirmations go
// before new input.
func (a *attempt) drain(ctx context.Context) {
	for a.over == nil {
		select {
		case ev := <-a.events:
			a.step(ctx, ev)
		default:
			return
		}
	}
}

// step feeds the machine and carries out what it answers.
func (a *attempt) step(ctx context.Context, ev epoch.Event) {
	switch ev := ev.(type) {
	case epoch.Flushed:
		a.lastTail = ev.Tail
	case epoch.Applied:
		a.cursors[ev.Sink] = ev.Cursor
	case epoch.Staged:
		a.cursors[ev.Sink] = ev.Cursor
	}
	acts := slices.Clone(a.m.Step(ev))
	if a.w.c.Trace != nil {
		a.w.c.Trace(Step{Incarnation: a.w.meta.Incarnation, Generation: a.w.meta.Generation, Task: a.task, Owner: a, Event: ev, Actions: acts, Held: a.held()})
	}
	for _, act := range acts {
		a.carryOut(ctx, act)
	}
	for _, r := range a.runners {
		r.canStage.Store(r.stages && a.m.CanStage(r.name))
	}
	if (a.m.Dirty() || a.stopping) && a.m.Open() == 0 && !time.Now().Before(a.due()) {
		a.tick(ctx)
	}
}

func (a *attempt) held() (h Held) {
	h.Produced = a.produced()
	if a.tail != nil {
		h.Handover, h.Epochs = a.tail.Held()
	}
	return h
}

// post reports from beside the loop.
func (a *attempt) post(ctx context.Context, ev epoch.Event) {
	select {
	case a.events <- ev:
	case <-ctx.Done():
	}
}

// beside runs f next to the loop and posts its event, or its failure.
func (a *attempt) beside(ctx context.Context, f func(ctx context.Context) (epoch.Event, error)) {
	a.wg.Go(func() {
		ev, err := f(ctx)
		if err != nil {
			ev = epoch.Failed{Err: err}
		}
		if ev != nil {
			a.post(ctx, ev)
		}
	})
}

func (a *attempt) hit(ctx context.Context, p failpoint.Point, n int64) error {
	return a.w.c.Failpoints.Hit(ctx, p, a.task, n)
}

// due is when the next barrier is to be.
func (a *attempt) due() time.Time {
	if n := a.m.Open(); n != 0 {
		ep := a.open[n]
		if ep.full(a.w.c.Epoch) || a.stopping {
			return time.Time{}
		}
		due := ep.began.Add(a.interval())
		if p := a.lastEnded.Add(a.w.c.Epoch.MinPause); p.After(due) {
			due = p
		}
		return due
	}
	if a.stopping {
		return time.Time{}
	}
	return a.lastClosed.Add(a.interval())
}

// firstInterval bounds the first epoch of an attempt: what it reads has waited
// for the takeover already.
const firstInterval = 10 * time.Millisecond

func (a *attempt) interval() time.Duration {
	if a.barriers == 0 {
		return min(a.w.c.Epoch.Interval, firstInterval)
	}
	return a.w.c.Epoch.Interval
}

// idlePoll is how often an idle loop looks at limits and clocks.
const idlePoll = 250 * time.Millisecond

// throttlePoll is how soon a loop whose producer is behind looks again.
const throttlePoll = 2 * time.Millisecond

func (a *attempt) until() time.Duration {
	d := idlePoll
	if a.m.Open() != 0 || a.m.Dirty() {
		d = min(d, time.Until(a.due()))
	}
	if a.throttled() {
		d = min(d, throttlePoll)
	}
	return max(d, 0)
}

// tick makes the barrier if it is due, and looks at limits.
func (a *attempt) tick(ctx context.Context) {
	if !a.m.Running() || a.over != nil {
		return
	}
	a.checkLimits(ctx)
	if a.moved && a.m.Open() == 0 && time.Since(a.lastClosed) > time.Second {
		a.moved = false
		a.step(ctx, epoch.Moved{})
	}
	if time.Now().Before(a.due()) || (a.m.Open() == 0 && !a.m.Dirty()) {
		return
	}
	a.lastClosed, a.moved = time.Now(), false
	a.barriers++
	a.step(ctx, epoch.Barrier{Sources: a.pos.snapshot()})
}

// stopped reports whether a graceful stop has nothing left to wait for: every
// epoch decided and confirmed, every sink that keeps up at the end of its
// outbox. Past its time limit it waits for decisions only.
func (a *attempt) stopped() bool {
	if !a.m.Running() {
		return time.Now().After(a.stopBefore)
	}
	if !a.m.Quiet() {
		return time.Now().After(a.stopBefore.Add(a.w.c.StopWithin))
	}
	if time.Now().After(a.stopBefore) {
		return true
	}
	for _, r := range a.runners {
		if (!r.stages || a.w.seal) && a.cursors[r.name].Pos != a.lastTail.Pos {
			return false
		}
		if a.w.settles() && r.stages && !r.swept.Load() {
			return false // nobody may come to sweep after a command
		}
	}
	return a.m.Pending() == 0
}

// close releases everything of the attempt. Transactions that were begun and
// not ended are aborted where no takeover follows at once, so that readers need
// not wait for the time-out; elsewhere the next fence does it.
func (a *attempt) close(err error) {
	if a.reader != nil {
		a.reader.Close()
	}
	for _, r := range a.runners {
		r.close(a.log)
	}
	for _, st := range a.stagings {
		st.close(a.log)
	}
	if len(a.open) > 0 && (err == nil || judge(err) != retake) {
		a.abortOpen()
	}
	for _, p := range a.prod {
		if p != nil {
			p.Close()
		}
	}
}

func (a *attempt) abortOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for n, ep := range a.open {
		if ep.ending.Load() {
			continue // its outcome may be a commit
		}
		if err := a.prod[epoch.Of(n)].Abort(ctx); err != nil {
			a.log.Warn("abort_failed", "epoch", n, "err", err)
		}
	}
}
