//go:build services

package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"exactly/test/proxy"
	pgproxy "exactly/test/proxy/postgres"
)

// Storm is what a pipeline goes through. A seed makes a schedule of it.
type Storm struct {
	Payments    int64   // at least
	Rate        float64 // a second
	Workers     int
	Kills       int // of workers, with SIGKILL
	Zombies     int // workers frozen past their session and woken
	BrokerKills int // each comes back later
	Restarts    int // crashes of the database, which comes back after a while
	Rolls       int // rolling restarts of all workers, by SIGTERM
	Guests      int // workers that join and leave again: rebalances
	Moves       int // of all leaders and coordinators to other brokers, at once
	Cuts        int // of all connections to the database
	Delays      int // times in which the database answers late
}

// Step is one fault of a schedule.
type Step struct {
	Kind  string
	After time.Duration // pause before it
	On    int           // worker, or broker
	For   time.Duration // until what was ended is started again
}

func (s Step) String() string {
	return fmt.Sprintf("%s %s %d for %s", s.After.Round(time.Millisecond), s.Kind, s.On, s.For.Round(time.Millisecond))
}

// The kinds of steps.
const (
	stepKill    = "kill worker"
	stepZombie  = "freeze worker"
	stepBroker  = "kill broker"
	stepBack    = "start broker"
	stepRestart = "crash database"
	stepRoll    = "roll from worker"
	stepGuest   = "guest"
	stepMove    = "move leaders"
	stepCut     = "cut connections"
	stepDelay   = "delay answers"
)

// Schedule makes the steps of a seed. Brokers are away one at a time.
func (s Storm) Schedule(seed uint64, brokers int) []Step {
	rnd := rand.New(rand.NewPCG(seed, 1))
	between := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(rnd.Int64N(int64(most-least)))).Round(time.Millisecond)
	}
	var kinds []string
	for kind, n := range map[string]int{
		stepKill: s.Kills, stepZombie: s.Zombies, stepRestart: s.Restarts, stepRoll: s.Rolls, stepGuest: s.Guests,
		stepMove: s.Moves, stepCut: s.Cuts, stepDelay: s.Delays,
	} {
		kinds = append(kinds, slices.Repeat([]string{kind}, n)...)
	}
	slices.Sort(kinds)
	rnd.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var steps []Step
	for _, kind := range kinds {
		step := Step{Kind: kind, After: between(100*time.Millisecond, 2*time.Second), On: rnd.IntN(s.Workers)}
		switch kind {
		case stepKill:
			if rnd.IntN(3) == 0 { // its heirs may or may not have begun
				step.For = between(0, 8*time.Second)
			}
		case stepRestart:
			step.On, step.For = 0, between(0, 6*time.Second)
		case stepMove, stepCut:
			step.On = 0
		case stepDelay:
			step.On, step.For = 0, between(500*time.Millisecond, 3*time.Second)
		}
		steps = append(steps, step)
	}
	for i := range s.BrokerKills {
		part := len(steps) / s.BrokerKills
		at := i*(part+2) + rnd.IntN(max(part/2, 1))
		node := 1 + rnd.IntN(brokers)
		steps = slices.Insert(steps, min(at, len(steps)), Step{Kind: stepBroker, On: node})
		steps = slices.Insert(steps, min(at+1+max(part/3, 1), len(steps)), Step{Kind: stepBack, On: node})
	}
	return steps
}

// Over carries the storm out, once the pipeline is at work, and audits. What was decided has to be in every sink
// once, and nothing else to have been seen.
func (s Storm) Over(p *Pipeline) {
	t := p.T
	rnd := Random(t)
	steps := s.Schedule(rnd.Uint64(), len(p.Cluster.Bootstrap()))
	for i, step := range steps {
		t.Logf("schedule %d: %s", i, step)
	}
	l := p.Load(s.Rate, 0)
	l.Watch(p.Tasks, nil)
	c := NewChaos(p, rnd, s.Workers)
	p.AwaitTasks(p.Tasks, c.Slots...)
	l.Flows(100)
	for i, step := range steps {
		if slices.Contains([]string{stepCut, stepDelay, stepRestart}, step.Kind) {
			l.Advance() // who waits for a broker has nothing under way in the database
		}
		c.carryOut(step)
		state, _ := l.Progress()
		t.Logf("%d %s: %s; %s", i, step, c, state)
	}
	c.KillAll()
	Check(t, p.Cluster.InSync(t.Context()))
	l.AtLeast(s.Payments)
	n := l.Stop()
	if p.Partner != nil {
		p.Partner.Calm()
	}
	l.Complete(c.Slots...)
	if p.Totals != "" {
		p.AwaitTotals(n)
	}
	p.Stop(c.Slots...)
	l.WantDecided()
	if p.Partner != nil {
		p.Partner.Verify(t)
	}
	p.WantRight(n)
	if p.Postgres != nil {
		p.WantNothingOpen()
	}
	t.Logf("%d payments, %s", n, c)
}

func (c *Chaos) carryOut(s Step) {
	t := c.p.T
	t.Helper()
	Pause(t, s.After)
	switch s.Kind {
	case stepKill:
		c.kill(s.On, s.For)
	case stepZombie:
		c.freeze(s.On, c.p.Tasks)
	case stepBroker:
		Check(t, c.p.Cluster.Kill(s.On))
	case stepBack:
		Check(t, c.p.Cluster.Start(t.Context(), s.On))
		AwaitNil(t, "the brokers to be in sync", func(ctx context.Context) error { return c.p.Cluster.InSync(ctx) })
	case stepRestart:
		Check(t, c.p.Postgres.Crash())
		Pause(t, s.For)
		Check(t, c.p.Postgres.Start(t.Context()))
		c.Crashes++
	case stepMove:
		c.moveLeaders()
	case stepCut:
		c.p.Proxy.CutAll()
	case stepDelay:
		late := c.p.Proxy.Add(pgproxy.Rule{SQL: "", Answer: true, Times: proxy.Always, Act: pgproxy.Delay(100 * time.Millisecond)})
		Pause(t, s.For)
		late.Remove()
	case stepRoll:
		for i := range c.Slots {
			c.p.Stop(c.Slots[i])
			c.Slots[i] = c.p.Run(i)
			c.p.AwaitTasks(c.p.Tasks, c.Slots...)
		}
		c.Rolls++
	case stepGuest:
		w := c.p.Run(len(c.Slots))
		Pause(t, 2*time.Second)
		c.p.Stop(w)
	default:
		t.Fatalf("a step %s", s.Kind)
	}
}

// moveLeaders makes another replica the preferred leader of every partition that the
// pipeline uses, those of the coordinators included, and has it elected.
func (c *Chaos) moveLeaders() {
	ctx, t := c.p.T.Context(), c.p.T
	meta, err := c.p.Admin.Metadata(ctx, "__transaction_state", "__consumer_offsets", c.p.Raw, c.p.Out, c.p.Journal(), c.p.Group()+".g1.outbox")
	Check(t, err)
	var to kadm.AlterPartitionAssignmentsReq
	set := kadm.TopicsSet{}
	for _, topic := range meta.Topics {
		for _, p := range topic.Partitions {
			if n := len(p.Replicas); n > 1 {
				to.Assign(topic.Topic, p.Partition, append(slices.Clone(p.Replicas[1:]), p.Replicas[0]))
				set.Add(topic.Topic, p.Partition)
			}
		}
	}
	_, err = c.p.Admin.AlterPartitionAssignments(ctx, to)
	Check(t, err)
	_, err = c.p.Admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set) // what cannot be elected stays where it is
	Check(t, err)
	c.Moves++
}

// String is for the log of the test.
func (c *Chaos) String() string {
	b := []string{fmt.Sprintf("%d kills", c.kills)}
	for _, part := range []struct {
		n    int
		what string
	}{{c.Moves, "moves of all leaders"}, {c.Zombies, "zombies"}, {c.Crashes, "database crashes"}, {c.Rolls, "rolling restarts"}} {
		if part.n > 0 {
			b = append(b, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(b, ", ")
}
