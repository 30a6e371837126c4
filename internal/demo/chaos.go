package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// Kill is one SIGKILL.
type Kill struct {
	Number   int     `json:"number"` // from 1
	Worker   int     `json:"worker"`
	Random   bool    `json:"random"` // at a random moment; Phase is then the point that was passed last
	Phase    string  `json:"phase"`
	Task     int32   `json:"task"`
	Epoch    int64   `json:"epoch"`
	Payments int64   `json:"payments"` // that the output topic had shown
	NextMS   float64 `json:"next_output_ms"`
	EveryMS  float64 `json:"every_task_ms"` // until every task had new output; 0: the next kill came before

	wait *recovery
}

// chaos drives the kills.
type chaos struct {
	rng  *rand.Rand
	g    sink.Guarantee
	crew *crew
	kaf  *cluster
	x    *index
	prod *producer
	outs *outputs
	db   string // path of the database
	log  *slog.Logger
	say  func(Kill)

	plan     []step
	kills    []Kill
	budget   int64 // payments that feed may still let through
	frozen   bool  // the zombie had its turn
	fresh    *slot // the worker that was started last with a point armed; nil: none
	zombie   *Zombie
	problems []string
}

const (
	// holdTimeout is how long a point has to be reached.
	holdTimeout = 4 * time.Second
	// mostIdle is how many tenths of a second without work are waited for a hold.
	mostIdle = 12
	// recoverTimeout is how long to wait for output of every task.
	recoverTimeout = 15 * time.Second
	// pacePerKill is about how long one kill and its recovery take.
	pacePerKill = 350 * time.Millisecond
)

// run kills by the plan, with the zombie in the middle. Phases that were missed
// get a second try in place of kills that did not come about.
func (c *chaos) run(ctx context.Context) error {
	planned := len(c.plan)
	if planned == 0 {
		return c.freeze(ctx)
	}
	if err := c.steps(ctx, c.plan); err != nil {
		return err
	}
	return c.steps(ctx, again(c.g, c.kills, planned-len(c.kills)))
}

func (c *chaos) steps(ctx context.Context, plan []step) error {
	for i, st := range plan {
		c.ration(len(plan) - i)
		// Not between a kill and the takeover whose point is armed by it.
		if !c.frozen && i >= len(plan)/2 && st.kind != takeover {
			c.frozen = true
			if err := c.freeze(ctx); err != nil {
				return err
			}
		}
		if err := c.replace(ctx); err != nil {
			return err
		}
		next := step{}
		if i+1 < len(plan) {
			next = plan[i+1]
		}
		if err := c.step(ctx, st, next); err != nil {
			return err
		}
	}
	return nil
}

// replace starts workers that ended by themselves, which is a problem, but the
// run goes on to show what became of the data.
func (c *chaos) replace(ctx context.Context) error {
	for _, s := range c.crew.slots {
		if s.alive() {
			continue
		}
		if s.proc != nil && !s.proc.meant {
			c.problems = append(c.problems, fmt.Sprintf("worker %d ended by itself: %v%s", s.number, s.proc.err, s.tail()))
		}
		if err := c.crew.start(ctx, s, ""); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) step(ctx context.Context, st, next step) error {
	var k *Kill
	var s *slot
	var err error
	switch st.kind {
	case restart:
		return c.restart(ctx, next)
	case random:
		k, s, err = c.atRandom(ctx)
	case inEpoch:
		k, s, err = c.atPoint(ctx, st.point)
	case takeover:
		k, s, err = c.atTakeover(ctx, st.point)
	}
	if err != nil || k == nil {
		return err
	}
	return c.killed(ctx, s, k, next)
}

// atRandom waits a moment and picks a worker.
func (c *chaos) atRandom(ctx context.Context) (*Kill, *slot, error) {
	if err := pause(ctx, time.Duration(20+c.rng.IntN(200))*time.Millisecond); err != nil {
		return nil, nil, err
	}
	s := c.crew.slots[c.rng.IntN(len(c.crew.slots))]
	k := &Kill{Random: true, Task: -1}
	if _, last, err := s.proc.ctl.Hits(ctx); err == nil && last != nil {
		k.Phase, k.Task, k.Epoch = string(last.Point), last.Task, last.Epoch
	}
	return k, s, nil
}

// atPoint arms a point in a worker that is chosen, and if that does not come to
// it soon, in all, and gives the one that holds.
func (c *chaos) atPoint(ctx context.Context, p failpoint.Point) (*Kill, *slot, error) {
	chosen := c.crew.slots[c.rng.IntN(len(c.crew.slots))]
	arm := func(s *slot) error {
		drain(s.proc.ctl)
		if err := s.proc.ctl.Arm(ctx, hold(p)); err != nil && !errors.Is(err, failpoint.ErrGone) {
			return err
		}
		return nil
	}
	if err := arm(chosen); err != nil {
		return nil, nil, err
	}
	s, r := c.held(ctx, holdTimeout/4, chosen)
	if s == nil {
		for _, o := range c.crew.slots {
			if o != chosen && o.alive() {
				if err := arm(o); err != nil {
					return nil, nil, err
				}
			}
		}
		s, r = c.held(ctx, holdTimeout, c.crew.slots...)
	}
	for _, o := range c.crew.slots {
		if o != s && o.alive() {
			if err := c.disarm(ctx, o); err != nil {
				return nil, nil, err
			}
		}
	}
	if s == nil {
		c.log.Debug("phase_not_reached", "phase", p)
		return nil, nil, ctx.Err()
	}
	return &Kill{Phase: string(r.Point), Task: r.Task, Epoch: r.Epoch}, s, nil
}

// atTakeover waits for the worker that was restarted with a point armed.
func (c *chaos) atTakeover(ctx context.Context, p failpoint.Point) (*Kill, *slot, error) {
	s := c.fresh
	c.fresh = nil
	if s == nil {
		return nil, nil, nil // the kill before did not come about
	}
	if !s.alive() {
		return nil, nil, nil // replaced by the next step
	}
	if held, r := c.held(ctx, holdTimeout, s); held != nil {
		return &Kill{Phase: string(r.Point), Task: r.Task, Epoch: r.Epoch}, s, nil
	}
	c.log.Debug("phase_not_reached", "phase", p)
	return nil, nil, c.disarm(ctx, s)
}

// held waits until one of the workers holds; nil: none did, or there is nothing
// left that could bring them to it.
func (c *chaos) held(ctx context.Context, d time.Duration, slots ...*slot) (*slot, failpoint.Report) {
	t := time.NewTimer(d)
	defer t.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	idle := 0 // looks in a row that found no work
	for n := 1; idle < mostIdle; n++ {
		for _, s := range slots {
			select {
			case r := <-s.proc.ctl.Held():
				return s, r
			default:
			}
		}
		select {
		case <-tick.C:
			if n%50 != 0 {
				continue
			}
			if idle++; c.feed() {
				idle = 0
			}
		case <-t.C:
			return nil, failpoint.Report{}
		case <-ctx.Done():
			return nil, failpoint.Report{}
		}
	}
	return nil, failpoint.Report{}
}

func (c *chaos) disarm(ctx context.Context, s *slot) error {
	err := s.proc.ctl.Arm(ctx)
	if err == nil {
		err = s.proc.ctl.Go()
	}
	if errors.Is(err, failpoint.ErrGone) {
		return nil // it is replaced
	}
	return err
}

func drain(w *failpoint.Worker) {
	for {
		select {
		case <-w.Held():
		default:
			return
		}
	}
}

// killed kills the worker, starts it again at once, and waits for output, unless
// the next kill is to hit the takeover.
func (c *chaos) killed(ctx context.Context, s *slot, k *Kill, next step) error {
	k.Number, k.Worker = len(c.kills)+1, s.number
	k.Payments = c.x.distinct("enriched")
	at := time.Now()
	if err := s.kill(); err != nil {
		return err
	}
	if err := c.startArmed(ctx, s, next); err != nil {
		return err
	}
	marks, err := c.kaf.committed(ctx)
	if err != nil {
		return err
	}
	k.wait = c.outs.after(at, marks)
	c.kills = append(c.kills, *k)
	c.say(*k)
	if next.kind == takeover {
		return nil
	}
	c.recovered(ctx, k.wait)
	return nil
}

// startArmed starts a worker again, with the point of the next kill armed if
// that is to hit its takeover.
func (c *chaos) startArmed(ctx context.Context, s *slot, next step) error {
	if next.kind != takeover {
		return c.crew.start(ctx, s, "")
	}
	c.fresh = s
	return c.crew.start(ctx, s, hold(next.point).String())
}

// hold is a point armed once, for any task and epoch.
func hold(p failpoint.Point) failpoint.Arm {
	return failpoint.Arm{Point: p, Task: -1, Epoch: -1, Hit: 1, Action: failpoint.Hold}
}

// restart stops a worker gracefully and starts it again.
func (c *chaos) restart(ctx context.Context, next step) error {
	s := c.crew.slots[c.rng.IntN(len(c.crew.slots))]
	if err := s.stop(); err != nil {
		c.problems = append(c.problems, err.Error())
	}
	return c.startArmed(ctx, s, next)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
