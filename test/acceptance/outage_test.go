//go:build services

package acceptance

import (
	"context"
	"slices"
	"testing"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestLeaderElections: brokers are restarted one after the other under load. No
// record becomes a dead letter for it, and no worker gives up.
func TestLeaderElections(t *testing.T) {
	c := services.Kafka(t, three)
	p := rig.New(t, c, rig.Shape{Tasks: 4})
	l := p.Load(rig.Sized(t, 300.0, 1000), 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	ws := []*rig.Worker{p.Run(0), p.Run(1)}
	p.AwaitTasks(4, ws...)
	for round := range rig.Sized(t, 1, 5) {
		for id := 1; id <= 3; id++ {
			if round%2 == 0 {
				rig.Check(t, c.Node(id).Terminate()) // it hands its partitions over
				<-c.Node(id).Done()
			} else {
				rig.Check(t, c.Kill(id))
			}
			out.Current(l) // with two brokers
			rig.Check(t, c.Start(t.Context(), id))
			rig.Check(t, c.InSync(t.Context()))
			state, _ := l.Progress()
			t.Logf("broker %d was restarted: %s", id, state)
			for _, w := range ws {
				w.MustLive()
			}
		}
	}
	n := l.Stop()
	p.Partner.Calm()
	l.Complete(ws...)
	p.Stop(ws...)
	l.WantDecided()
	p.WantRight(n) // and no dead letter
}

// TestEmptyAndFullEpochs: bursts and quiet alternate, and a worker is killed in
// each (failure mode 14).
func TestEmptyAndFullEpochs(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 4, Epoch: "{ interval: 20ms }", Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	c := rig.NewChaos(p, rig.Random(t), 2)
	l := p.Load(0, 1)
	l.Watch(p.Tasks, nil)
	p.AwaitTasks(4, c.Slots...)
	for round := range rig.Sized(t, 6, 50) {
		l.Produce(0, int64(1+c.Rnd.IntN(1500)))
		if round%2 == 0 {
			<-l.Done
			c.Kill() // in the burst, or soon after
		}
		p.Partner.Calm() // late answers would only cost time here
		l.Complete()
		if round%2 == 1 {
			c.Kill() // with nothing to do
		}
	}
	p.AwaitTasks(4, c.Slots...)
	l.Complete(c.Slots...)
	p.Stop(c.Slots...)
	l.WantDecided()
	p.WantRight(l.Written())
}

// TestPartnerDown: while the partner is away the other sinks go on and memory
// does not grow; afterwards it gets everything, once.
func TestPartnerDown(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 4})
	p.Partner.Down.Store(true)
	l := p.Load(rig.Sized(t, 1000.0, 2000), 0)
	l.Watch(p.Tasks, nil)
	ws := []*rig.Worker{p.Run(0), p.Run(1)}
	p.AwaitTasks(4, ws...)
	n := rig.Sized(t, int64(30_000), 500_000)
	l.AtLeast(n / 3)
	before := peaks(t, ws)
	l.AtLeast(n)
	total := l.Stop()
	rig.Await(t, "the other sinks", func(context.Context) (string, bool) {
		state, _ := l.Progress()
		done := true
		for _, name := range []string{"enriched", "records", "lake"} {
			distinct, _ := l.Shown(name)
			done = done && int64(distinct) == total
		}
		return state, done
	})
	if k := len(p.Partner.Since(0)); k != 0 || p.Partner.CutWhileDown() == 0 {
		t.Errorf("the partner executed %d calls while it was down, and cut %d", k, p.Partner.CutWhileDown())
	}
	for i, after := range peaks(t, ws) {
		t.Logf("worker %d: at most %d MB resident, %d MB after a third of the outage", i, after>>20, before[i]>>20)
		if grown := after - before[i]; grown > 40<<20 || after > mostMemory {
			t.Errorf("worker %d has grown by %d MB to %d MB in the outage", i, grown>>20, after>>20)
		}
		if !slices.ContainsFunc(ws[i].Entries(), func(e rig.Entry) bool { return e.Msg == "breaker_opened" && e.Sink == "partner" }) {
			t.Errorf("worker %d did not open the breaker", i)
		}
	}
	p.Partner.Down.Store(false)
	l.Complete(ws...)
	p.Stop(ws...)
	l.WantDecided()
	p.Partner.Verify(t)
	p.WantRight(total)
}

func peaks(t *testing.T, ws []*rig.Worker) []int64 {
	t.Helper()
	var out []int64
	for _, w := range ws {
		peak, err := w.PeakRSS()
		rig.Check(t, err)
		out = append(out, peak)
	}
	return out
}
