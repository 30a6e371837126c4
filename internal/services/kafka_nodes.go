//go:build unix

package services

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Node is the process of a node, for signals; nil for an id that the cluster
// does not have. The ids are 1 to Options.Nodes.
func (c *KafkaCluster) Node(id int) *Proc {
	if id < 1 || id > len(c.nodes) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id-1].proc
}

// Kill ends a node with SIGKILL and returns when it is gone. A node that is
// down stays so.
func (c *KafkaCluster) Kill(id int) error {
	p := c.Node(id)
	if p == nil {
		return nil
	}
	return p.Kill()
}

// Start starts a node that is down, on its own data and port, and returns when
// it accepts clients. With three nodes its partitions may still be catching
// up: see InSync.
func (c *KafkaCluster) Start(ctx context.Context, id int) error {
	if id < 1 || id > len(c.nodes) {
		return fmt.Errorf("start Kafka node %d: the cluster has nodes 1 to %d", id, len(c.nodes))
	}
	sh, err := script("kafka.sh")
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id-1]
	if n.proc != nil && n.proc.Alive() {
		return nil
	}
	p, err := startProc(Command{
		Name: fmt.Sprintf("Kafka node %d", id),
		Path: "bash",
		Args: []string{sh, "run", c.dir, fmt.Sprint(id)},
		Env:  []string{"NICE="}, // not behind the workers that it serves
		Log:  filepath.Join(c.dir, fmt.Sprintf("n%d", id), "log"),
	})
	if err != nil {
		return err
	}
	n.proc = p
	return nil
}

// InSync returns when every node that is up is known to the cluster, has
// caught up with all partitions, and coordinators answer. A node that should
// be up and ends meanwhile is an error.
func (c *KafkaCluster) InSync(ctx context.Context) error {
	cl, err := c.adminClient()
	if err != nil {
		return err
	}
	defer cl.Close()
	want := 0
	for _, n := range c.nodes {
		if p := c.Node(n.id); p != nil && p.Alive() {
			want++
		}
	}
	adm := kadm.NewClient(cl)
	err = poll(ctx, c.ended(want), func(ctx context.Context) error { return inSync(ctx, adm, want, min(len(c.nodes), 3)) })
	if err != nil {
		return fmt.Errorf("wait for the Kafka cluster: %w", err)
	}
	return nil
}

// ended fails when fewer than want nodes are alive.
func (c *KafkaCluster) ended(want int) func() error {
	return func() error {
		alive, dead := 0, error(nil)
		for _, n := range c.nodes {
			p := c.Node(n.id)
			switch {
			case p == nil:
			case p.Alive():
				alive++
			default:
				dead = p.gone()
			}
		}
		if alive < want {
			return dead
		}
		return nil
	}
}

func inSync(ctx context.Context, adm *kadm.Client, brokers, replicas int) error {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return err
	}
	if len(m.Brokers) != brokers {
		return fmt.Errorf("%d of %d brokers are registered", len(m.Brokers), brokers)
	}
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			if p.Err != nil {
				return fmt.Errorf("partition %d of %s: %w", p.Partition, p.Topic, p.Err)
			}
			if len(p.ISR) < min(len(p.Replicas), brokers) {
				return fmt.Errorf("partition %d of %s has %d of %d replicas in sync", p.Partition, p.Topic, len(p.ISR), len(p.Replicas))
			}
		}
	}
	// The first look-up makes the brokers create the coordinators' topics.
	for key, found := range map[string]kadm.FindCoordinatorResponses{
		"transactions": adm.FindTxnCoordinators(ctx, "exactly-services"),
		"groups":       adm.FindGroupCoordinators(ctx, "exactly-services"),
	} {
		if err := found.Error(); err != nil {
			return fmt.Errorf("coordinator of %s: %w", key, err)
		}
	}
	return coordinatorsReady(ctx, adm, replicas)
}

// coordinatorsReady fails until the topics that the look-up has just made are
// there with all their replicas.
func coordinatorsReady(ctx context.Context, adm *kadm.Client, replicas int) error {
	topics, err := adm.ListTopicsWithInternal(ctx, "__transaction_state", "__consumer_offsets")
	if err != nil {
		return err
	}
	for name, topic := range topics {
		if topic.Err != nil {
			return fmt.Errorf("topic %s: %w", name, topic.Err)
		}
		for _, p := range topic.Partitions {
			if len(p.Replicas) < replicas || p.Leader < 0 {
				return fmt.Errorf("partition %d of %s: leader %d, %d replicas", p.Partition, name, p.Leader, len(p.Replicas))
			}
		}
	}
	return nil
}
