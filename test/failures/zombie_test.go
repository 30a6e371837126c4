//go:build services

package failures

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestZombieBeforeDecision (3, 4): the owner stands still just before EndTxn
// until others have its tasks and have decided, and goes on then. It is fenced
// whatever the number of workers, since transactional ids are made from tasks
// only. The journal is read after the fence, so nobody misses what it had
// decided.
func TestZombieBeforeDecision(t *testing.T) {
	for _, heirs := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d heirs", heirs), func(t *testing.T) {
			p, px := behind(t, services.Kafka(t, three), rig.Shape{Tasks: 2, Partitions: 2, Sinks: []string{"enriched", "lake"}, Restart: forever})
			l := p.Load(200, 0)
			l.Watch(p.Tasks, nil)
			out := p.Follow()
			zombie := p.Run(0, "epoch/before-decision:task=0:hit=10=freeze")
			rig.Await(t, "the owner to stand still", func(context.Context) (string, bool) { return "it runs", zombie.Frozen() })
			var ws []*rig.Worker
			for i := range heirs {
				ws = append(ws, p.Run(i+1))
			}
			awaitAll(t, 2, ws)
			out.Current(l)
			codes := refusals(px, kmsg.EndTxn, "")
			rig.Check(t, zombie.Thaw())
			// It sends its EndTxn, or hears first that the task is not its own.
			rig.Await(t, "the zombie to give up", func(context.Context) (string, bool) {
				select {
				case code := <-codes: // of somebody's who is not fenced: a retriable one
					err := kerr.ErrorForCode(code)
					t.Logf("EndTxn was refused: %v", err)
					return "", !kerr.IsRetriable(err)
				default:
					return "", count(zombie, "task_revoked")+count(zombie, "attempt_over") > 0
				}
			})
			out.Current(l)
			wantIDs(t, p)
			finish(p, l, append(ws, zombie)...)
		})
	}
}

// awaitAll waits until the workers together run n tasks, however they share
// them.
func awaitAll(t *testing.T, n int, ws []*rig.Worker) {
	t.Helper()
	rig.Await(t, fmt.Sprintf("%d tasks to run", n), func(context.Context) (string, bool) {
		state, all := "", 0
		for _, w := range ws {
			w.MustLive()
			state += fmt.Sprintf("worker %d runs %v; ", w.Slot, w.Tasks())
			all += len(w.Tasks())
		}
		return state, all == n
	})
}

// awaitCalm waits until the group has all of n workers. One that dies while it joins is
// given tasks by the next rebalance all the same, and they wait for a second session.
func awaitCalm(t *testing.T, p *rig.Pipeline, n int) {
	t.Helper()
	rig.Await(t, "the group to be stable", func(ctx context.Context) (string, bool) {
		gs, err := p.Admin.DescribeGroups(ctx, p.Group())
		rig.Check(t, err)
		g := gs[p.Group()]
		return fmt.Sprint(g.State, len(g.Members)), g.State == "Stable" && len(g.Members) == n
	})
}

// wantIDs wants the brokers to know two transactional ids for each task of the
// pipeline, beside that of its meta topic, and no other.
func wantIDs(t *testing.T, p *rig.Pipeline) {
	t.Helper()
	listed, err := p.Admin.ListTransactions(t.Context(), nil, nil)
	rig.Check(t, err)
	var got, want []string
	for _, id := range listed.TransactionalIDs() {
		if strings.HasPrefix(id, p.Group()+".g") {
			got = append(got, id)
		}
	}
	for task := range p.Tasks {
		want = append(want, p.TxnIDs(p.Tasks)(int32(task))...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("transactional ids: got %v, want %v", got, want)
	}
}

// TestNeighbours (5): pipelines whose names begin alike, with tasks whose
// numbers do, leave each other alone; one of the same name is refused while the
// first runs, and told of it.
func TestNeighbours(t *testing.T) {
	c := services.Kafka(t, one)
	shape := rig.Shape{Tasks: 12, Partitions: 12, Sinks: []string{"enriched"}, Restart: forever}
	first, second := rig.New(t, c, shape), rig.New(t, c, shape)
	second.Name = first.Name + "-1"
	second.Write()
	l, m := first.Load(200, 0), second.Load(200, 0)
	l.Watch(12, nil)
	m.Watch(12, nil)
	steady, killed := first.Run(0), second.Run(0)
	for range rig.Sized(t, 2, 10) {
		first.AwaitTasks(12, steady)
		second.AwaitTasks(12, killed)
		rig.Check(t, killed.Kill())
		killed = second.Run(0)
	}
	second.AwaitTasks(12, killed)
	other := rig.New(t, c, rig.Shape{Tasks: 12, Partitions: 12, Sinks: []string{"enriched"}})
	other.Name = first.Name
	other.Write()
	other.Refused(3, "source.topics", "made 20", " by ")
	if n := count(steady, "attempt_over"); n > 0 {
		t.Errorf("%d attempts of the first pipeline are over: a neighbour has fenced it", n)
	}
	finish(first, l, steady)
	finish(second, m, killed)
}

// TestTransactionsOfTheDead (6): what killed workers left open does not hold up
// readers; their heirs end it, with any number of workers.
func TestTransactionsOfTheDead(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 5, Partitions: 5, Sinks: []string{"enriched"}, Epoch: "{ interval: 2s }"})
	l := p.Load(500, 0)
	l.Watch(p.Tasks, nil)
	ws := []*rig.Worker{p.Run(0), p.Run(1), p.Run(2), p.Run(3), p.Run(4)}
	for _, heirs := range []int{2, 7} {
		awaitAll(t, 5, ws)
		awaitCalm(t, p, len(ws))
		rig.Await(t, "every task to have a transaction open", func(ctx context.Context) (string, bool) {
			open := p.OpenSince(ctx, time.Time{})
			return fmt.Sprint(open), len(open) >= 5
		})
		for _, w := range ws {
			rig.Check(t, w.Kill())
		}
		killed := time.Now()
		left := p.OpenSince(t.Context(), time.Time{})
		if len(left) == 0 {
			t.Error("the killed workers left no transaction open: there is nothing to see")
		}
		ws = nil
		for i := range heirs {
			ws = append(ws, p.Run(i))
		}
		var took time.Duration
		rig.Await(t, "transactions of the dead to be ended", func(ctx context.Context) (string, bool) {
			open := p.OpenBefore(ctx, killed)
			took = time.Since(killed)
			return fmt.Sprint(open), len(open) == 0
		})
		t.Logf("%d transactions left open by the dead, ended by %d workers after %s", len(left), heirs, took)
		if took > 10*time.Second {
			t.Errorf("transactions of dead workers were open for %s, want 10s at most", took)
		}
	}
	awaitAll(t, 5, ws)
	finish(p, l, ws...)
	if open := p.OpenSince(t.Context(), time.Time{}); len(open) > 0 {
		t.Errorf("open after a graceful stop: %v", open)
	}
}
