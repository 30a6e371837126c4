package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How long a topic may be unknown before it counts as missing: brokers learn of
// a new topic one after the other.
const (
	describeGrace = 2 * time.Second
	createGrace   = 30 * time.Second
)

// TopicInfo is what the cluster knows about a topic.
type TopicInfo struct {
	Name        string
	ID          [16]byte // zero: the broker is too old for topic ids
	Partitions  int32
	Replication int     // replicas of partition 0
	Leaders     []int32 // by partition; -1: none at the moment
}

// led reports whether every partition has a leader.
func (t TopicInfo) led() bool { return !slices.Contains(t.Leaders, -1) }

// DescribeTopics gives what the cluster knows about the topics. It waits a
// moment for ones that were just created; one that is still unknown then is a
// *Problem with CodeTopicMissing that names it and the remedy. A partition
// without a leader is no error. It never creates a topic.
func (a *Admin) DescribeTopics(ctx context.Context, topics ...string) (map[string]TopicInfo, error) {
	infos, missing, err := a.await(ctx, topics, describeGrace, func(TopicInfo) bool { return true })
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, missingTopics(missing)
	}
	return infos, nil
}

func missingTopics(topics []string) error {
	return &Problem{
		Code: CodeTopicMissing, Place: "topic " + strings.Join(topics, ", "), Cause: "does not exist on this cluster",
		Remedy: "check the name and kafka.brokers, or create it: kafka-topics --create --topic " + topics[0],
	}
}

// await asks until every topic is known and ready, or grace is over. It gives
// what is known, and the unknown ones sorted.
func (a *Admin) await(ctx context.Context, topics []string, grace time.Duration, ready func(TopicInfo) bool) (map[string]TopicInfo, []string, error) {
	deadline := time.Now().Add(grace)
	for try := 1; ; try++ {
		infos, missing, again, err := a.lookup(ctx, topics)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range infos {
			again = again || !ready(t)
		}
		if (len(missing) == 0 && !again) || time.Now().After(deadline) {
			return infos, missing, nil
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return nil, nil, explain("describe", "topics "+strings.Join(topics, ", "), err)
		}
	}
}

// lookup asks once. again: an answer was of a kind that passes.
func (a *Admin) lookup(ctx context.Context, topics []string) (infos map[string]TopicInfo, missing []string, again bool, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // nil would be all topics
	req.AllowAutoTopicCreation = false
	for _, t := range slices.Compact(slices.Sorted(slices.Values(topics))) {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return nil, nil, false, explain("describe", "topics "+strings.Join(topics, ", "), err)
	}
	infos = make(map[string]TopicInfo, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		switch terr := kerr.ErrorForCode(t.ErrorCode); {
		case terr == nil:
			infos[*t.Topic] = topicInfo(t)
		case errors.Is(terr, kerr.UnknownTopicOrPartition):
			missing = append(missing, *t.Topic)
		case kerr.IsRetriable(terr):
			missing, again = append(missing, *t.Topic), true
		default:
			return nil, nil, false, explain("describe", "topic "+*t.Topic, terr)
		}
	}
	slices.Sort(missing)
	return infos, missing, again, nil
}

func topicInfo(t kmsg.MetadataResponseTopic) TopicInfo {
	n := int32(len(t.Partitions)) //nolint:gosec // bounded by Kafka
	info := TopicInfo{Name: *t.Topic, ID: t.TopicID, Partitions: n, Leaders: make([]int32, n)}
	for i := range info.Leaders {
		info.Leaders[i] = -1
	}
	for _, p := range t.Partitions {
		if p.Partition < 0 || p.Partition >= n {
			continue
		}
		if kerr.ErrorForCode(p.ErrorCode) == nil {
			info.Leaders[p.Partition] = p.Leader
		}
		if p.Partition == 0 {
			info.Replication = len(p.Replicas)
		}
	}
	return info
}

// Trim deletes the records of a partition below offset (DeleteRecords). Records
// that are gone already are no error; an offset beyond the end is one.
func (a *Admin) Trim(ctx context.Context, topic string, partition int32, offset int64) error {
	where := place(topic, partition)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(dialTimeout.Milliseconds())
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, offset
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return explain("trim", where, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err = kerr.ErrorForCode(p.ErrorCode)
		}
	}
	if !errors.Is(err, kerr.OffsetOutOfRange) {
		return explain("trim", where, err)
	}
	start, end, rerr := a.bounds(ctx, topic, partition)
	switch {
	case rerr != nil:
		return rerr
	case offset <= start:
		return nil
	}
	return &Problem{
		Code: CodeTrim, Place: where, Err: err,
		Cause: "cannot trim to offset " + itoa(offset) + ": the topic holds " + itoa(start) + " to " + itoa(end),
	}
}
