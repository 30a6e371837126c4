package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is the Kafka of a run, seen from outside of the contestants.
type cluster struct {
	adm    *kadm.Client
	prefix string // of everything that the run makes
}

func (c *cluster) create(ctx context.Context, topic string, partitions int32) error {
	if _, err := c.adm.CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	// The controller has it; brokers learn of it in their own time.
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ends, err := c.adm.ListEndOffsets(ctx, topic)
		if err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("create topic %s: %w", topic, ctx.Err())
		}
	}
}

// written is how many offsets of a topic are used, whether or not they are
// committed.
func (c *cluster) written(ctx context.Context, topic string) (int64, error) {
	ends, err := c.adm.ListEndOffsets(ctx, topic)
	return sum(topic, ends, err)
}

// stable is how many offsets of a topic a read_committed reader has access to.
func (c *cluster) stable(ctx context.Context, topic string) (int64, error) {
	ends, err := c.adm.ListCommittedOffsets(ctx, topic)
	return sum(topic, ends, err)
}

func sum(topic string, offs kadm.ListedOffsets, err error) (int64, error) {
	if err == nil {
		err = offs.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("end offsets of %s: %w", topic, err)
	}
	var n int64
	offs.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, nil
}

// done is how much of a topic a group has committed, from offset 0.
func (c *cluster) done(ctx context.Context, group, topic string) (int64, error) {
	offs, err := c.adm.FetchOffsets(ctx, group)
	if err == nil {
		err = offs.Error()
	}
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return 0, nil // not joined yet
	case err != nil:
		return 0, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	var n int64
	offs.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			n += max(o.At, 0)
		}
	})
	return n, nil
}

// partitions lists where a topic is read from, from its start.
func partitions(topic string, n int32) map[string]map[int32]kgo.Offset {
	parts := make(map[int32]kgo.Offset, n)
	for p := range n {
		parts[p] = kgo.NewOffset().AtStart()
	}
	return map[string]map[int32]kgo.Offset{topic: parts}
}

func (c *cluster) remove(ctx context.Context, topics ...string) error {
	if _, err := c.adm.DeleteTopics(ctx, topics...); err != nil {
		return fmt.Errorf("delete topics %v: %w", topics, err)
	}
	return nil
}

// removeAll removes what the run made, the engine's topics included, and waits
// until the brokers show none of it.
func (c *cluster) removeAll(ctx context.Context) error {
	groups, err := c.adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	if ids := c.ours(groups.Groups()); len(ids) > 0 {
		if _, err := c.adm.DeleteGroups(ctx, ids...); err != nil {
			return fmt.Errorf("delete groups: %w", err)
		}
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		topics, err := c.adm.ListTopics(ctx)
		if err != nil {
			return fmt.Errorf("list topics: %w", err)
		}
		names := c.ours(topics.Names())
		if len(names) == 0 {
			return nil
		}
		if err := c.remove(ctx, names...); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("delete topics %v: %w", names, ctx.Err())
		}
	}
}

// ours picks the names that the run made.
func (c *cluster) ours(names []string) []string {
	var mine []string
	for _, name := range names {
		if strings.HasPrefix(name, c.prefix) || strings.HasPrefix(name, "exactly."+c.prefix) {
			mine = append(mine, name)
		}
	}
	return mine
}
