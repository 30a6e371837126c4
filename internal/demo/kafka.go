package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
)

// ErrNoKafka: the cluster that was named cannot be used.
var ErrNoKafka = errors.New("cannot use the Kafka cluster")

// ErrFolder: the folder that was named cannot be used.
var ErrFolder = errors.New("cannot use the folder")

// cluster is the Kafka of one run.
type cluster struct {
	brokers []string
	session time.Duration // of the group
	prefix  string        // of what the pipeline owns
	raw     string        // topics
	out     string
	dlq     string

	cl  *kgo.Client
	adm *kadm.Client
	end func()
}

// pipelineName is the name of the demo's pipeline.
const pipelineName = "payments"

func (c *cluster) group() string { return c.prefix + "." + pipelineName }

// txnIDs gives the transactional ids of a task.
func (c *cluster) txnIDs(task int) []string {
	id := fmt.Sprintf("%s.%s.g1.t%d.", c.prefix, pipelineName, task)
	return []string{id + "a", id + "b"}
}

// opts are what every client of the parent starts from.
func (c *cluster) opts() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.brokers...), kgo.ClientID("exactly-demo"), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(20 * time.Millisecond),
	}
}

// openCluster connects to a real cluster, under names of this run, or starts an
// embedded one.
func openCluster(ctx context.Context, brokers []string, run string, partitions int32) (*cluster, error) {
	c := &cluster{brokers: brokers, session: 6 * time.Second, end: func() {}}
	c.prefix = "exactly-demo-" + run
	c.raw, c.out, c.dlq = c.prefix+".raw", c.prefix+".enriched", c.prefix+".dlq"
	if len(brokers) == 0 {
		fake, err := embedded.Start(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))
		if err != nil {
			return nil, err
		}
		c.brokers, c.session, c.end = fake.ListenAddrs(), time.Second, fake.Close
		c.prefix = "exactly"
		c.raw, c.out, c.dlq = "payments.raw", "payments.enriched", "payments.dlq"
	}
	var err error
	if c.cl, err = kgo.NewClient(c.opts()...); err != nil {
		c.end()
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(c.brokers, ", "), err)
	}
	c.adm = kadm.NewClient(c.cl)
	if err := c.create(ctx, partitions); err != nil {
		c.cl.Close()
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *cluster) create(ctx context.Context, partitions int32) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	created, err := c.adm.CreateTopics(ctx, partitions, -1, nil, c.raw, c.out, c.dlq)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("%w: create topics at %s: %w", ErrNoKafka, strings.Join(c.brokers, ", "), err)
	}
	return nil
}

// cleanUpTimeout bounds the removal of what a run left in a real cluster.
const cleanUpTimeout = 30 * time.Second

// close ends the embedded cluster, or removes what the run made in a real one.
func (c *cluster) close(real, keep bool) error {
	defer c.end()
	defer c.cl.Close()
	if !real || keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	topics, err := c.adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics to remove: %w", err)
	}
	var mine []string
	for name := range topics {
		if strings.HasPrefix(name, c.prefix+".") {
			mine = append(mine, name)
		}
	}
	_, err = c.adm.DeleteTopics(ctx, mine...)
	_, gerr := c.adm.DeleteGroup(ctx, c.group())
	if errors.Is(gerr, kerr.GroupIDNotFound) || errors.Is(gerr, kerr.CoordinatorNotAvailable) { // there was none
		gerr = nil
	}
	if err := errors.Join(err, gerr); err != nil {
		return fmt.Errorf("remove topics and group of %s: %w", c.prefix, err)
	}
	return nil
}

// committed gives the group's offsets by source partition.
func (c *cluster) committed(ctx context.Context) (map[int32]int64, error) {
	resp, err := c.adm.FetchOffsets(ctx, c.group())
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch the committed offsets: %w", err)
	}
	m := map[int32]int64{}
	for p, r := range resp[c.raw] {
		if r.Err == nil {
			m[p] = r.At
		}
	}
	return m, nil
}
