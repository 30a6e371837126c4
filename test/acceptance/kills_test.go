//go:build services

package acceptance

import (
	"testing"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestKillsOnThreeBrokers: workers are killed at random and frozen past their
// session, a broker is killed and comes back, and every sink ends right, with
// nothing undecided ever seen.
func TestKillsOnThreeBrokers(t *testing.T) {
	c := services.Kafka(t, three)
	p := rig.New(t, c, rig.Shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	storm{
		payments: rig.Sized(t, int64(20_000), 100_000), rate: rig.Sized(t, 400.0, 1000),
		kills: rig.Sized(t, 12, 50), zombies: rig.Sized(t, 1, 4), workers: 3, broker: true,
	}.over(p)
}

// TestKillsWithTransactionVersion1: brokers on which AddOffsetsToTxn is needed
// and producer epochs do not rise with each transaction (before KIP-890).
func TestKillsWithTransactionVersion1(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3, TransactionVersion: 1, Own: true})
	p := rig.New(t, c, rig.Shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	storm{
		payments: rig.Sized(t, int64(5_000), 100_000), rate: rig.Sized(t, 300.0, 1000),
		kills: rig.Sized(t, 5, 50), zombies: 1, workers: 2, broker: true,
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
func (s storm) over(p *rig.Pipeline) {
	t := p.T
	rnd := rig.Random(t)
	l := p.Load(s.rate, 0)
	l.Watch(p.Tasks, nil)
	c := rig.NewChaos(p, rnd, s.workers)
	p.AwaitTasks(p.Tasks, c.Slots...)
	node := 1 + rnd.IntN(3)
	for i := range s.kills {
		if s.broker && i == s.kills/3 {
			rig.Check(t, p.Cluster.Kill(node))
			t.Logf("killed broker %d", node)
		}
		if s.broker && i == 2*s.kills/3 {
			rig.Check(t, p.Cluster.Start(t.Context(), node))
		}
		if i%(s.kills/s.zombies) == s.kills/s.zombies/2 && c.Zombies < s.zombies {
			c.Zombie(p.Tasks)
		}
		c.Kill()
		state, _ := l.Progress()
		t.Logf("%s: %s", c, state)
	}
	c.KillAll()
	rig.Check(t, p.Cluster.InSync(t.Context()))
	l.AtLeast(s.payments)
	n := l.Stop()
	p.Partner.Calm()
	l.Complete(c.Slots...)
	p.Stop(c.Slots...)
	l.WantDecided()
	p.Partner.Verify(t)
	p.WantRight(n)
	t.Logf("%d payments, %s", n, c)
}
