package demo

import (
	"context"
	"time"
)

// ration lets the payments of one of the steps ahead through: half of its share
// at once, the rest when there would be nothing to process.
func (c *chaos) ration(ahead int) {
	share := c.prod.left() / int64(ahead+1)
	c.budget = share - share/2
	c.prod.grant(share/2, pacePerKill)
}

// feed lets a few payments through if there is nothing to process, so that what
// is waited for can come about. It reports whether there is work, or may be.
func (c *chaos) feed() bool {
	granted := c.prod.granted()
	if c.x.written() < granted || c.x.distinct("enriched") < granted {
		return true
	}
	few := min(int64(c.outs.tasks), c.budget)
	c.budget -= few
	c.prod.grant(few, 20*time.Millisecond)
	return few > 0
}

// recovered waits until every task has had output, or there is nothing left to
// put out.
func (c *chaos) recovered(ctx context.Context, w *recovery) bool {
	limit := time.NewTimer(recoverTimeout)
	defer limit.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.all:
			return true
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
			if !c.feed() {
				return false
			}
		}
	}
}
