package engine

import (
	"context"
	"sync/atomic"
	"time"

	"exactly/internal/failpoint"
)

// trimEvery bounds how often the outbox is trimmed.
const trimEvery = time.Second

// trimmer deletes what no sink needs any more from the outbox, now and then.
// Failing is no harm: the next offset includes the last.
type trimmer struct {
	a      *attempt
	offset atomic.Int64
	wake   chan struct{}
}

func newTrimmer(a *attempt) *trimmer {
	return &trimmer{a: a, wake: make(chan struct{}, 1)}
}

func (t *trimmer) to(offset int64) {
	t.offset.Store(offset)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *trimmer) run(ctx context.Context) {
	var done int64
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		if at := t.offset.Load(); at > done && t.a.hit(ctx, failpoint.TrimBefore, 0) == nil {
			err := t.a.w.admin.Trim(ctx, t.a.w.names.Outbox(), t.a.task, at)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				t.a.log.Warn("outbox_trim_failed", "offset", at, "err", err)
			default:
				done = at
				_ = t.a.hit(ctx, failpoint.TrimAfter, 0) // a lost answer changes nothing
			}
		}
		select {
		case <-time.After(trimEvery):
		case <-ctx.Done():
			return
		}
	}
}
