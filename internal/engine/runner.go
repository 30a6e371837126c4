package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/internal/outbox"
	"exactly/sink"
)

// runner applies decided records to one outbox sink of one task, at the sink's
// own pace: a lagging sink holds up neither the others nor the epochs.
type runner struct {
	a      *attempt
	name   string
	sink   sink.Outbox
	where  Filter // of the runner's goroutine
	check  Filter // of the loop: see attempt.emit
	stages bool   // it is an OutboxStager
	feed   *feed
	pend   []journal.Pending // decided work of earlier attempts, for the sweep
	swept  atomic.Bool       // that is done

	progress *progress
	follows  []*progress // of the sinks that it waits for

	canStage atomic.Bool // of a stager: its pending work is below the bound

	task    sink.OutboxTask // opened by run
	commits *committer
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	oldest  atomic.Int64 // EpochTime of the oldest entry not yet applied; 0: none

	batch   []sink.Entry // reused
	hints   []hint       // of a stager: where its unstaged entries begin
	held    []epoch.Verdict
	refused []sink.Pos // last verdicts of batches, not yet confirmed

	mu        sync.Mutex
	confirmed sink.Pos
	wake      chan struct{}
}

// hint is an outbox position and where to read what is behind it.
type hint struct {
	pos    sink.Pos
	offset int64
	bytes  int64
}

// The breaker opens after this many failures in a row, and lets one call try
// again after the pause.
const (
	breakerFailures = 5
	breakerPause    = 5 * time.Second
)

// stageEvery is how often a stager is asked for what has become ripe.
const stageEvery = 100 * time.Millisecond

func (a *attempt) openRunners(ctx context.Context, rec *journal.Record) {
	for _, s := range a.w.outboxSinks() {
		c := rec.Cursors[s.Name]
		r := &runner{
			a: a, name: s.Name, sink: s.Sink.(sink.Outbox), where: s.filter(),
			feed:      &feed{w: a.w, task: a.task, tail: a.tail, most: or(s.Sink.Features().Batch, feedRecords), pos: c.Pos, offset: c.Offset},
			pend:      forSink(rec.Pending, s.Name),
			confirmed: c.Pos, wake: make(chan struct{}, 1),
			stages: s.Sink.Features().Stages, check: s.filter(),
			hints:    []hint{{c.Pos, c.Offset, c.Bytes}},
			progress: newProgress(false),
		}
		r.commits = newCommitter(a, s.Name, nil)
		r.breaker = r.newBreaker()
		a.runners = append(a.runners, r)
	}
	for _, r := range a.runners {
		for _, name := range followed(r.sink) {
			r.follows = append(r.follows, a.progressOf(name))
		}
	}
	for _, r := range a.runners {
		owner := a.owner(r.name)
		owner.Fresh = rec.Cursors[r.name].Fresh
		a.wg.Go(func() {
			if err := r.run(ctx, owner); err != nil && ctx.Err() == nil {
				a.post(ctx, epoch.Failed{Err: fmt.Errorf("sink %s: %w", r.name, err)})
			}
		})
	}
}

func (r *runner) newBreaker() *gobreaker.TwoStepCircuitBreaker[any] {
	return gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: r.name, Timeout: breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			kind := BreakerClosed
			switch to {
			case gobreaker.StateOpen:
				kind = BreakerOpened
			case gobreaker.StateHalfOpen:
				return
			}
			r.a.w.emit(Event{Kind: kind, Task: r.a.task, Sink: r.name})
		},
	})
}

// maxRefusedBatches is how many batches with verdicts may be undecided.
const maxRefusedBatches = 8

// confirm tells what is decided as applied.
func (r *runner) confirm(pos sink.Pos) {
	r.mu.Lock()
	r.confirmed = pos
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *runner) confirmedPos() sink.Pos {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confirmed
}

func (r *runner) run(ctx context.Context, owner sink.Owner) error {
	defer r.feed.closeLag()
	if err := r.feed.begin(); err != nil {
		return err
	}
	var resume sink.Resume
	failures := 0
	err := patiently(ctx, func() error {
		task, at, err := r.sink.OpenOutbox(ctx, owner, r.feed.pos)
		if err == nil { // else there is nothing to close
			r.task, resume = task, at
		}
		return err
	}, func(err error) {
		r.a.failing(r.name)(err)
		if failures++; failures == breakerFailures { // what the breaker does once it is open
			r.a.w.emit(Event{Kind: BreakerOpened, Task: r.a.task, Sink: r.name})
		}
	})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if failures >= breakerFailures {
		r.a.w.emit(Event{Kind: BreakerClosed, Task: r.a.task, Sink: r.name})
	}
	if st, ok := r.task.(sink.OutboxStager); ok {
		r.commits.task = st
		r.a.wg.Go(func() { r.commits.run(ctx) })
		r.a.wg.Go(func() { r.sweep(ctx, st) })
	}
	if err := r.skip(ctx, resume); err != nil {
		return err
	}
	r.progress.reach(resume.Through)
	for {
		if r.stages && !r.canStage.Load() {
			if err := r.wait(ctx); err != nil {
				return err
			}
			continue
		}
		es, err := r.feed.next(ctx, r.pace())
		if err != nil {
			return err
		}
		if len(es) > 0 {
			r.oldest.Store(es[0].EpochTime)
			if es, err = r.led(ctx, es); err != nil {
				return err
			}
			if err := r.apply(ctx, es); err != nil {
				return err
			}
		}
		if r.feed.pos == r.a.tail.Head() {
			r.oldest.Store(0)
		}
		if err := r.stage(ctx); err != nil {
			return err
		}
	}
}

// wait lets a stager rest whose decided work cannot be committed: what it does
// not take in stays in the outbox.
func (r *runner) wait(ctx context.Context) error {
	r.oldest.CompareAndSwap(0, time.Now().UnixMilli())
	timer := time.NewTimer(stageEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pace is how long to wait for entries before looking at the clock.
func (r *runner) pace() time.Duration {
	if r.stages {
		return stageEvery
	}
	return time.Second
}

func (r *runner) sweep(ctx context.Context, st sink.OutboxStager) {
	keep := kept(r.pend)
	sweep := func() error {
		return patiently(ctx, func() error { return st.Sweep(ctx, keep) }, r.a.failing(r.name))
	}
	switch err := sweep(); {
	case err == nil:
		r.swept.Store(true)
	case ctx.Err() == nil:
		r.a.log.Error("sweep_failed", "sink", r.name, "err", err)
	}
	r.a.sweepAgain(ctx, r.name, sweep)
}

// skip passes over what the sink's ledger says is applied already, and picks up
// the records of verdicts that no decision has taken in yet.
func (r *runner) skip(ctx context.Context, resume sink.Resume) error {
	if resume.Through.Before(r.feed.pos) {
		return fmt.Errorf("%w: it stands at %s, the journal knows %s", sink.ErrLedgerBehind, resume.Through, r.feed.pos)
	}
	if r.a.tail.Head().Before(resume.Through) {
		return fmt.Errorf("%w: it stands at %s, and nothing beyond %s was ever decided: the mark was moved by hand, or belongs to another journal",
			sink.ErrForeignMark, resume.Through, r.a.tail.Head())
	}
	verdicts := resume.Verdicts
	for r.feed.pos.Before(resume.Through) {
		es, err := r.feed.next(ctx, time.Second)
		if err != nil {
			return err
		}
		var out []epoch.Verdict
		n := 0
		for n < len(es) && !resume.Through.Before(es[n].Pos) {
			for len(verdicts) > 0 && verdicts[0].Pos == es[n].Pos {
				out = append(out, epoch.Verdict{Sink: r.name, Verdict: verdicts[0], Payload: es[n].Record})
				verdicts = verdicts[1:]
			}
			n++
		}
		if n == 0 && len(es) > 0 {
			return fmt.Errorf("%w: it stands at %s, which is no place in the outbox (%s is followed by %s)",
				sink.ErrForeignMark, resume.Through, r.feed.pos, es[0].Pos)
		}
		if n > 0 {
			r.report(ctx, es[:n], es[n-1].Pos, out)
		}
	}
	return nil
}

// report moves the cursor to pos, which is among es.
func (r *runner) report(ctx context.Context, es []outbox.Entry, pos sink.Pos, vs []epoch.Verdict) {
	for i := range es {
		if es[i].Pos == pos {
			c := journal.Cursor{Pos: pos, Offset: es[i].Offset + 1, Bytes: es[i].Bytes}
			r.feed.advance(pos, c.Offset)
			if r.stages {
				r.hints = append(r.hints, hint{c.Pos, c.Offset, c.Bytes})
				r.held = append(r.held, vs...)
				return
			}
			r.progress.reach(pos)
			r.a.post(ctx, epoch.Applied{Sink: r.name, Cursor: c, Verdicts: vs})
			return
		}
	}
}

// apply brings a run of entries to the sink, however often it takes.
func (r *runner) apply(ctx context.Context, es []outbox.Entry) error {
	fresh, err := r.wanted(es)
	if err != nil {
		return err
	}
	for len(es) > 0 {
		b := sink.Batch{Prev: r.feed.pos, Through: es[len(es)-1].Pos, Confirmed: r.confirmedPos(), Records: fresh}
		res, err := r.call(ctx, b)
		if err != nil {
			return err
		}
		if res.Through.Before(b.Prev) || b.Through.Before(res.Through) {
			return sink.Fatal(fmt.Errorf("it says that it stands at %s after a batch from %s to %s", res.Through, b.Prev, b.Through))
		}
		if res.Through == b.Prev {
			if err := r.makeRoom(ctx); err != nil {
				return err
			}
			continue
		}
		r.report(ctx, es, res.Through, r.verdicts(es, res.Verdicts))
		es, fresh = behind(es, res.Through), behindEntries(fresh, res.Through)
		if err := r.settled(ctx, lastVerdict(res.Verdicts)); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom: a stager that takes nothing more wants to stage first, which may
// have to wait for decided work to be committed.
func (r *runner) makeRoom(ctx context.Context) error {
	if !r.stages {
		return nil
	}
	if err := r.stage(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(makeRoomPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// makeRoomPause is how soon a stager that took nothing is asked again.
const makeRoomPause = 5 * time.Millisecond

// settled waits until a decision holds the verdicts of a sink that does not
// keep them itself. A stager's are decided with its next stage.
func (r *runner) settled(ctx context.Context, last sink.Pos) error {
	if last.IsZero() || r.stages {
		return nil
	}
	if r.sink.Features().DurableVerdicts { // wait only so that they cannot pile up in memory
		r.refused = slices.DeleteFunc(append(r.refused, last), func(p sink.Pos) bool { return !r.confirmedPos().Before(p) })
		if len(r.refused) < maxRefusedBatches {
			return nil
		}
	}
	for r.confirmedPos().Before(last) {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// wanted filters a run. The filter decided on every record before the epoch
// was decided (attempt.emit), so here it cannot fail.
func (r *runner) wanted(es []outbox.Entry) ([]sink.Entry, error) {
	fresh := r.batch[:0]
	for i := range es {
		ok, why := r.a.wants(r.name, r.sink, r.where, &es[i].Record)
		switch {
		case why != nil:
			return nil, sink.Fatal(fmt.Errorf("its filter failed on decided record %s, which it had passed: %s", es[i].Pos, why.reason))
		case ok:
			fresh = append(fresh, es[i].Entry)
		}
	}
	r.batch = fresh
	return fresh, nil
}

func (r *runner) verdicts(es []outbox.Entry, vs []sink.Verdict) []epoch.Verdict {
	var out []epoch.Verdict
	for _, v := range vs {
		for i := range es {
			if es[i].Pos == v.Pos {
				out = append(out, epoch.Verdict{Sink: r.name, Verdict: v, Payload: es[i].Record})
			}
		}
	}
	return out
}

// call makes one Apply count: it is repeated until it got somewhere, or failed
// for good.
func (r *runner) call(ctx context.Context, b sink.Batch) (sink.Result, error) {
	var res sink.Result
	if err := r.a.hit(ctx, failpoint.ApplyBefore, b.Through.Epoch); err != nil {
		return res, err
	}
	err := patiently(ctx, func() error {
		done, err := r.breaker.Allow()
		if err != nil {
			return sink.Transient(errBreakerOpen)
		}
		begin := time.Now()
		res, err = r.task.Apply(ctx, b)
		done(err)
		if err != nil && b.Prev.Before(res.Through) && sink.Classify(err) != sink.ClassFatal {
			r.a.failing(r.name)(err)
			err = nil // progress: what is left is a batch of its own
		}
		if err == nil {
			r.a.w.emit(Event{
				Kind: SinkApplied, Task: r.a.task, Sink: r.name, Epoch: res.Through.Epoch,
				N: int64(len(b.Records) - len(behindEntries(b.Records, res.Through))), Duration: time.Since(begin),
			})
		}
		return err
	}, func(err error) {
		if !errors.Is(err, errBreakerOpen) {
			r.a.failing(r.name)(err)
		}
	})
	if err != nil {
		return res, err
	}
	return res, r.a.hit(ctx, failpoint.ApplyAfter, b.Through.Epoch)
}

var errBreakerOpen = errors.New("the sink's circuit breaker is open")

func lastVerdict(vs []sink.Verdict) sink.Pos {
	if len(vs) == 0 {
		return sink.Pos{}
	}
	return vs[len(vs)-1].Pos
}

func behind(es []outbox.Entry, pos sink.Pos) []outbox.Entry {
	for len(es) > 0 && !pos.Before(es[0].Pos) {
		es = es[1:]
	}
	return es
}

func behindEntries(es []sink.Entry, pos sink.Pos) []sink.Entry {
	for len(es) > 0 && !pos.Before(es[0].Pos) {
		es = es[1:]
	}
	return es
}

func (r *runner) close(log *slog.Logger) {
	if r.task == nil {
		return
	}
	if err := r.task.Close(); err != nil {
		log.Warn("sink_close_failed", "sink", r.name, "err", err)
	}
}
