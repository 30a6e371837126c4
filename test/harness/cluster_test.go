//go:build services

package harness

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
)

func TestThreeNodesReplicate(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3})
	ctx := deadline(t)
	topic := c.Topic(t, "harness", 6, map[string]string{"retention.ms": "-1"})
	adm := c.Admin(t)

	topics, err := adm.ListTopicsWithInternal(ctx, topic, "__transaction_state", "__consumer_offsets")
	check(t, err)
	if len(topics) != 3 {
		t.Errorf("topics: got %v, want three", topics.Names())
	}
	for name, detail := range topics {
		for _, p := range detail.Partitions {
			if len(p.Replicas) != 3 {
				t.Errorf("replicas of %s-%d: got %d, want 3", name, p.Partition, len(p.Replicas))
			}
		}
	}
	if got := len(topics[topic].Partitions); got != 6 {
		t.Errorf("partitions of %s: got %d, want 6", topic, got)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	check(t, err)
	want := map[string]string{"min.insync.replicas": "2", "retention.ms": "-1"}
	for _, conf := range configs[0].Configs {
		if w, ok := want[conf.Key]; ok {
			if conf.MaybeValue() != w {
				t.Errorf("%s: got %s, want %s", conf.Key, conf.MaybeValue(), w)
			}
			delete(want, conf.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("settings not listed: %v", want)
	}
}

// TestKillAndStartNode kills each broker in turn: what was committed stays,
// and transactions go on without it.
func TestKillAndStartNode(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3})
	ctx := deadline(t)
	topic := c.Topic(t, "harness", 1, nil)
	p := producer(t, c)
	var want []string
	commit := func(v string) {
		t.Helper()
		check(t, write(ctx, p, topic, kgo.TryCommit, v))
		want = append(want, v)
	}
	commit("before")
	for id := 1; id <= 3; id++ {
		old := c.Node(id)
		check(t, c.Kill(id))
		if old.Alive() {
			t.Errorf("node %d is alive after Kill", id)
		}
		commit(fmt.Sprint("without ", id))
		check(t, c.Start(ctx, id))
		check(t, c.InSync(ctx))
		if got := c.Node(id); got.PID() == old.PID() {
			t.Errorf("node %d has the pid of the killed one", id)
		}
		commit(fmt.Sprint("again with ", id))
	}
	wantValues(t, "read_committed", read(ctx, t, c, topic, len(want), kgo.FetchIsolationLevel(kgo.ReadCommitted())), want...)
}

// TestFrozenNode shows that a broker which is frozen keeps its port and its
// data, and is back after the thaw.
func TestFrozenNode(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3})
	ctx := deadline(t)
	topic := c.Topic(t, "harness", 1, nil)
	p := producer(t, c)
	check(t, write(ctx, p, topic, kgo.TryCommit, "a"))
	node := c.Node(2)
	check(t, node.Freeze(ctx))
	check(t, write(ctx, p, topic, kgo.TryCommit, "b"))
	check(t, node.Thaw())
	check(t, c.InSync(ctx))
	wantValues(t, "read_committed", read(ctx, t, c, topic, 2, kgo.FetchIsolationLevel(kgo.ReadCommitted())), "a", "b")
}

func TestClustersAreSharedByOptions(t *testing.T) {
	a := services.Kafka(t, services.Options{Nodes: 1})
	b := services.Kafka(t, services.Options{})
	if a != b {
		t.Error("equal options gave two clusters")
	}
	own := services.Kafka(t, services.Options{Own: true, Settings: "message.max.bytes=12345"})
	if own == a {
		t.Error("an own cluster is a shared one")
	}
	configs, err := own.Admin(t).DescribeBrokerConfigs(deadline(t), 1)
	check(t, err)
	found := false
	for _, conf := range configs[0].Configs {
		if conf.Key == "message.max.bytes" {
			found = true
			if got := conf.MaybeValue(); got != "12345" {
				t.Errorf("message.max.bytes: got %s, want 12345", got)
			}
		}
	}
	if !found {
		t.Error("message.max.bytes is not listed")
	}
}

func TestTransactionVersionIsFinalised(t *testing.T) {
	for _, tt := range []struct {
		options services.Options
		want    int16
	}{
		{services.Options{Nodes: 1}, 2},
		{services.Options{Nodes: 3}, 2},
		{services.Options{Nodes: 1, TransactionVersion: 1}, 1},
		{services.Options{Nodes: 3, TransactionVersion: 1}, 1},
	} {
		t.Run(fmt.Sprintf("%d nodes, asked for %d", tt.options.Nodes, tt.options.TransactionVersion), func(t *testing.T) {
			c := services.Kafka(t, tt.options)
			versions, err := c.Admin(t).ApiVersions(deadline(t))
			check(t, err)
			if len(versions) != tt.options.Nodes {
				t.Errorf("brokers that answered: got %d, want %d", len(versions), tt.options.Nodes)
			}
			for id, v := range versions {
				check(t, v.Err)
				got := int16(-1)
				for _, f := range v.Raw().FinalizedFeatures {
					if f.Name == "transaction.version" {
						got = f.MaxVersionLevel
					}
				}
				if got != tt.want {
					t.Errorf("transaction.version of broker %d: got %d, want %d", id, got, tt.want)
				}
			}
		})
	}
}

// TestSharedClusterIsHealed leaves a cluster with one node killed and one
// frozen, as a test that failed in the middle would.
func TestSharedClusterIsHealed(t *testing.T) {
	o := services.Options{Nodes: 3}
	c := services.Kafka(t, o)
	check(t, c.Kill(1))
	check(t, c.Node(3).Freeze(deadline(t)))
	again := services.Kafka(t, o)
	topic := again.Topic(t, "harness", 1, nil)
	check(t, write(deadline(t), producer(t, again), topic, kgo.TryCommit, "a"))
}
