package broker

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	aclResources = map[string]kmsg.ACLResourceType{
		"topic": kmsg.ACLResourceTypeTopic, "group": kmsg.ACLResourceTypeGroup,
		"transactional_id": kmsg.ACLResourceTypeTransactionalId, "cluster": kmsg.ACLResourceTypeCluster,
	}
	aclPatterns = map[string]kmsg.ACLResourcePatternType{
		"literal": kmsg.ACLResourcePatternTypeLiteral, "prefixed": kmsg.ACLResourcePatternTypePrefixed,
	}
	aclOperations = map[string]kmsg.ACLOperation{
		"Read": kmsg.ACLOperationRead, "Write": kmsg.ACLOperationWrite, "Create": kmsg.ACLOperationCreate,
		"Delete": kmsg.ACLOperationDelete, "Describe": kmsg.ACLOperationDescribe,
		"DescribeConfigs": kmsg.ACLOperationDescribeConfigs, "AlterConfigs": kmsg.ACLOperationAlterConfigs,
	}
)

// granted turns the plan's rights into those of kfake.
func granted(t *testing.T, acls []ACL) []kfake.ACL {
	t.Helper()
	var out []kfake.ACL
	for _, a := range acls {
		for _, op := range a.Operations {
			g := kfake.ACL{Resource: aclResources[a.Resource], Name: a.Name, Pattern: aclPatterns[a.Pattern], Operation: aclOperations[op], Allow: true}
			if g.Resource == 0 || g.Pattern == 0 || g.Operation == 0 {
				t.Fatalf("unknown right %+v %s", a, op)
			}
			out = append(out, g)
		}
	}
	return out
}

// TestPlanIsEnough: with nothing but the rights of the plan everything here
// works; and without any one of those that are not optional something fails.
func TestPlanIsEnough(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	full := plan(t, newAdmin(t, c), func(in *PlanInput) { in.Start = "group:old" }).ACLs
	if err := useAll(t, full); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	var needed []ACL
	for _, a := range full {
		if !a.Optional {
			needed = append(needed, a)
		}
	}
	if err := useAll(t, needed); err != nil {
		t.Errorf("without the optional rights: %v", err)
	}
	for i, a := range needed {
		less := append(append([]ACL{}, needed[:i]...), needed[i+1:]...)
		if err := useAll(t, less); err == nil {
			t.Errorf("nothing fails without %s %s %v", a.Resource, a.Name, a.Operations)
		}
	}
}

// useAll does what a pipeline does, as a user with these rights only.
func useAll(t *testing.T, acls []ACL) error {
	t.Helper()
	_, c := fake(t, kfake.SeedTopics(4, "payments.raw", "payments.enriched"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "worker", "w", granted(t, acls)...))
	root := c
	root.SASL = SASL{Mechanism: "PLAIN", Username: "root", Password: "root"}
	write(t, newAdmin(t, root), &kgo.Record{Topic: "payments.raw", Value: []byte("x")})
	commitAs(t, newAdmin(t, root), "old")
	c.SASL = SASL{Mechanism: "PLAIN", Username: "worker", Password: "w"}
	a := newAdmin(t, c)
	ctx := soon(t)

	if _, err := a.Features(ctx); err != nil {
		return err
	}
	p := plan(t, a)
	infos, err := a.EnsureTopics(ctx, p.Topics...)
	if err != nil {
		return err
	}
	l := NewLimits(a)
	if err := l.Load(ctx, "payments.raw", "payments.enriched", "payments.dlq"); err != nil {
		return err
	}
	m := someMeta()
	if m.Incarnation, err = NewIncarnation(rand.Reader); err != nil {
		return err
	}
	if _, err := a.CreateMeta(ctx, m); err != nil {
		return err
	}
	if _, err := a.ResolveStart(ctx, "group:old,earliest", "payments.raw"); err != nil {
		return err
	}
	if err := readOne(t, a); err != nil {
		return err
	}
	return epochOf(t, a, infos)
}

func commitAs(t *testing.T, a *Admin, group string) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	infos, err := a.DescribeTopics(soon(t), "payments.raw")
	if err != nil {
		t.Fatal(err)
	}
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = "payments.raw", infos["payments.raw"].ID, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(soon(t), a.cl)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
}

func readOne(t *testing.T, a *Admin) error {
	t.Helper()
	cl, err := kgo.NewClient(append(a.Options(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"payments.raw": {0: kgo.NewOffset().At(0)},
	}))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	fs := cl.PollFetches(soon(t))
	if err := fs.Err(); err != nil {
		return err
	}
	if fs.NumRecords() != 1 {
		return fmt.Errorf("%d records", fs.NumRecords())
	}
	return nil
}

// epochOf is one epoch: records into every topic and offsets in one
// transaction, then heartbeat, trim and leave.
func epochOf(t *testing.T, a *Admin, infos map[string]TopicInfo) error {
	t.Helper()
	ctx, n := soon(t), a.Names(1)
	m := Membership{Generation: -1}
	id := n.TxnID(0, LaneA)
	cl, err := kgo.NewClient(append(a.Options(), kgo.TransactionalID(id))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	for _, topic := range []string{"payments.enriched", "payments.dlq", n.Journal(), n.Outbox()} {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
	}
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = id, n.Group(), pid, epoch, m.Generation
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = "payments.raw", infos["payments.raw"].ID, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("offsets: code %d", code)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	ids := map[string][16]byte{"payments.raw": infos["payments.raw"].ID}
	if err := a.CommitOffsets(ctx, m, Offsets{"payments.raw": {0: {Offset: 1}}}, ids); err != nil {
		return err
	}
	if err := a.Evict(ctx, "nobody"); err != nil {
		return err
	}
	if _, err := a.Committed(ctx, map[string][]int32{"payments.raw": {0}}); err != nil {
		return err
	}
	return a.Trim(ctx, n.Outbox(), 0, 0)
}
