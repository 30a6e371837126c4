//go:build unix

package services

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client returns a client that may do everything, closed at the end of the
// test. The options come after those that connect it.
func (c *KafkaCluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := c.adminClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Admin is Client with the admin API around it.
func (c *KafkaCluster) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(c.Client(t))
}

func (c *KafkaCluster) adminClient(opts ...kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap()...),
		kgo.DialTimeout(2 * time.Second),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}
	if c.security != nil {
		tls, err := c.security.TLS(adminName)
		if err != nil {
			return nil, err
		}
		all = append(all, kgo.SeedBrokers(c.BootstrapTLS()...), kgo.DialTLSConfig(tls))
	}
	cl, err := kgo.NewClient(append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return cl, nil
}

// Topic makes a topic that no other test has: its name is prefix, the name of
// the test and a random end. The replication is the cluster's. configs are
// topic settings, such as "retention.ms"; nil for the broker's.
func (c *KafkaCluster) Topic(t testing.TB, prefix string, partitions int32, configs map[string]string) string {
	t.Helper()
	name := topicName(prefix, t.Name())
	conf := make(map[string]*string, len(configs))
	for k, v := range configs {
		conf[k] = &v
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cl, err := c.adminClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, -1, conf, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	err = poll(ctx, nil, func(ctx context.Context) error { return led(ctx, cl, name, partitions) })
	if err != nil {
		t.Fatalf("wait for topic %s: %v", name, err)
	}
	return name
}

// led is nil when every broker that is up knows a leader of every partition:
// brokers learn of topics one after the other, and a client may ask any.
func led(ctx context.Context, cl *kgo.Client, name string, partitions int32) error {
	brokers, err := kadm.NewClient(cl).ListBrokers(ctx)
	if err != nil {
		return err
	}
	for _, id := range brokers.NodeIDs() {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		resp, err := cl.Broker(int(id)).Request(ctx, req)
		if err != nil {
			return fmt.Errorf("ask broker %d: %w", id, err)
		}
		n := int32(0)
		for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
			for _, p := range topic.Partitions {
				if p.Leader >= 0 && p.ErrorCode == 0 {
					n++
				}
			}
		}
		if n != partitions {
			return fmt.Errorf("broker %d knows leaders of %d of %d partitions", id, n, partitions)
		}
	}
	return nil
}

var notInTopics = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// topicName keeps to the characters and the 249 bytes that Kafka allows.
func topicName(prefix, test string) string {
	mid := strings.Trim(notInTopics.ReplaceAllString(test, "-"), "-")
	return fmt.Sprintf("%s.%.100s.%08x", prefix, strings.ToLower(mid), rand.Uint32())
}
