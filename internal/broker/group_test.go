package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joined makes a client a member of the pipeline's group.
func joined(t *testing.T, a *Admin, topic string) (*kgo.Client, Membership) {
	t.Helper()
	cl, err := kgo.NewClient(append(a.Options(), kgo.ConsumerGroup(a.Names(1).Group()), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	for {
		ctx, cancel := context.WithTimeout(soon(t), 20*time.Millisecond)
		cl.PollFetches(ctx)
		cancel()
		if id, gen := cl.GroupMetadata(); id != "" && gen > 0 {
			return cl, Membership{MemberID: id, Generation: gen}
		}
		if soon(t).Err() != nil {
			t.Fatal("never joined")
		}
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	a := newAdmin(t, c)
	infos, err := a.DescribeTopics(soon(t), "in")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Committed(soon(t), map[string][]int32{"in": {0, 1}}); err != nil || len(got) != 0 {
		t.Errorf("offsets of a group that is not there: %v, %v", got, err)
	}
	_, m := joined(t, a, "in")
	ids := map[string][16]byte{"in": infos["in"].ID}
	offs := Offsets{"in": {0: {Offset: 7, Epoch: 0}, 1: {Offset: 9, Epoch: -1}}}
	if err := a.CommitOffsets(soon(t), m, offs, ids); err != nil {
		t.Fatal(err)
	}
	if err := a.CommitOffsets(soon(t), m, nil, nil); err != nil {
		t.Errorf("nothing to commit: %v", err)
	}
	got, err := a.Committed(soon(t), map[string][]int32{"in": {0, 1}})
	if err != nil || got["in"][0].Offset != 7 || got["in"][1].Offset != 9 || got["in"][0].Epoch != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := a.Heartbeat(soon(t), m); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	for name, tc := range map[string]struct {
		m    Membership
		want error
	}{
		"old generation": {Membership{m.MemberID, m.Generation - 1}, kerr.IllegalGeneration},
		"other member":   {Membership{"somebody", m.Generation}, kerr.UnknownMemberID},
	} {
		if err := a.Heartbeat(soon(t), tc.m); !errors.Is(err, tc.want) {
			t.Errorf("%s: heartbeat: got %v, want %v", name, err, tc.want)
		}
		if err := a.CommitOffsets(soon(t), tc.m, offs, ids); !errors.Is(err, tc.want) {
			t.Errorf("%s: commit: got %v, want %v", name, err, tc.want)
		}
	}
}

func TestEvict(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	a := newAdmin(t, c)
	if err := a.Evict(soon(t), "somebody"); err != nil {
		t.Errorf("from a group that is not there: %v", err)
	}
	_, m := joined(t, a, "in")
	if err := a.Evict(soon(t), "somebody"); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	if err := a.Heartbeat(soon(t), m); err != nil {
		t.Errorf("the living one was evicted: %v", err)
	}
	if err := a.Evict(soon(t), m.MemberID); err != nil {
		t.Fatal(err)
	}
	if err := a.Heartbeat(soon(t), m); !errors.Is(err, kerr.UnknownMemberID) {
		t.Errorf("heartbeat of the evicted one: got %v, want UNKNOWN_MEMBER_ID", err)
	}
}

func TestGroupForbidden(t *testing.T) {
	t.Parallel()
	cl, c := fake(t, kfake.SeedTopics(1, "in"))
	a := newAdmin(t, c)
	cl.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Heartbeat, kmsg.LeaveGroup}, Group: a.Names(1).Group(),
		Err: kerr.GroupAuthorizationFailed, TopLevel: true, Count: -1,
	}, kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch}, Group: a.Names(1).Group(), Err: kerr.GroupAuthorizationFailed, Count: -1,
	})
	infos, err := a.DescribeTopics(soon(t), "in")
	if err != nil {
		t.Fatal(err)
	}
	m := Membership{"m", 1}
	problem(t, a.Heartbeat(soon(t), m), CodeACL, "group exactly.payments")
	problem(t, a.Evict(soon(t), "m"), CodeACL, "group exactly.payments")
	_, err = a.Committed(soon(t), map[string][]int32{"in": {0}})
	problem(t, err, CodeACL, "group exactly.payments")
	problem(t, a.CommitOffsets(soon(t), m, Offsets{"in": {0: {}}}, map[string][16]byte{"in": infos["in"].ID}), CodeACL, "in-0")
}

// TestCommittedWaits: offsets of an open transaction are waited for (KIP-447).
func TestCommittedWaits(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(2, "in"), kfake.SeedTopics(1, "out"))
	a := newAdmin(t, c)
	prod := openTxn(t, a, "p", &kgo.Record{Topic: "out"})
	id, epoch, err := prod.ProducerID(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	infos, err := a.DescribeTopics(soon(t), "in")
	if err != nil {
		t.Fatal(err)
	}
	// kfake knows a group from its first plain commit on.
	ids := map[string][16]byte{"in": infos["in"].ID}
	if err := a.CommitOffsets(soon(t), Membership{Generation: -1}, Offsets{"in": {1: {Offset: 1, Epoch: -1}}}, ids); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = "p", a.Names(1).Group(), id, epoch
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = 42
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = "in", infos["in"].ID, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(soon(t), prod)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := a.Committed(short, map[string][]int32{"in": {0}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the transaction is open: got %v, %v", got, err)
	}
	if err := prod.EndTransaction(soon(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	got, err := a.Committed(soon(t), map[string][]int32{"in": {0, 1}})
	if err != nil || got["in"][0].Offset != 42 {
		t.Errorf("got %v, %v, want 42", got, err)
	}
}
