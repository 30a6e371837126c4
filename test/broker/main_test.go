//go:build services

package broker

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/services"
)

func TestMain(m *testing.M) { os.Exit(services.Main(m)) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config names a pipeline that no other test has.
func config(brokers []string) broker.Config {
	return broker.Config{
		Brokers: brokers, Pipeline: "p-" + strings.ToLower(rand.Text()[:10]), CreateTopics: true,
		Log: slog.New(slog.DiscardHandler),
	}
}

func admin(t *testing.T, c broker.Config) *broker.Admin {
	t.Helper()
	a, err := broker.NewAdmin(c)
	check(t, err)
	t.Cleanup(a.Close)
	return a
}

func client(t *testing.T, a *broker.Admin, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(a.Options(), opts...)...)
	check(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func meta(t *testing.T, a *broker.Admin, sources map[string]broker.TopicInfo, cluster string) broker.Meta {
	t.Helper()
	m := broker.Meta{
		Pipeline: a.Config().Pipeline, Generation: 1, Tasks: 2, Guarantee: "exactly_once", Cluster: cluster,
		Created: time.Now().UTC(), Sinks: []broker.MetaSink{{Name: "out", Kind: "kafka"}},
	}
	for _, s := range sources {
		m.Sources = append(m.Sources, broker.SourceOf(s))
	}
	var err error
	m.Incarnation, err = broker.NewIncarnation(rand.Reader)
	check(t, err)
	return m
}

var operations = map[string]kadm.ACLOperation{
	"Read": kadm.OpRead, "Write": kadm.OpWrite, "Create": kadm.OpCreate, "Delete": kadm.OpDelete, "Describe": kadm.OpDescribe,
	"DescribeConfigs": kadm.OpDescribeConfigs, "AlterConfigs": kadm.OpAlterConfigs,
}

// allow grants what the plan lists, without what it calls optional.
func allow(t *testing.T, c *services.KafkaCluster, user string, acls []broker.ACL) {
	t.Helper()
	for _, a := range acls {
		if a.Optional {
			continue
		}
		b := kadm.NewACLs().Allow("User:" + user).AllowHosts("*")
		switch a.Resource {
		case "topic":
			b.Topics(a.Name)
		case "group":
			b.Groups(a.Name)
		case "transactional_id":
			b.TransactionalIDs(a.Name)
		default:
			t.Fatalf("a right on %s is not optional", a.Resource)
		}
		pattern := kadm.ACLPatternLiteral
		if a.Pattern == "prefixed" {
			pattern = kadm.ACLPatternPrefixed
		}
		var ops []kadm.ACLOperation
		for _, op := range a.Operations {
			ops = append(ops, operations[op])
		}
		c.Allow(t, b.Operations(ops...).ResourcePatternType(pattern))
	}
}
