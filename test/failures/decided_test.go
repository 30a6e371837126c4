//go:build services

package failures

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// TestDecidedNotVisible (9): the only replica of an output partition dies just
// before EndTxn, so that the transaction is decided and its markers cannot be
// written; then the coordinator dies as well, and comes back. That state lasts
// for as long as the replica is away, and the worker says so with the
// transactional id; afterwards all is there, once.
func TestDecidedNotVisible(t *testing.T) {
	c := services.Kafka(t, three)
	p, px := behind(t, c, rig.Shape{
		Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "records"}, Restart: forever,
		// Longer than a dead replica holds up the coordinator's own log, which is 6 s
		// (broker.session.timeout.ms).
		Epoch: "{ timeout: 15s }",
	})
	id := txnID(p, 0, "a")
	replica, coordinator := loneOutput(p, id)
	l := p.Load(100, 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	w := p.Run(0)
	p.AwaitTasks(1, w)
	out.Current(l)
	end := px.Add(kafka.Rule{Key: kmsg.EndTxn, TxnID: id, Act: kafka.Hold()})
	met(t, "EndTxn", end, 1)
	rig.Check(t, c.Kill(replica))
	acked := px.Add(kafka.Rule{Key: kmsg.EndTxn, Answer: true, TxnID: id, Where: func(m *kafka.Message) bool {
		r, ok := m.Response().(*kmsg.EndTxnResponse)
		return ok && r.ErrorCode == 0
	}})
	end.Release()
	met(t, "the acknowledgement of EndTxn", acked, 1)
	awaitPrepared(t, p, id)
	rig.Check(t, c.Kill(coordinator))
	rig.Check(t, c.Start(t.Context(), coordinator))
	rig.Await(t, "the worker to name the transactional id", func(context.Context) (string, bool) {
		w.MustLive()
		for _, e := range w.Entries() {
			if e.Msg == "attempt_over" && strings.Contains(e.Err, id) {
				t.Log(e.Err)
				return "", true
			}
		}
		return fmt.Sprint(count(w, "attempt_over"), " attempts are over"), false
	})
	awaitPrepared(t, p, id) // still, after the coordinator's return
	rig.Check(t, c.Start(t.Context(), replica))
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

// loneOutput gives the pipeline an output topic with one replica, on a node that
// coordinates neither of its transactional ids, and the node of the coordinator
// of id.
func loneOutput(p *rig.Pipeline, id string) (replica, coordinator int) {
	p.T.Helper()
	ctx := p.T.Context()
	found := p.Admin.FindTxnCoordinators(ctx, p.TxnIDs(1)(0)...)
	rig.Check(p.T, found.Error())
	coordinator = int(found[id].NodeID)
	taken := map[int32]bool{}
	for _, f := range found {
		taken[f.NodeID] = true
	}
	for node := int32(1); node <= 3; node++ {
		if !taken[node] {
			replica = int(node)
		}
	}
	p.Out += ".lone"
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = p.Out, -1, -1
	rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{int32(replica)}}}
	one := kmsg.NewCreateTopicsRequestTopicConfig()
	one.Name, one.Value = "min.insync.replicas", kadm.StringPtr("1")
	rt.Configs = append(rt.Configs, one)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, p.Client)
	rig.Check(p.T, err)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		p.T.Fatalf("create topic %s: error code %d", p.Out, code)
	}
	p.Write()
	return replica, coordinator
}
