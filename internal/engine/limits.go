package engine

import (
	"context"
	"fmt"
	"time"

	"exactly/internal/epoch"
)

// checkLimits looks at how far the outbox sinks lag, and applies the outbox
// policy: stop reading the source, or fail.
func (a *attempt) checkLimits(ctx context.Context) {
	lim := a.w.c.Outbox
	full := ""
	for _, r := range a.runners {
		bytes := a.lastTail.Bytes - a.cursors[r.name].Bytes
		var age time.Duration
		if t := r.oldest.Load(); t != 0 {
			age = time.Since(time.UnixMilli(t))
		}
		a.w.emit(Event{Kind: SinkLag, Task: a.task, Sink: r.name, Bytes: bytes, Duration: age})
		switch {
		case lim.MaxBytes > 0 && bytes > lim.MaxBytes:
			full = fmt.Sprintf("sink %s is %d bytes behind, outbox.max_bytes is %d", r.name, bytes, lim.MaxBytes)
		case lim.MaxAge > 0 && age > lim.MaxAge:
			full = fmt.Sprintf("sink %s is %s behind, outbox.max_age is %s", r.name, age.Round(time.Millisecond), lim.MaxAge)
		}
	}
	was := a.full
	a.full = full != ""
	if a.full && lim.Stop {
		a.step(ctx, epoch.Failed{Err: fmt.Errorf("outbox limit reached, outbox.policy is stop: %s", full)})
		return
	}
	if a.full && !was {
		a.log.Warn("outbox_full", "why", full, "policy", "pause")
		a.w.emit(Event{Kind: OutboxFull, Task: a.task, Detail: full})
	}
}
