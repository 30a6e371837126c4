//go:build services

package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Chaos kills and freezes the workers of a pipeline at random.
type Chaos struct {
	p     *Pipeline
	Rnd   *rand.Rand
	Slots []*Worker // by slot, from 0; never nil

	kills, Zombies, Crashes, Rolls, Moves int
}

// NewChaos starts n workers.
func NewChaos(p *Pipeline, rnd *rand.Rand, n int) *Chaos {
	c := &Chaos{p: p, Rnd: rnd}
	for i := range n {
		c.Slots = append(c.Slots, p.Run(i))
	}
	return c
}

// between gives a random time.
func (c *Chaos) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.Rnd.Int64N(int64(most-least)))
}

// Kill ends one worker with SIGKILL at a random moment, and starts it again:
// at once, or after a while in which its heirs may or may not have begun.
func (c *Chaos) Kill() {
	Pause(c.p.T, c.between(100*time.Millisecond, 2*time.Second))
	var pause time.Duration
	i := c.Rnd.IntN(len(c.Slots))
	if c.Rnd.IntN(3) == 0 {
		pause = c.between(0, 8*time.Second)
	}
	c.kill(i, pause)
}

func (c *Chaos) kill(i int, pause time.Duration) {
	c.Slots[i].MustLive()
	Check(c.p.T, c.Slots[i].Kill())
	c.kills++
	Pause(c.p.T, pause)
	c.Slots[i] = c.p.Run(i)
}

// KillAll ends every worker at once and starts them again: what is left is in
// Kafka and in the sinks.
func (c *Chaos) KillAll() {
	for _, w := range c.Slots {
		w.MustLive()
		Check(c.p.T, w.Kill())
		c.kills++
	}
	for i := range c.Slots {
		c.Slots[i] = c.p.Run(i)
	}
}

// Zombie freezes one worker that runs a task until its session is over and
// others run all tasks, and then lets it go on.
func (c *Chaos) Zombie(tasks int) {
	c.p.T.Helper()
	Pause(c.p.T, c.between(0, time.Second))
	c.freeze(c.Rnd.IntN(len(c.Slots)), tasks)
}

func (c *Chaos) freeze(i, tasks int) {
	c.p.T.Helper()
	c.p.AwaitTasks(tasks, c.Slots...)
	w := c.Slots[i]
	Check(c.p.T, w.Freeze(c.p.T.Context()))
	var heirs []*Worker
	for _, o := range c.Slots {
		if o != w {
			heirs = append(heirs, o)
		}
	}
	Await(c.p.T, "the frozen worker's tasks to be taken over", func(context.Context) (string, bool) {
		n := 0
		for _, h := range heirs {
			h.MustLive()
			n += len(h.Tasks())
		}
		return fmt.Sprintf("%d of %d", n, tasks), n == tasks
	})
	Check(c.p.T, w.Thaw())
	c.Zombies++
}
