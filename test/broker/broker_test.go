//go:build services

package broker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/services"
)

var three = services.Options{Nodes: 3}

// planned makes source and output topics and gives the plan over them.
func planned(t *testing.T, c *services.KafkaCluster, a *broker.Admin) (broker.PlanInput, broker.Plan) {
	t.Helper()
	in := broker.PlanInput{
		Names: a.Names(1), Tasks: 2, Sources: []string{c.Topic(t, "in", 4, nil)}, Outputs: []string{c.Topic(t, "out", 2, nil)},
		DeadLetter: a.Config().Pipeline + ".dlq", State: true, CreateTopics: true,
	}
	p, err := broker.NewPlan(in)
	check(t, err)
	return in, p
}

// TestTopics: the brokers take the planned settings, and report them as the
// check wants them.
func TestTopics(t *testing.T) {
	c := services.Kafka(t, three)
	a, ctx := admin(t, config(c.Bootstrap())), deadline(t)
	in, p := planned(t, c, a)
	infos, err := a.EnsureTopics(ctx, p.Topics...)
	check(t, err)
	confs, err := c.Admin(t).DescribeTopicConfigs(ctx, in.Names.Journal(), in.Names.Outbox(), in.Names.State(), in.Names.Meta(), in.DeadLetter)
	check(t, err)
	for _, r := range confs {
		got := map[string]string{}
		for _, kv := range r.Configs {
			got[kv.Key] = kv.MaybeValue()
		}
		for _, s := range p.Topics {
			if s.Name != r.Name {
				continue
			}
			for k, want := range s.Config {
				if got[k] != want {
					t.Errorf("%s: %s is %q, want %q", s.Name, k, got[k], want)
				}
			}
			if got["min.insync.replicas"] != "2" || infos[s.Name].Replication != 3 {
				t.Errorf("%s: %d replicas, min.insync.replicas %s", s.Name, infos[s.Name].Replication, got["min.insync.replicas"])
			}
		}
	}
	again, err := a.EnsureTopics(ctx, p.Topics...)
	check(t, err)
	if again[in.Names.Journal()].ID != infos[in.Names.Journal()].ID {
		t.Error("the second time made another journal")
	}
	larger := in
	larger.MaxSourceBytes = 20 << 20
	lp, err := broker.NewPlan(larger)
	check(t, err)
	_, err = a.EnsureTopics(ctx, lp.Spec(broker.KindOutbox, broker.KindDeadLetter)...)
	check(t, err)
	l := broker.NewLimits(a)
	for l.Topic(in.Names.Outbox()) != 20<<20+broker.HeaderRoom { // brokers learn of settings one after the other
		check(t, ctx.Err())
		check(t, l.Load(ctx, in.Names.Outbox()))
	}
}

func TestFeatures(t *testing.T) {
	f, err := admin(t, config(services.Kafka(t, three).Bootstrap())).Features(deadline(t))
	check(t, err)
	if f.TransactionVersion != 2 || f.Brokers != 3 || f.ClusterID == "" || f.MaxTransactionTimeout != 15*time.Minute {
		t.Errorf("got %+v", f)
	}
	old, err := admin(t, config(services.Kafka(t, services.Options{Nodes: 1, TransactionVersion: 1}).Bootstrap())).Features(deadline(t))
	check(t, err)
	if old.TransactionVersion != 1 || old.Brokers != 1 {
		t.Errorf("got %+v, want transaction version 1", old)
	}
}

// TestMetaAtOnce: workers that start together agree on one incarnation.
func TestMetaAtOnce(t *testing.T) {
	c := services.Kafka(t, three)
	for range 3 {
		conf, ctx := config(c.Bootstrap()), deadline(t)
		a := admin(t, conf)
		_, p := planned(t, c, a)
		_, err := a.EnsureTopics(ctx, p.Spec(broker.KindMeta)...)
		check(t, err)
		got := make([]broker.Meta, 4)
		var wg sync.WaitGroup
		for i := range got {
			w := admin(t, conf)
			m := meta(t, w, nil, "")
			wg.Go(func() {
				var err error
				if got[i], err = w.CreateMeta(ctx, m); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range got {
			if got[i].Incarnation == "" || got[i].Incarnation != got[0].Incarnation {
				t.Fatalf("worker %d has incarnation %q, worker 0 %q", i, got[i].Incarnation, got[0].Incarnation)
			}
		}
	}
}

// TestStartAndTrim: offsets by position, time and group; trimming twice.
func TestStartAndTrim(t *testing.T) {
	c := services.Kafka(t, three)
	a, ctx := admin(t, config(c.Bootstrap())), deadline(t)
	in := c.Topic(t, "in", 2, nil)
	cl := client(t, a, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 10 {
		check(t, cl.ProduceSync(ctx, &kgo.Record{Topic: in, Value: []byte("v"), Timestamp: time.UnixMilli(int64(1_700_000_000_000 + i*1000))}).FirstErr())
	}
	open := client(t, a, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(in))
	check(t, open.BeginTransaction())
	check(t, open.ProduceSync(ctx, &kgo.Record{Topic: in, Value: []byte("open"), Timestamp: time.UnixMilli(1_700_000_010_000)}).FirstErr())
	check(t, a.Trim(ctx, in, 0, 3))
	check(t, a.Trim(ctx, in, 0, 2))
	if err := a.Trim(ctx, in, 0, 1000); broker.CodeOf(err) != broker.CodeTrim {
		t.Errorf("a trim beyond the end: got %v", err)
	}
	infos, err := a.DescribeTopics(ctx, in)
	check(t, err)
	ids := map[string][16]byte{in: infos[in].ID}
	check(t, a.CommitOffsets(ctx, broker.Membership{Generation: -1}, broker.Offsets{in: {0: {Offset: 6, Epoch: 0}}}, ids))
	for start, want := range map[string][2]int64{
		"earliest": {3, 0}, "latest": {10, 0}, "2023-11-14T22:13:25Z": {5, 0}, "2023-11-14T22:13:30Z": {10, 0},
		"2100-01-01T00:00:00Z": {10, 0}, "group:" + a.Names(1).Group() + ",earliest": {6, 0},
	} {
		got, err := a.ResolveStart(ctx, start, in)
		if err != nil {
			t.Errorf("%s: %v", start, err)
			continue
		}
		if got[in][0].Offset != want[0] || got[in][1].Offset != want[1] {
			t.Errorf("%s: got %v, want %v", start, got[in], want)
		}
	}
	_, err = a.ResolveStart(ctx, "group:"+a.Names(1).Group(), in)
	if broker.CodeOf(err) != broker.CodeStart {
		t.Errorf("a partition without an offset: got %v", err)
	}
	check(t, a.CommitOffsets(ctx, broker.Membership{Generation: -1}, broker.Offsets{in: {0: {Offset: 1}}}, ids))
	_, err = a.ResolveStart(ctx, "group:"+a.Names(1).Group()+",earliest", in)
	if broker.CodeOf(err) != broker.CodeStart {
		t.Errorf("an offset that is gone: got %v", err)
	}
}

func TestMembership(t *testing.T) {
	c := services.Kafka(t, three)
	a, ctx := admin(t, config(c.Bootstrap())), deadline(t)
	check(t, a.Evict(ctx, "nobody"))
	in := c.Topic(t, "in", 2, nil)
	// Evicted before its SyncGroup is answered, a client waits for the answer, and
	// its Close too, for the whole rebalance time-out.
	assigned := make(chan broker.Membership, 1)
	client(t, a, kgo.ConsumerGroup(a.Names(1).Group()), kgo.ConsumeTopics(in), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, _ map[string][]int32) {
			id, generation := cl.GroupMetadata()
			select {
			case assigned <- broker.Membership{MemberID: id, Generation: generation}:
			default: // it joined again, after it was evicted
			}
		}))
	var m broker.Membership
	select {
	case m = <-assigned:
	case <-ctx.Done():
		t.Fatal("never joined")
	}
	check(t, a.Heartbeat(ctx, m))
	if err := a.Heartbeat(ctx, broker.Membership{MemberID: "nobody", Generation: m.Generation}); !errors.Is(err, kerr.UnknownMemberID) {
		t.Errorf("somebody else: got %v", err)
	}
	check(t, a.Evict(ctx, m.MemberID))
	if err := a.Heartbeat(ctx, m); !errors.Is(err, kerr.UnknownMemberID) {
		t.Errorf("the evicted one: got %v", err)
	}
}
