//go:build services

package acceptance

import (
	"testing"

	"exactly/internal/services"
)

// TestKillsOnThreeBrokers: workers are killed at random and frozen past their
// session, a broker is killed and comes back, and every sink ends right, with
// nothing undecided ever seen.
func TestKillsOnThreeBrokers(t *testing.T) {
	c := services.Kafka(t, three)
	p := newPipeline(t, c, shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	storm{
		payments: sized(t, int64(20_000), 100_000), rate: sized(t, 400.0, 1000),
		kills: sized(t, 12, 50), zombies: sized(t, 1, 4), workers: 3, broker: true,
	}.over(p)
}

// TestKillsWithTransactionVersion1: brokers on which AddOffsetsToTxn is needed
// and producer epochs do not rise with each transaction (before KIP-890).
func TestKillsWithTransactionVersion1(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3, TransactionVersion: 1, Own: true})
	p := newPipeline(t, c, shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	storm{
		payments: sized(t, int64(5_000), 100_000), rate: sized(t, 300.0, 1000),
		kills: sized(t, 5, 50), zombies: 1, workers: 2, broker: true,
	}.over(p)
}

// storm is what a pipeline goes through.
type storm struct {
	payments                int64 // at least
	rate                    float64
	kills, zombies, workers int
	broker                  bool // one broker is killed and comes back
}

// over carries the storm out and audits.
func (s storm) over(p *pipeline) {
	t := p.t
	rnd := random(t)
	l := p.load(s.rate, 0)
	l.watch(p.Tasks, nil)
	c := newChaos(p, rnd, s.workers)
	p.awaitTasks(p.Tasks, c.slots...)
	node := 1 + rnd.IntN(3)
	for i := range s.kills {
		if s.broker && i == s.kills/3 {
			check(t, p.c.Kill(node))
			t.Logf("killed broker %d", node)
		}
		if s.broker && i == 2*s.kills/3 {
			check(t, p.c.Start(t.Context(), node))
		}
		if i%(s.kills/s.zombies) == s.kills/s.zombies/2 && c.zombies < s.zombies {
			c.zombie(p.Tasks)
		}
		c.kill()
		state, _ := l.progress()
		t.Logf("%s: %s", c, state)
	}
	c.killAll()
	check(t, p.c.InSync(t.Context()))
	l.atLeast(s.payments)
	n := l.stop()
	p.partner.calm()
	l.complete(c.slots...)
	p.stop(c.slots...)
	l.wantDecided()
	p.partner.verify(t)
	p.wantRight(n)
	t.Logf("%d payments, %s", n, c)
}
