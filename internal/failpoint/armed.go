package failpoint

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrInjected is what Hit returns at a point armed with Error.
var ErrInjected = errors.New("injected by a fail point")

// armed is what a worker started with --unsafe-failpoints has: arms that may
// change while it runs, and the means to act.
type armed struct {
	arms atomic.Pointer[[]*counted]
	log  *slog.Logger

	report       func(Report) error // of a hold; nil: nobody to tell, hold fails
	kill, freeze func() error

	mu      sync.Mutex
	release chan struct{} // closed by goOn, then replaced
}

type counted struct {
	Arm
	matches atomic.Int64
}

func (w *armed) arm(arms []Arm) {
	cs := make([]*counted, len(arms))
	for i, a := range arms {
		cs[i] = &counted{Arm: a}
	}
	w.arms.Store(&cs)
}

// goOn releases everything that is held now.
func (w *armed) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.release)
	w.release = make(chan struct{})
}

func (w *armed) hook(ctx context.Context, p Point, task int32, epoch int64) error {
	for _, c := range *w.arms.Load() {
		if !c.match(p, task, epoch) {
			continue
		}
		if err := w.act(ctx, c, task, epoch); err != nil {
			return err
		}
	}
	return nil
}

func (c *counted) match(p Point, task int32, epoch int64) bool {
	if c.Point != p || c.Task >= 0 && c.Task != task || c.Epoch >= 0 && c.Epoch != epoch {
		return false
	}
	n := c.matches.Add(1)
	return c.Hit == 0 || c.Hit == n
}

func (w *armed) act(ctx context.Context, c *counted, task int32, epoch int64) error {
	w.log.Warn("fail point", "point", c.Point, "task", task, "epoch", epoch, "action", c.Action)
	switch c.Action {
	case Kill:
		return w.kill()
	case Freeze:
		return w.freeze()
	case Error:
		return ErrInjected
	case Delay:
		t := time.NewTimer(c.Delay)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.hold(ctx, Report{Point: c.Point, Task: task, Epoch: epoch})
}

func (w *armed) hold(ctx context.Context, r Report) error {
	if w.report == nil {
		return errors.New("hold at a fail point: there is no control channel (" + ControlVar + ")")
	}
	w.mu.Lock()
	release := w.release // taken before the report: a quick "go" is not missed
	w.mu.Unlock()
	if err := w.report(r); err != nil {
		return err
	}
	select {
	case <-release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
