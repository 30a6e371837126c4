package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unstableGrace is how long an open transaction may hold a group's offsets:
// longer than the broker's reaper takes to abort one of a dead owner.
const unstableGrace = time.Minute

// Committed gives the committed offsets of the pipeline's group for partitions
// by topic. It waits until no transaction has offsets of these pending (KIP-447):
// ask for those of one task after its producers were fenced, since those of the
// others are pending most of the time. Partitions without an offset are left
// out. Offsets of the group are for people and tools: the journal is what counts.
func (a *Admin) Committed(ctx context.Context, want map[string][]int32) (Offsets, error) {
	return a.committed(ctx, a.Names(1).Group(), want)
}

func (a *Admin) committed(ctx context.Context, group string, want map[string][]int32) (Offsets, error) {
	deadline := time.Now().Add(unstableGrace)
	for try := 1; ; try++ {
		out, err := a.committedOnce(ctx, group, want)
		switch {
		case err == nil:
			return out, nil
		case !kerr.IsRetriable(err):
			return nil, explain("read the offsets of", "group "+group, err)
		case time.Now().After(deadline):
			return nil, &Problem{
				Code: CodeOffsetsStuck, Place: "group " + group, Err: err,
				Cause:  "its offsets did not settle within " + unstableGrace.String(),
				Remedy: "an open transaction holds them: find it with kafka-transactions list, and stop its owner",
			}
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return nil, explain("read the offsets of", "group "+group, err)
		}
	}
}

// committedOnce names every partition: asked for all that a group has, a broker
// leaves out those whose first offset is still pending.
func (a *Admin) committedOnce(ctx context.Context, group string, want map[string][]int32) (Offsets, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	for _, t := range slices.Sorted(maps.Keys(want)) {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.Partitions = t, want[t]
		rg.Topics = append(rg.Topics, rt)
	}
	if len(rg.Topics) == 0 {
		return Offsets{}, nil // no topics would mean all
	}
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return nil, err
	}
	out := Offsets{}
	for _, g := range resp.Groups {
		switch err := kerr.ErrorForCode(g.ErrorCode); {
		case errors.Is(err, kerr.GroupIDNotFound):
			return out, nil
		case err != nil:
			return nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("%s: %w", place(t.Topic, p.Partition), err)
				}
				if p.Offset >= 0 {
					out.set(t.Topic, p.Partition, kgo.EpochOffset{Epoch: p.LeaderEpoch, Offset: p.Offset})
				}
			}
		}
	}
	return out, nil
}

// CommitOffsets commits offsets of the pipeline's group outside of any
// transaction, as a member: what at_least_once does. ids are the topics' ids,
// which newer requests carry in place of names. Errors to test for are those of
// the group: kerr.IllegalGeneration, kerr.UnknownMemberID and
// kerr.RebalanceInProgress, after which the caller looks at its membership
// again.
func (a *Admin) CommitOffsets(ctx context.Context, m Membership, offs Offsets, ids map[string][16]byte) error {
	group := a.Names(1).Group()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, m.MemberID, m.Generation
	for _, t := range slices.Sorted(maps.Keys(offs)) {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = t, ids[t]
		for _, p := range slices.Sorted(maps.Keys(offs[t])) {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p, offs[t][p].Offset, offs[t][p].Epoch
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return explain("commit offsets of", "group "+group, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return explain("commit the offset of", place(topicName(t.Topic, t.TopicID, ids), p.Partition)+" in group "+group, err)
			}
		}
	}
	return nil
}

// topicName is the name that an answer means, which may hold the id alone.
func topicName(name string, id [16]byte, ids map[string][16]byte) string {
	for t, have := range ids {
		if name == "" && have == id {
			return t
		}
	}
	return name
}

// Heartbeat proves that m is a member of the pipeline's group at this moment.
// nil: it is. kerr.RebalanceInProgress: it is, and has to join again.
// kerr.UnknownMemberID and kerr.IllegalGeneration: it is not.
// kerr.FencedInstanceID ends the process.
func (a *Admin) Heartbeat(ctx context.Context, m Membership) error {
	group := a.Names(1).Group()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, m.MemberID, m.Generation
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return explain("send a heartbeat to", "group "+group, err)
}

// Evict makes a member leave the pipeline's group, so that its tasks need not
// wait for the session time-out. Only for an id that this worker itself had in
// an earlier life. One that is gone already is no error.
func (a *Admin) Evict(ctx context.Context, member string) error {
	group := a.Names(1).Group()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	rm := kmsg.NewLeaveGroupRequestMember()
	rm.MemberID, rm.Reason = member, kmsg.StringPtr("its worker was started again")
	req.Members = append(req.Members, rm)
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
		for _, rm := range resp.Members {
			if err == nil {
				err = kerr.ErrorForCode(rm.ErrorCode)
			}
		}
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	return explain("evict member "+member+" of", "group "+group, err)
}
