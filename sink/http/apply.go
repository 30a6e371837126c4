package httpsink

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"exactly/sink"
	"exactly/step/cel"
)

// task is the sink at work for one task; calls are serial.
type task struct {
	sink   *Sink
	owner  sink.Owner
	client *clientSource
	policy policy
	gate   gate
	vars   cel.Vars

	// known holds what was settled or refused beyond the prefix that the last
	// Apply reported, so that it is not asked again: invariant IV. It never
	// holds more than one batch, and dies with the attempt.
	known map[sink.Pos]*call

	hits    sync.Mutex   // held in a fail point
	alerted atomic.Int64 // when a person was last told, Unix nanoseconds
}

// Apply makes the calls of a batch. An error comes with the progress that was
// made beside it.
func (t *task) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	for pos := range t.known {
		if !b.Prev.Before(pos) {
			delete(t.known, pos)
		}
	}
	calls := make([]*call, len(b.Records))
	for i := range b.Records {
		calls[i] = t.prepare(&b.Records[i])
	}
	t.vars.Reset(nil) // the batch is the caller's
	r := &run{task: t, lanes: lanes(calls)}
	r.wait(ctx)
	return t.settle(ctx, b, calls)
}

// settle reports the contiguous prefix and remembers what lies beyond it.
func (t *task) settle(ctx context.Context, b sink.Batch, calls []*call) (sink.Result, error) {
	res := sink.Result{Through: b.Prev}
	n := 0
	for ; n < len(calls) && calls[n].state != open; n++ {
		res.Through = calls[n].pos
		if calls[n].state == refused {
			res.Verdicts = append(res.Verdicts, calls[n].verdict)
		}
	}
	if n == len(calls) {
		res.Through = b.Through
		clear(t.known)
		return res, nil
	}
	for pos := range t.known {
		if !res.Through.Before(pos) {
			delete(t.known, pos)
		}
	}
	for _, c := range calls[n:] {
		if c.state != open {
			t.known[c.pos] = &call{key: c.key, state: c.state, verdict: c.verdict}
		}
	}
	return res, t.failure(ctx, calls[n:])
}

// failure is the gravest error among the calls that stayed open; nil, when they
// only wait behind a verdict.
func (t *task) failure(ctx context.Context, calls []*call) error {
	var worst *call
	failed := 0
	for _, c := range calls {
		if c.err == nil {
			continue
		}
		failed++
		if worst == nil || sink.Classify(c.err) > sink.Classify(worst.err) {
			worst = c
		}
	}
	switch {
	case ctx.Err() != nil:
		return sink.Transient(fmt.Errorf("sink %s: stopped: %w", t.sink.name, context.Cause(ctx)))
	case worst == nil:
		return nil
	case failed > 1:
		return fmt.Errorf("sink %s: %d records failed, one of them: %w", t.sink.name, failed, worst.err)
	}
	return fmt.Errorf("sink %s: %w", t.sink.name, worst.err)
}

// run is the work of one Apply: goroutines that take lane after lane.
type run struct {
	task  *task
	lanes [][]*call
	next  atomic.Int64

	streak atomic.Int64 // failed attempts since the last answer that settled or refused something
	gaveUp atomic.Bool  // some record used up its budget
}

func (r *run) wait(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		wg       sync.WaitGroup
		panicked atomic.Pointer[any]
	)
	for range min(r.task.sink.cfg.Concurrency, len(r.lanes)) {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil { // belongs to the caller of Apply; fail points crash a worker this way
					panicked.CompareAndSwap(nil, &p)
					stop()
				}
			}()
			r.work(ctx)
		})
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}

// work takes lane after lane.
func (r *run) work(ctx context.Context) {
	for {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.lanes) {
			return
		}
		r.lane(ctx, r.lanes[i])
	}
}

// lane goes through one lane until something stops it: invariant III. A verdict
// stops it, too: were the next record sent before the verdict is decided, a
// crash in between could have the refused one asked again, and taken, behind it.
func (r *run) lane(ctx context.Context, calls []*call) {
	for _, c := range calls {
		if c.state == open {
			if ctx.Err() != nil || r.down() {
				return
			}
			r.perform(ctx, c)
		}
		if c.state != settled {
			return
		}
	}
}

// down reports that the partner as a whole is failing, not one record: then the
// rest of the batch is left to the next Apply, and the engine's breaker hears of
// it now, not after the budget of every record.
func (r *run) down() bool {
	return r.gaveUp.Load() && r.streak.Load() >= int64(r.task.sink.cfg.Concurrency)
}

// Close lets go of idle connections.
func (t *task) Close() error {
	t.client.close()
	return nil
}
