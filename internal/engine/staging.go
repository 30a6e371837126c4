package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/internal/mutation"
	"exactly/record"
	"exactly/sink"
)

// staging is a two-phase sink at work for one task. Its writes run on a
// goroutine of their own, in order; prepare and commit have theirs, so that
// they never queue behind writes.
type staging struct {
	a       *attempt
	name    string
	sink    sink.Staging
	where   Filter
	task    sink.StagingTask
	ops     queue[stageOp]
	commits *committer
	buf     []record.Record
	bufOf   int64

	progress *progress
}

type stageOp struct {
	epoch int64
	recs  []record.Record
	done  chan stageResult // of a barrier; nil: a write

	after   <-chan struct{} // of a barrier: the sink in front has flushed; nil: there is none
	flushed chan struct{}   // closed once this one has
}

// stageResult is what an epoch's writes came to.
type stageResult struct {
	refused []record.Record
	why     []*letter
	err     error
}

const (
	stageQueue = 16
	stageBatch = 512
)

func (a *attempt) openStagings(ctx context.Context) error {
	for _, s := range a.w.stagingSinks() {
		st := &staging{
			a: a, name: s.Name, sink: s.Sink.(sink.Staging), where: s.filter(),
			ops: newQueue[stageOp](), progress: newProgress(true),
		}
		err := a.paused(ctx, s.Name, func() (err error) {
			o := a.owner(s.Name)
			if c, known := a.m.Committed(s.Name); known {
				o.Committed = &c
			}
			st.task, err = st.sink.OpenStaging(ctx, o)
			return err
		})
		if err != nil {
			return fmt.Errorf("open sink %s: %w", s.Name, err)
		}
		st.commits = newCommitter(a, s.Name, st.task)
		st.commits.done = st.progress.release
		a.stagings = append(a.stagings, st)
		a.wg.Go(func() { st.run(ctx) })
		a.wg.Go(func() { st.commits.run(ctx) })
	}
	return nil
}

// paused calls f of a two-phase sink, in a takeover, for as long as it takes. That
// is where a task waits for one that is away: its work is in no outbox, and here no
// transaction is open that readers would wait for.
func (a *attempt) paused(ctx context.Context, name string, f func() error) error {
	away := false
	err := patiently(ctx, f, func(err error) {
		a.failing(name)(err)
		if !away {
			away = true
			a.w.emit(Event{Kind: TaskPaused, Task: a.task, Sink: name, Err: err})
			a.w.emit(Event{Kind: BreakerOpened, Task: a.task, Sink: name})
		}
	})
	if away && err == nil {
		a.w.emit(Event{Kind: BreakerClosed, Task: a.task, Sink: name})
	}
	return err
}

func (a *attempt) staging(name string) *staging {
	for _, st := range a.stagings {
		if st.name == name {
			return st
		}
	}
	return nil
}

// busy: the sink is behind; the loop stops reading, but never blocks on it,
// since only a decision of the epoch before may free what a write waits for.
func (s *staging) busy() bool { return s.ops.len() >= stageQueue }

// add takes a record into the open epoch.
func (s *staging) add(n int64, r *record.Record) {
	s.buf, s.bufOf = append(s.buf, *r), n
	if len(s.buf) >= stageBatch {
		s.send()
	}
}

func (s *staging) send() {
	if len(s.buf) > 0 {
		s.ops.add(stageOp{epoch: s.bufOf, recs: s.buf})
		s.buf = nil
	}
}

// endWrites ends the epoch's writes in all of them; the answers come when all were
// taken. What is written at the end of an epoch takes locks, so every task does it
// sink by sink in the same order: else two tasks could each hold what the other waits
// for, in two transactions each, which no database sees.
func (a *attempt) endWrites(n int64) (written []<-chan stageResult) {
	var after <-chan struct{}
	for _, st := range a.stagings {
		op := stageOp{epoch: n, done: make(chan stageResult, 1), after: after, flushed: make(chan struct{})}
		st.send()
		st.ops.add(op)
		written, after = append(written, op.done), op.flushed
	}
	return written
}

func (s *staging) run(ctx context.Context) {
	var res stageResult
	flusher, _ := s.task.(sink.StagingFlusher)
	var taken []record.Record // of the epoch, by a flusher
	for {
		op, ok := s.ops.next(ctx)
		switch {
		case !ok:
			return
		case op.done != nil:
			if op.after != nil {
				select {
				case <-op.after:
				case <-ctx.Done():
					return
				}
			}
			if flusher != nil && res.err == nil {
				res.err = s.refusals(flusher.Flush(ctx, op.epoch), taken, &res)
			}
			close(op.flushed)
			op.done <- res
			res, taken = stageResult{}, nil
		case res.err == nil:
			if flusher != nil {
				taken = append(taken, op.recs...)
			}
			res.err = s.refusals(s.task.Write(ctx, op.epoch, op.recs), op.recs, &res)
		}
	}
}

// refusals takes what a call has refused of recs into the result, and gives any
// other error back.
func (s *staging) refusals(err error, recs []record.Record, res *stageResult) error {
	var poison *sink.PoisonError
	if !errors.As(err, &poison) {
		return err
	}
	for i, at := range poison.Index {
		res.refused = append(res.refused, recs[at])
		res.why = append(res.why, &letter{
			stage: "sink " + s.name, sink: s.name, code: sink.Code(poison.Errs[i]), reason: poison.Errs[i].Error(),
		})
	}
	return nil
}

// prepareStagings asks every staging sink; a lost answer ends the attempt.
func (a *attempt) prepareStagings(ctx context.Context, n int64) {
	ep := a.open[n]
	a.within(ctx, n, ep.deadline, func(ctx context.Context) (epoch.Event, error) {
		select {
		case <-ep.written:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := a.hit(ctx, failpoint.PrepareBefore, n); err != nil {
			return nil, err
		}
		var all []sink.Committable
		for _, st := range a.stagings {
			cs, err := st.task.Prepare(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("prepare epoch %d of sink %s: %w", n, st.name, err)
			}
			if len(cs) > 0 {
				st.progress.hold(n)
			}
			for i := range cs {
				cs[i].Sink = st.name
			}
			all = append(all, cs...)
		}
		return epoch.Prepared{Epoch: n, Committables: all}, a.hit(ctx, failpoint.PrepareAfter, n)
	})
}

// commit is used by a takeover, before the committer has anything to do.
func (s *staging) commit(ctx context.Context, ps []journal.Pending) error {
	if len(ps) == 0 {
		return nil
	}
	return s.a.paused(ctx, s.name, func() error { return s.task.Commit(ctx, committables(ps)) })
}

func (s *staging) sweep(ctx context.Context, keep []journal.Pending) error {
	return patiently(ctx, func() error { return s.task.Sweep(ctx, kept(keep)) }, s.a.failing(s.name))
}

func (s *staging) close(log *slog.Logger) {
	if err := s.task.Close(); err != nil {
		log.Warn("sink_close_failed", "sink", s.name, "err", err)
	}
}

// kept is what a sweep must leave: decided work that is not confirmed.
func kept(ps []journal.Pending) []sink.Committable {
	if mutation.On(mutation.PendingSwept) {
		return nil
	}
	return committables(ps)
}

func committables(ps []journal.Pending) []sink.Committable {
	cs := make([]sink.Committable, len(ps))
	for i, p := range ps {
		cs[i] = p.Committable
	}
	return cs
}

// committer commits decided work of one sink, in order, beside everything else.
type committer struct {
	a    *attempt
	name string
	task sink.Committer

	work queue[[]journal.Pending]
	done func([]journal.Pending) // nil: nobody wants to know
}

func newCommitter(a *attempt, name string, task sink.Committer) *committer {
	return &committer{a: a, name: name, task: task, work: newQueue[[]journal.Pending]()}
}

// add never blocks: what is pending is bounded by the machine.
func (c *committer) add(ps []journal.Pending) { c.work.add(ps) }

func (c *committer) run(ctx context.Context) {
	for {
		ps, ok := c.work.next(ctx)
		if !ok {
			return
		}
		if mutation.On(mutation.ConfirmEarly) {
			c.a.post(ctx, epoch.Committed{Items: ps})
		}
		if err := c.commit(ctx, ps); err != nil {
			c.a.post(ctx, epoch.Failed{Err: fmt.Errorf("commit decided work of sink %s: %w", c.name, err)})
			return
		}
		if c.done != nil {
			c.done(ps)
		}
		if !mutation.On(mutation.ConfirmEarly) {
			c.a.post(ctx, epoch.Committed{Items: ps})
		}
	}
}

func (c *committer) commit(ctx context.Context, ps []journal.Pending) error {
	last := ps[len(ps)-1].Epoch
	if err := c.a.hit(ctx, failpoint.CommitBefore, last); err != nil {
		return err
	}
	begin := time.Now()
	if err := patiently(ctx, func() error { return c.task.Commit(ctx, committables(ps)) }, c.a.failing(c.name)); err != nil {
		return err
	}
	c.a.w.emit(Event{Kind: SinkCommitted, Task: c.a.task, Sink: c.name, Epoch: last, N: int64(len(ps)), Duration: time.Since(begin)})
	return c.a.hit(ctx, failpoint.CommitAfter, last)
}
