package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"exactly/internal/broker"
	"exactly/internal/catalog"
	"exactly/internal/config"
	"exactly/internal/engine"
	"exactly/sink"
)

// cluster is what is known, or assumed, of the cluster.
type cluster struct {
	tasks    int32
	maxBytes int64    // largest max.message.bytes of the sources; 0: unknown
	created  []string // output topics that are created where they are missing
	checked  []string // what was found right
	notes    []string // what was assumed
}

// assumed is what there is to say without asking.
func assumed(f *config.File) cluster {
	c := cluster{tasks: int32(f.Tasks)} //nolint:gosec // at most 1024
	if c.tasks == 0 {
		c.tasks = engine.DefaultTasks(math.MaxInt32, f.Epoch.Interval)
		c.notes = append(c.notes, fmt.Sprintf("tasks: 0 is taken as %d; with fewer source partitions there are as many tasks as partitions (--connect looks)", c.tasks))
	}
	c.notes = append(c.notes, "the record sizes are those of a source with Kafka's default max.message.bytes (--connect looks)")
	return c
}

// connect asks the brokers and the sinks.
func (a *app) connect(ctx context.Context, f *config.File, sinks []sink.Sink) (cluster, error) {
	conf := f.Broker()
	conf.Log = a.log
	admin, err := broker.NewAdmin(conf)
	if err != nil {
		return cluster{}, err
	}
	defer admin.Close()
	if err := admin.Ping(ctx); err != nil {
		return cluster{}, environment(err)
	}
	c := cluster{tasks: int32(f.Tasks)} //nolint:gosec // at most 1024
	c.right("the brokers at %s answer", strings.Join(f.Kafka.Brokers, ", "))
	if err := c.topics(ctx, admin, f); err != nil {
		return cluster{}, environment(err)
	}
	if err := c.timeout(ctx, admin, f); err != nil {
		return cluster{}, err
	}
	if err := catalog.CheckAll(ctx, f, sinks); err != nil {
		return cluster{}, environment(err)
	}
	for _, s := range f.Sinks {
		c.right("sink %s (%s) can be written to", s.Name, s.Kind)
	}
	return c, nil
}

func (c *cluster) right(format string, args ...any) {
	c.checked = append(c.checked, fmt.Sprintf(format, args...))
}

func (c *cluster) topics(ctx context.Context, admin *broker.Admin, f *config.File) error {
	infos, err := admin.DescribeTopics(ctx, append(f.Outputs(), f.Source.Topics...)...)
	if err != nil {
		return err
	}
	most := int32(0)
	for _, t := range f.Source.Topics {
		most = max(most, infos[t].Partitions)
		c.right("source topic %s has %d partitions", t, infos[t].Partitions)
	}
	for _, t := range f.Outputs() {
		c.right("output topic %s has %d partitions", t, infos[t].Partitions)
	}
	if c.tasks == 0 {
		c.tasks = engine.DefaultTasks(most, f.Epoch.Interval)
	}
	limits := broker.NewLimits(admin)
	if err := limits.Load(ctx, f.Source.Topics...); err != nil {
		return err
	}
	c.maxBytes = limits.Largest(f.Source.Topics...)
	return nil
}

func (c *cluster) timeout(ctx context.Context, admin *broker.Admin, f *config.File) error {
	features, err := admin.Features(ctx)
	if err != nil {
		return environment(err)
	}
	most := features.MaxTransactionTimeout
	if most == 0 {
		c.notes = append(c.notes, "the brokers do not tell transaction.max.timeout.ms; the transaction time-out will be "+f.TransactionTimeout().String())
		return nil
	}
	if f.TransactionTimeout() > most {
		return exit{code: exitUsage, err: fmt.Errorf(
			"the transaction time-out would be %s, 2 x (epoch.interval + epoch.min_pause) + epoch.timeout, and the brokers allow %s (transaction.max.timeout.ms)\n"+
				"  lower epoch.timeout, or raise transaction.max.timeout.ms", f.TransactionTimeout(), most)}
	}
	c.right("the transaction time-out, %s, is within what the brokers allow, %s", f.TransactionTimeout(), most)
	return nil
}
