//go:build services

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"exactly/internal/services"
)

// TestLeaderElections: brokers are restarted one after the other under load. No
// record becomes a dead letter for it, and no worker gives up.
func TestLeaderElections(t *testing.T) {
	c := services.Kafka(t, three)
	p := newPipeline(t, c, shape{Tasks: 4})
	l := p.load(sized(t, 300.0, 1000), 0)
	l.watch(p.Tasks, nil)
	out := p.outputs()
	ws := []*worker{p.start(0), p.start(1)}
	p.awaitTasks(4, ws...)
	for round := range sized(t, 1, 5) {
		for id := 1; id <= 3; id++ {
			if round%2 == 0 {
				check(t, c.Node(id).Terminate()) // it hands its partitions over
				<-c.Node(id).Done()
			} else {
				check(t, c.Kill(id))
			}
			out.current(l) // with two brokers
			check(t, c.Start(t.Context(), id))
			check(t, c.InSync(t.Context()))
			state, _ := l.progress()
			t.Logf("broker %d was restarted: %s", id, state)
			for _, w := range ws {
				w.mustLive()
			}
		}
	}
	n := l.stop()
	p.partner.calm()
	l.complete(ws...)
	p.stop(ws...)
	l.wantDecided()
	p.wantRight(n) // and no dead letter
}

// TestEmptyAndFullEpochs: bursts and quiet alternate, and a worker is killed in
// each (failure mode 14).
func TestEmptyAndFullEpochs(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Tasks: 4, Epoch: "{ interval: 20ms }", Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	c := newChaos(p, random(t), 2)
	l := p.load(0, 1)
	l.watch(p.Tasks, nil)
	p.awaitTasks(4, c.slots...)
	for round := range sized(t, 6, 50) {
		l.produce(0, int64(1+c.rnd.IntN(1500)))
		if round%2 == 0 {
			<-l.done
			c.kill() // in the burst, or soon after
		}
		p.partner.calm() // late answers would only cost time here
		l.complete()
		if round%2 == 1 {
			c.kill() // with nothing to do
		}
	}
	p.awaitTasks(4, c.slots...)
	l.complete(c.slots...)
	p.stop(c.slots...)
	l.wantDecided()
	p.wantRight(l.written())
}

// TestPartnerDown: while the partner is away the other sinks go on and memory
// does not grow; afterwards it gets everything, once.
func TestPartnerDown(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Tasks: 4})
	p.partner.down.Store(true)
	l := p.load(sized(t, 1000.0, 2000), 0)
	l.watch(p.Tasks, nil)
	ws := []*worker{p.start(0), p.start(1)}
	p.awaitTasks(4, ws...)
	n := sized(t, int64(30_000), 500_000)
	l.atLeast(n / 3)
	before := peaks(t, ws)
	l.atLeast(n)
	total := l.stop()
	await(t, "the other sinks", func(context.Context) (string, bool) {
		state, _ := l.progress()
		done := true
		for _, name := range []string{"enriched", "records", "lake"} {
			distinct, _ := l.shown(name)
			done = done && int64(distinct) == total
		}
		return state, done
	})
	if k := len(p.partner.since(0)); k != 0 || p.partner.cutWhileDown() == 0 {
		t.Errorf("the partner executed %d calls while it was down, and cut %d", k, p.partner.cutWhileDown())
	}
	for i, after := range peaks(t, ws) {
		t.Logf("worker %d: at most %d MB resident, %d MB after a third of the outage", i, after>>20, before[i]>>20)
		if grown := after - before[i]; grown > 40<<20 || after > mostMemory {
			t.Errorf("worker %d has grown by %d MB to %d MB in the outage", i, grown>>20, after>>20)
		}
		if !slices.ContainsFunc(ws[i].log(), func(e entry) bool { return e.Msg == "breaker_opened" && e.Sink == "partner" }) {
			t.Errorf("worker %d did not open the breaker", i)
		}
	}
	p.partner.down.Store(false)
	l.complete(ws...)
	p.stop(ws...)
	l.wantDecided()
	p.partner.verify(t)
	p.wantRight(total)
}

func peaks(t *testing.T, ws []*worker) []int64 {
	t.Helper()
	var out []int64
	for _, w := range ws {
		peak, err := w.PeakRSS()
		check(t, err)
		out = append(out, peak)
	}
	return out
}

// TestTransactionsOfTheDead: what killed workers left open does not hold up
// readers; their heirs end it, with any number of workers (failure mode 6).
func TestTransactionsOfTheDead(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Tasks: 4, Sinks: []string{"enriched"}, Epoch: "{ interval: 2s }"})
	l := p.load(500, 0)
	l.watch(p.Tasks, nil)
	ws := []*worker{p.start(0), p.start(1), p.start(2), p.start(3)}
	for _, heirs := range []int{2, 3} {
		p.awaitTasks(4, ws...)
		await(t, "every task to have a transaction open", func(ctx context.Context) (string, bool) {
			open := p.openSince(ctx, time.Time{})
			return fmt.Sprint(open), len(open) >= 4
		})
		for _, w := range ws {
			check(t, w.Kill())
		}
		killed := time.Now()
		left := p.openSince(t.Context(), time.Time{})
		if len(left) == 0 {
			t.Error("the killed workers left no transaction open: there is nothing to see")
		}
		ws = nil
		for i := range heirs {
			ws = append(ws, p.start(i))
		}
		var took time.Duration
		await(t, "transactions of the dead to be ended", func(ctx context.Context) (string, bool) {
			open := p.openBefore(ctx, killed)
			took = time.Since(killed)
			return fmt.Sprint(open), len(open) == 0
		})
		t.Logf("%d transactions left open by the dead, ended by %d workers after %s", len(left), heirs, took)
		if took > 10*time.Second {
			t.Errorf("transactions of dead workers were open for %s, want 10s at most", took)
		}
	}
	n := l.stop()
	l.complete(ws...)
	p.stop(ws...)
	if open := p.openSince(t.Context(), time.Time{}); len(open) > 0 {
		t.Errorf("open after a graceful stop: %v", open)
	}
	l.wantDecided()
	p.wantRight(n)
}

// openSince lists the pipeline's transactions that are open and began at or
// after a time.
func (p *pipeline) openSince(ctx context.Context, from time.Time) []string {
	return p.open(ctx, func(begin time.Time) bool { return !begin.Before(from) })
}

// openBefore lists those that began before a time.
func (p *pipeline) openBefore(ctx context.Context, to time.Time) []string {
	return p.open(ctx, func(begin time.Time) bool { return begin.Before(to) })
}

func (p *pipeline) open(ctx context.Context, match func(begin time.Time) bool) []string {
	p.t.Helper()
	var ids []string
	for task := range p.Tasks {
		ids = append(ids, p.txnIDs(p.Tasks)(int32(task))...)
	}
	described, err := p.adm.DescribeTransactions(ctx, ids...)
	check(p.t, err)
	var out []string
	for _, d := range described.Sorted() {
		if errors.Is(d.Err, kerr.TransactionalIDNotFound) {
			continue
		}
		check(p.t, d.Err)
		if d.State == "Ongoing" && match(time.UnixMilli(d.StartTimestamp)) {
			out = append(out, d.TxnID)
		}
	}
	return out
}
