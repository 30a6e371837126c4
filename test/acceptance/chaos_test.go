//go:build services

package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// chaos kills and freezes the workers of a pipeline at random.
type chaos struct {
	p     *pipeline
	rnd   *rand.Rand
	slots []*worker // by slot, from 0; never nil

	kills, zombies int
}

// newChaos starts n workers.
func newChaos(p *pipeline, rnd *rand.Rand, n int) *chaos {
	c := &chaos{p: p, rnd: rnd}
	for i := range n {
		c.slots = append(c.slots, p.start(i))
	}
	return c
}

// between gives a random time.
func (c *chaos) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rnd.Int64N(int64(most-least)))
}

// kill ends one worker with SIGKILL at a random moment, and starts it again:
// at once, or after a while in which its heirs may or may not have begun.
func (c *chaos) kill() {
	pause(c.p.t, c.between(100*time.Millisecond, 2*time.Second))
	i := c.rnd.IntN(len(c.slots))
	c.slots[i].mustLive()
	check(c.p.t, c.slots[i].Kill())
	c.kills++
	if c.rnd.IntN(3) == 0 {
		pause(c.p.t, c.between(0, 8*time.Second))
	}
	c.slots[i] = c.p.start(i)
}

// killAll ends every worker at once and starts them again: what is left is in
// Kafka and in the sinks.
func (c *chaos) killAll() {
	for _, w := range c.slots {
		w.mustLive()
		check(c.p.t, w.Kill())
		c.kills++
	}
	for i := range c.slots {
		c.slots[i] = c.p.start(i)
	}
}

// zombie freezes one worker that runs a task until its session is over and
// others run all tasks, and then lets it go on.
func (c *chaos) zombie(tasks int) {
	c.p.t.Helper()
	c.p.awaitTasks(tasks, c.slots...)
	pause(c.p.t, c.between(0, time.Second))
	i := c.rnd.IntN(len(c.slots))
	w := c.slots[i]
	check(c.p.t, w.Freeze(c.p.t.Context()))
	var heirs []*worker
	for _, o := range c.slots {
		if o != w {
			heirs = append(heirs, o)
		}
	}
	await(c.p.t, "the frozen worker's tasks to be taken over", func(context.Context) (string, bool) {
		n := 0
		for _, h := range heirs {
			h.mustLive()
			n += len(h.tasks())
		}
		return fmt.Sprintf("%d of %d", n, tasks), n == tasks
	})
	check(c.p.t, w.Thaw())
	c.zombies++
}

// String is for the log of the test.
func (c *chaos) String() string { return fmt.Sprintf("%d kills, %d zombies", c.kills, c.zombies) }
