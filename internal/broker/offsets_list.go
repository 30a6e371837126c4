package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What ListOffsets takes in place of a time.
const (
	listStart int64 = -2
	listEnd   int64 = -1
)

// list asks the leader of every partition for an offset: the start, the end, or
// the first record at or after ts (Unix milliseconds; -1 where there is none).
// committed counts open transactions as not there, so the end is the last
// stable offset. Elections are waited for.
func (a *Admin) list(ctx context.Context, infos map[string]TopicInfo, ts int64, committed bool) (Offsets, error) {
	todo := map[string]map[int32]bool{}
	for t, info := range infos {
		todo[t] = map[int32]bool{}
		for p := range info.Partitions {
			todo[t][p] = true
		}
	}
	out := Offsets{}
	deadline := time.Now().Add(createGrace)
	for try := 1; ; try++ {
		where, last, err := a.listOnce(ctx, todo, ts, committed, out)
		if err != nil {
			return nil, err
		}
		if where == "" {
			return out, nil
		}
		if time.Now().After(deadline) {
			return nil, explain("list offsets of", where, last)
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return nil, explain("list offsets of", where, err)
		}
	}
}

// listOnce moves answers from todo to out. where names a partition that has to
// be asked again, and last why.
func (a *Admin) listOnce(ctx context.Context, todo map[string]map[int32]bool, ts int64, committed bool, out Offsets) (where string, last, err error) {
	resp, err := listRequest(todo, ts, committed).RequestWith(ctx, a.cl)
	if err != nil {
		return "", nil, explain("list offsets of", "the topics", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			perr := kerr.ErrorForCode(p.ErrorCode)
			switch {
			case perr == nil:
				out.set(t.Topic, p.Partition, kgo.EpochOffset{Epoch: p.LeaderEpoch, Offset: p.Offset})
				delete(todo[t.Topic], p.Partition)
			case kerr.IsRetriable(perr):
				last = perr
			default:
				return "", nil, explain("list offsets of", place(t.Topic, p.Partition), perr)
			}
		}
	}
	for t, ps := range todo {
		for p := range ps {
			return place(t, p), last, nil
		}
	}
	return "", nil, nil
}

func listRequest(todo map[string]map[int32]bool, ts int64, committed bool) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.TimeoutMillis = int32(dialTimeout.Milliseconds())
	if committed {
		req.IsolationLevel = 1
	}
	for t, ps := range todo {
		if len(ps) == 0 {
			continue
		}
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = t
		for p := range ps {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, ts
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// bounds gives the first and the end offset of a partition, committed or not.
func (a *Admin) bounds(ctx context.Context, topic string, partition int32) (start, end int64, err error) {
	var at [2]int64
	for i, ts := range []int64{listStart, listEnd} {
		todo := map[string]map[int32]bool{topic: {partition: true}}
		out := Offsets{}
		if _, last, err := a.listOnce(ctx, todo, ts, false, out); err != nil || last != nil {
			if err == nil {
				err = explain("list offsets of", place(topic, partition), last)
			}
			return 0, 0, err
		}
		at[i] = out[topic][partition].Offset
	}
	return at[0], at[1], nil
}
