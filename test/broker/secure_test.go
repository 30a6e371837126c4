//go:build services

package broker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/broker"
	"exactly/internal/services"
)

var secure = services.Options{Nodes: 3, Secure: true}

// TestPlanIsEnough: over SASL_SSL with SCRAM, a password from a file, and only
// the rights of the plan, without the optional ones.
func TestPlanIsEnough(t *testing.T) {
	c := services.Kafka(t, secure)
	ctx := deadline(t)
	conf := config(c.Bootstrap())
	u := c.User(t, conf.Pipeline)
	password := filepath.Join(t.TempDir(), "password")
	check(t, os.WriteFile(password, []byte(u.Password+"\n"), 0o600))
	conf.TLS = broker.TLS{Enabled: true, CAFile: u.CAFile, CertFile: u.CertFile, KeyFile: u.KeyFile}
	conf.SASL = broker.SASL{Mechanism: "SCRAM-SHA-512", Username: u.Name, PasswordFile: password}
	a := admin(t, conf)
	in, p := planned(t, c, a)
	_, err := a.EnsureTopics(ctx, p.Topics...)
	if broker.CodeOf(err) != broker.CodeACL {
		t.Errorf("without any right: got %v", err)
	}
	allow(t, c, u.Name, p.ACLs)
	check(t, c.Client(t).ProduceSync(ctx, &kgo.Record{Topic: in.Sources[0], Value: []byte("v")}).FirstErr())

	f, err := a.Features(ctx)
	check(t, err)
	if f.TransactionVersion != 2 || f.MaxTransactionTimeout != 0 {
		t.Errorf("features: got %+v, want an unknown time-out", f)
	}
	infos, err := a.EnsureTopics(ctx, p.Topics...)
	check(t, err)
	check(t, broker.NewLimits(a).Load(ctx, append(in.Sources, in.Outputs...)...))
	m := meta(t, a, map[string]broker.TopicInfo{in.Sources[0]: infos[in.Sources[0]]}, f.ClusterID)
	_, err = a.CreateMeta(ctx, m)
	check(t, err)
	_, err = a.ResolveStart(ctx, "earliest", in.Sources...)
	check(t, err)
	epoch(t, a, in, infos)
	check(t, a.Evict(ctx, "nobody"))
	check(t, a.Trim(ctx, in.Names.Outbox(), 0, 1))
	got, err := a.Committed(ctx, map[string][]int32{in.Sources[0]: {0}})
	check(t, err)
	if got[in.Sources[0]][0].Offset != 1 {
		t.Errorf("committed offsets: got %v", got)
	}
}

// epoch reads, and writes records and offsets in one transaction.
func epoch(t *testing.T, a *broker.Admin, in broker.PlanInput, infos map[string]broker.TopicInfo) {
	t.Helper()
	ctx, source := deadline(t), in.Sources[0]
	starts := map[int32]kgo.Offset{}
	for p := range infos[source].Partitions {
		starts[p] = kgo.NewOffset().At(0)
	}
	reader := client(t, a, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{source: starts}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	fs := reader.PollFetches(ctx)
	check(t, fs.Err())

	id := in.Names.TxnID(0, broker.LaneA)
	prod := client(t, a, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(t, prod.BeginTransaction())
	for _, topic := range []string{in.Outputs[0], in.DeadLetter, in.Names.Journal(), in.Names.Outbox(), in.Names.State()} {
		check(t, prod.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr())
	}
	pid, pepoch, err := prod.ProducerID(ctx)
	check(t, err)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = id, in.Names.Group(), pid, pepoch, -1
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = 1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = source, infos[source].ID, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, prod)
	check(t, err)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("offsets: code %d", code)
	}
	check(t, prod.EndTransaction(ctx, kgo.TryCommit))
}

// TestMutualTLS: the certificate is the login, and one of no authority is
// refused.
func TestMutualTLS(t *testing.T) {
	c := services.Kafka(t, secure)
	conf := config(c.BootstrapTLS())
	u := c.User(t, conf.Pipeline)
	conf.TLS = broker.TLS{Enabled: true, CAFile: u.CAFile, CertFile: u.CertFile, KeyFile: u.KeyFile}
	check(t, admin(t, conf).Ping(deadline(t)))
	conf.TLS.CertFile, conf.TLS.KeyFile = "", ""
	if err := admin(t, conf).Ping(deadline(t)); broker.CodeOf(err) != broker.CodeTLS {
		t.Errorf("without a certificate: got %v", err)
	}
}

func TestWrongPassword(t *testing.T) {
	c := services.Kafka(t, secure)
	conf := config(c.Bootstrap())
	u := c.User(t, conf.Pipeline)
	conf.TLS = broker.TLS{Enabled: true, CAFile: u.CAFile, CertFile: u.CertFile, KeyFile: u.KeyFile}
	conf.SASL = broker.SASL{Mechanism: "SCRAM-SHA-512", Username: u.Name, Password: "wrong"}
	if err := admin(t, conf).Ping(deadline(t)); broker.CodeOf(err) != broker.CodeAuth {
		t.Errorf("got %v", err)
	}
}
