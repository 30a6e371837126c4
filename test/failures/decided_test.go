//go:build services

package failures

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// TestDecidedNotVisible (9): the leader of the output partition stands still when
// EndTxn arrives, so that the transaction is decided and its markers cannot be
// written; in this state the coordinator is killed. The next one writes the
// markers. The worker goes on then; what takes it longer than an epoch may last
// is no silent hang, since it says which transactional id it waits for.
func TestDecidedNotVisible(t *testing.T) {
	const epochTimeout = 8 * time.Second
	// The coordinator's own log does without the frozen replica soon, or EndTxn
	// would not be answered; and the coordinator is away for longer than an epoch.
	c := services.Kafka(t, services.Options{Nodes: 3, Own: true, Settings: "replica.lag.time.max.ms=1000\nbroker.session.timeout.ms=15000"})
	p, px := behind(t, c, rig.Shape{
		Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "records"}, Restart: forever, Epoch: fmt.Sprintf("{ timeout: %s }", epochTimeout),
	})
	id, leader, coordinator := apart(p)
	l := p.Load(100, 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	w := p.Run(0)
	p.AwaitTasks(1, w)
	out.Current(l)
	end := px.Add(kafka.Rule{Key: kmsg.EndTxn, TxnID: id, Act: kafka.Hold()})
	met(t, "EndTxn", end, 1)
	rig.Check(t, c.Node(leader).Freeze(t.Context()))
	acked := px.Add(kafka.Rule{Key: kmsg.EndTxn, Answer: true, TxnID: id, Where: func(m *kafka.Message) bool {
		r, ok := m.Response().(*kmsg.EndTxnResponse)
		return ok && r.ErrorCode == 0
	}})
	end.Release()
	met(t, "the acknowledgement of EndTxn", acked, 1)
	awaitPrepared(t, p, id)
	rig.Check(t, c.Kill(coordinator))
	decided := time.Now()
	rig.Check(t, c.Node(leader).Thaw())
	out.Current(l) // with the next coordinator
	took, named := time.Since(decided).Round(time.Second), ""
	for _, e := range w.Entries() {
		if e.Msg == "attempt_over" && e.Time.After(decided) && strings.Contains(e.Err, p.Group()+".g1.t0.") {
			named = e.Err
		}
	}
	t.Logf("decided and visible %s after the coordinator's death; the worker said: %q", took, named)
	if named == "" && took > 2*epochTimeout {
		t.Errorf("nothing went on for %s, and the worker did not say at which transactional id", took)
	}
	rig.Check(t, c.Start(t.Context(), coordinator))
	rig.Check(t, c.InSync(t.Context()))
	out.Current(l)
	finish(p, l, w)
}

// awaitPrepared waits until a transaction is decided and has markers to write.
func awaitPrepared(t *testing.T, p *rig.Pipeline, id string) {
	t.Helper()
	rig.Await(t, "a transaction that is decided and not visible", func(ctx context.Context) (string, bool) {
		described, err := p.Admin.DescribeTransactions(ctx, id)
		if err != nil {
			return err.Error(), false
		}
		d := described[id]
		return fmt.Sprint(d.State, d.Err), d.State == "PrepareCommit"
	})
}

// TestFrozenPastEveryTimeout (13): the only worker stands still for longer than
// session, transaction and epoch last, before the decision and after it.
func TestFrozenPastEveryTimeout(t *testing.T) {
	for _, tt := range []struct {
		point   string
		decided bool
	}{
		{"epoch/journaled", false},
		{"epoch/before-decision", false},
		{"epoch/decided", true},
		{"epoch/before-apply", true},
	} {
		t.Run(strings.ReplaceAll(tt.point, "/", " "), func(t *testing.T) {
			t.Parallel()
			p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 1, Partitions: 1, Epoch: "{ timeout: 2s }"})
			l := p.Load(50, 0)
			l.Watch(p.Tasks, nil)
			w := p.Run(0, tt.point+":hit=10=freeze")
			rig.Await(t, "the worker to stand still", func(context.Context) (string, bool) { return "it runs", w.Frozen() })
			frozen := time.Now()
			rig.Await(t, "session and transactions to time out", func(ctx context.Context) (string, bool) {
				groups, err := p.Admin.DescribeGroups(ctx, p.Group())
				rig.Check(t, err)
				open := p.OpenBefore(ctx, frozen)
				return fmt.Sprint(groups[p.Group()].State, open), len(groups[p.Group()].Members) == 0 && len(open) == 0
			})
			t.Logf("frozen for %s", time.Since(frozen).Round(time.Second))
			before := count(w, "attempt_over") + count(w, "task_revoked")
			rig.Check(t, w.Thaw())
			rig.Await(t, "the worker to begin anew", func(context.Context) (string, bool) {
				w.MustLive()
				n := count(w, "task_taken_over")
				return fmt.Sprint(n), n > 1 && count(w, "attempt_over")+count(w, "task_revoked") > before
			})
			finish(p, l, w)
		})
	}
}

// apart gives the pipeline a name and an output topic by which the leader of the
// topic coordinates neither its transactions nor its group, and gives that
// leader and the coordinator of the transactional id, which is not the group's.
// (What a coordinator says that has just woken is of yesterday: no watcher can
// judge by it. And a worker whose group is away gives up its task before it
// waits for anything else.)
func apart(p *rig.Pipeline) (id string, leader, coordinator int) {
	p.T.Helper()
	ctx := p.T.Context()
	for {
		ids := p.TxnIDs(p.Tasks)(0)
		txns, groups := p.Admin.FindTxnCoordinators(ctx, ids...), p.Admin.FindGroupCoordinators(ctx, p.Group())
		rig.Check(p.T, errors.Join(txns.Error(), groups.Error()))
		taken := map[int32]bool{groups[p.Group()].NodeID: true}
		for _, c := range txns {
			taken[c.NodeID] = true
		}
		topics, err := p.Admin.ListTopics(ctx, p.Out)
		rig.Check(p.T, err)
		coordinator = int(txns[ids[0]].NodeID)
		alone := int32(coordinator) != groups[p.Group()].NodeID
		if at := topics[p.Out].Partitions[0].Leader; alone && !taken[at] {
			p.Write()
			return ids[0], int(at), coordinator
		}
		if !alone || len(taken) == 3 {
			p.Name += "x" // the coordinators follow from names
			continue
		}
		p.Out = p.Cluster.Topic(p.T, "out", 1, nil) // leaders are drawn by lot
	}
}
