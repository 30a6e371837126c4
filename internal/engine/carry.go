package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/record"
)

// carryOutEpoch does what the machine asks for while the attempt runs.
func (a *attempt) carryOutEpoch(ctx context.Context, act epoch.Action) {
	switch act := act.(type) {
	case epoch.Begin:
		a.begin(act)
	case epoch.Flush:
		a.flush(ctx, act.Epoch)
	case epoch.Prepare:
		a.prepareStagings(ctx, act.Epoch)
	case epoch.Journal:
		a.journal(ctx, act)
	case epoch.Offsets:
		ep, p := a.open[act.Epoch], a.prod[epoch.Of(act.Epoch)]
		a.within(ctx, act.Epoch, ep.deadline, func(ctx context.Context) (epoch.Event, error) {
			select { // behind the journal record: see SendOffsets
			case <-ep.logged:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := a.hit(ctx, failpoint.OffsetsBefore, act.Epoch); err != nil {
				return nil, err
			}
			if err := a.sendOffsets(ctx, p, act.Sources); err != nil {
				return nil, err
			}
			return epoch.OffsetsSent{Epoch: act.Epoch}, a.hit(ctx, failpoint.OffsetsAfter, act.Epoch)
		})
	case epoch.End:
		a.end(ctx, act.Epoch)
	case epoch.Publish:
		a.publish(act)
	case epoch.Commit:
		a.commit(ctx, act)
	case epoch.Confirm:
		a.confirm(act)
	case epoch.Trim:
		a.trimmer.to(act.Offset)
	}
}

// within runs f beside the loop under the epoch's deadline.
func (a *attempt) within(ctx context.Context, n int64, deadline time.Time, f func(ctx context.Context) (epoch.Event, error)) {
	a.beside(ctx, func(ctx context.Context) (epoch.Event, error) {
		lim, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		ev, err := f(lim)
		if err != nil && lim.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("epoch %d was not decided within epoch.timeout %s: %w", n, a.w.c.Epoch.Timeout, err)
		}
		return ev, err
	})
}

// flush waits for the acknowledgements; only then may the next epoch's records
// be sent (I6).
func (a *attempt) flush(ctx context.Context, n int64) {
	ep, p := a.open[n], a.prod[epoch.Of(n)]
	ep.deadline = time.Now().Add(a.w.c.Epoch.Timeout)
	tail := a.lastTail
	tail.Pos, tail.Bytes = a.outPos, a.outBytes
	ep.written, ep.logged = make(chan struct{}), make(chan struct{})
	written := a.endWrites(n)
	a.within(ctx, n, ep.deadline, func(ctx context.Context) (epoch.Event, error) {
		if err := a.hit(ctx, failpoint.Filled, n); err != nil {
			return nil, err
		}
		for i, ch := range written {
			if err := a.written(ctx, n, a.stagings[i], ch); err != nil {
				return nil, err
			}
		}
		close(ep.written)
		if err := p.Flush(ctx); err != nil {
			return nil, err
		}
		if len(ep.acked) > 0 {
			for i, rec := range ep.acked {
				ep.entries[i].Offset = rec.Offset
			}
			tail.Offset = ep.acked[len(ep.acked)-1].Offset + 1
			ep.acked = nil
		}
		return epoch.Flushed{Epoch: n, Tail: tail}, a.hit(ctx, failpoint.FlushDone, n)
	})
}

// written waits until a staging sink has taken the epoch's records, and turns
// what it refused into dead letters of the same epoch.
func (a *attempt) written(ctx context.Context, n int64, st *staging, ch <-chan stageResult) error {
	select {
	case res := <-ch:
		if res.err != nil {
			return fmt.Errorf("write epoch %d to sink %s: %w", n, st.name, res.err)
		}
		for i, r := range res.refused {
			for _, rec := range a.letters(n, r, res.why[i]) {
				a.prod[epoch.Of(n)].Produce(rec)
			}
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write epoch %d to sink %s: %w", n, st.name, ctx.Err())
	}
}

// journal produces the verdicts' dead letters and R(n) into the transaction.
func (a *attempt) journal(ctx context.Context, act epoch.Journal) {
	ep, p := a.open[act.Epoch], a.prod[epoch.Of(act.Epoch)]
	a.within(ctx, act.Epoch, ep.deadline, func(ctx context.Context) (epoch.Event, error) {
		if err := a.hit(ctx, failpoint.JournalBefore, act.Epoch); err != nil {
			return nil, err
		}
		for _, v := range act.Verdicts {
			why := &letter{stage: "sink " + v.Sink, sink: v.Sink, code: v.Code, reason: v.Reason}
			for _, rec := range a.letters(act.Epoch, v.Payload.(record.Record), why) {
				p.Produce(rec)
			}
		}
		if err := a.produceJournal(p, act.Record); err != nil {
			return nil, err
		}
		if err := p.Flush(ctx); err != nil {
			return nil, err
		}
		close(ep.logged)
		return epoch.Journaled{Epoch: act.Epoch}, a.hit(ctx, failpoint.JournalAfter, act.Epoch)
	})
}

// end decides. Any error, whatever it says, ends the attempt (I7).
func (a *attempt) end(ctx context.Context, n int64) {
	ep, p := a.open[n], a.prod[epoch.Of(n)]
	a.within(ctx, n, ep.deadline, func(ctx context.Context) (epoch.Event, error) {
		if err := a.hit(ctx, failpoint.EndBefore, n); err != nil {
			return nil, err
		}
		ep.ending.Store(true)
		if err := p.End(ctx); err != nil {
			return nil, err
		}
		return epoch.Decided{Epoch: n}, a.hit(ctx, failpoint.EndAfter, n)
	})
}

// publish: the epoch is decided, its records may be seen.
func (a *attempt) publish(act epoch.Publish) {
	ep := a.open[act.Epoch]
	delete(a.open, act.Epoch)
	a.lastEnded = time.Now()
	a.tail.Append(ep.entries)
	a.w.emit(Event{
		Kind: EpochDecided, Task: a.task, Attempt: a.m.Attempt(), Epoch: act.Epoch,
		N: ep.records, Bytes: ep.bytes, Duration: time.Since(ep.began),
	})
}

// commit hands decided work to the committers of its sinks.
func (a *attempt) commit(ctx context.Context, act epoch.Commit) {
	bySink := map[string][]journal.Pending{}
	var order []string
	for _, it := range act.Items {
		if bySink[it.Sink] == nil {
			order = append(order, it.Sink)
		}
		bySink[it.Sink] = append(bySink[it.Sink], it)
	}
	for _, name := range order {
		q := a.committer(name)
		if q == nil && slices.Contains(a.w.dropped, name) {
			a.beside(ctx, func(context.Context) (epoch.Event, error) { return epoch.Committed{Items: bySink[name]}, nil })
			continue
		}
		if q == nil {
			a.over = Permanent(fmt.Errorf("the journal lists decided work of sink %s, which the pipeline file does not have: add it again, let it finish, then remove it", name))
			return
		}
		q.add(bySink[name])
	}
}

func (a *attempt) committer(name string) *committer {
	if st := a.staging(name); st != nil {
		return st.commits
	}
	for _, r := range a.runners {
		if r.name == name && r.stages {
			return r.commits
		}
	}
	return nil
}

func (a *attempt) confirm(act epoch.Confirm) {
	low := a.lastTail.Pos
	for _, r := range a.runners {
		c := act.Cursors[r.name]
		if c == nil {
			continue
		}
		r.confirm(c.Pos)
		if c.Pos.Before(low) {
			low = c.Pos
		}
	}
	a.tail.Forget(low)
}
