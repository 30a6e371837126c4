package demo

import (
	"context"
	"fmt"
	"time"

	"exactly/internal/failpoint"
)

// Zombie is the worker that was frozen right before its decision.
type Zombie struct {
	Worker      int     `json:"worker"`
	Task        int32   `json:"task"`
	Epoch       int64   `json:"epoch"`
	TakenOverMS float64 `json:"taken_over_ms"` // until every task had new output from others
	After       string  `json:"after"`         // what it did when it woke
}

// freeze stops a worker right before its decision until another has its tasks,
// then lets it go on as a zombie.
func (c *chaos) freeze(ctx context.Context) error {
	if !canFreeze {
		c.log.Warn("no_zombie", "why", "this system cannot stop a process")
		return nil
	}
	if err := c.replace(ctx); err != nil {
		return err
	}
	k, s, err := c.atPoint(ctx, failpoint.EndBefore)
	if err != nil || k == nil {
		return err
	}
	z := &Zombie{Worker: s.number, Task: k.Task, Epoch: k.Epoch}
	if err := s.proc.ctl.Arm(ctx); err != nil {
		return fmt.Errorf("disarm worker %d: %w", s.number, err)
	}
	at := time.Now()
	if err := c.stopUnlocked(ctx, s); err != nil {
		return err
	}
	if len(c.crew.slots) == 1 { // somebody has to take over
		if err := c.crew.start(ctx, c.crew.add(2), ""); err != nil {
			return err
		}
	}
	if err := s.proc.ctl.Go(); err != nil { // read when it wakes
		return err
	}
	marks, err := c.kaf.committed(ctx)
	if err != nil {
		return err
	}
	w := c.outs.after(at, marks)
	c.budget += min(c.prod.left(), int64(10*c.outs.tasks)) // a zombie without successor shows nothing
	if !c.recovered(ctx, w) && c.feed() {
		c.problems = append(c.problems, fmt.Sprintf("nobody took over from frozen worker %d within %s", s.number, recoverTimeout))
	}
	_, every := c.outs.measured(w)
	z.TakenOverMS = ms(every)
	if err := thaw(s.proc.cmd.Process); err != nil {
		return err
	}
	z.After = c.awake(ctx, s)
	c.zombie = z
	return ctx.Err()
}

// stopUnlocked stops a worker at a moment at which it has no lock on the
// database: nobody can take a lock from a process that stands still, so that
// its successors would wait for it.
func (c *chaos) stopUnlocked(ctx context.Context, s *slot) error {
	for {
		if err := freeze(s.proc.cmd.Process); err != nil {
			return err
		}
		if unlocked(ctx, c.db) {
			return nil
		}
		if err := thaw(s.proc.cmd.Process); err != nil {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// awakeTimeout is how long a zombie is watched.
const awakeTimeout = time.Second

// awake tells what the zombie does. It may end, since somebody else has its
// tasks.
func (c *chaos) awake(ctx context.Context, s *slot) string {
	t := time.NewTimer(awakeTimeout)
	defer t.Stop()
	select {
	case <-s.proc.exited:
		s.proc.meant = true
		return fmt.Sprintf("ended itself (%v)", s.proc.err)
	case <-t.C:
	case <-ctx.Done():
	}
	return "was fenced and runs on as a member"
}
