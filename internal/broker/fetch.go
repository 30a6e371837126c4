package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// Log reads single partitions by hand: the journal, and the end offsets that
// decide. Its client belongs to the caller.
type Log struct {
	cl *kgo.Client

	mu    sync.Mutex
	known map[string]partitionAt // by place; dropped at any error
}

// NewLog returns a Log over a client made from Options.
func NewLog(cl *kgo.Client) *Log { return &Log{cl: cl, known: map[string]partitionAt{}} }

// partitionAt is a partition and who leads it now.
type partitionAt struct {
	topic     string
	id        [16]byte
	partition int32
	leader    int32
}

func (l *Log) locate(ctx context.Context, topic string, partition int32) (partitionAt, error) {
	key := place(topic, partition)
	l.mu.Lock()
	at, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		return at, nil
	}
	at, err := l.lookUp(ctx, topic, partition)
	if err == nil {
		l.mu.Lock()
		l.known[key] = at
		l.mu.Unlock()
	}
	return at, err
}

func (l *Log) forget(topic string, partition int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, place(topic, partition))
}

func (l *Log) lookUp(ctx context.Context, topic string, partition int32) (partitionAt, error) {
	at := partitionAt{topic: topic, partition: partition}
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, l.cl)
	if err != nil {
		return at, err
	}
	if len(resp.Topics) != 1 {
		return at, kerr.UnknownTopicOrPartition
	}
	t := resp.Topics[0]
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return at, err
	}
	at.id = t.TopicID
	for _, p := range t.Partitions {
		if p.Partition == partition {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return at, err
			}
			at.leader = p.Leader
			return at, nil
		}
	}
	return at, kerr.UnknownTopicOrPartition
}

// steady repeats f while leadership moves or brokers are away.
func (l *Log) steady(ctx context.Context, what, topic string, partition int32, f func(partitionAt) error) error {
	wait := 5 * time.Millisecond
	for {
		at, err := l.locate(ctx, topic, partition)
		if err == nil {
			err = f(at)
		}
		if err == nil {
			return nil
		}
		l.forget(topic, partition)
		var ke *kerr.Error
		if errors.As(err, &ke) && !ke.Retriable {
			return fmt.Errorf("%s %s-%d: %w", what, topic, partition, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s-%d: %w (%w)", what, topic, partition, err, ctx.Err())
		case <-time.After(wait):
		}
		wait = min(2*wait, 250*time.Millisecond)
	}
}

// Ends gives the first offset of a partition and its read_committed end: the
// last stable offset.
func (l *Log) Ends(ctx context.Context, topic string, partition int32) (start, end int64, err error) {
	err = l.steady(ctx, "end offset of", topic, partition, func(at partitionAt) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() (err error) {
			start, err = l.listOffset(ctx, at, -2, 0)
			return err
		})
		g.Go(func() (err error) {
			end, err = l.listOffset(ctx, at, -1, 1)
			return err
		})
		return g.Wait()
	})
	return start, end, err
}

func (l *Log) listOffset(ctx context.Context, at partitionAt, ts int64, isolation int8) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = at.topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = at.partition, ts, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := l.cl.Broker(int(at.leader)).RetriableRequest(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := kresp.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, kerr.UnknownServerError
	}
	rp := resp.Topics[0].Partitions[0]
	return rp.Offset, kerr.ErrorForCode(rp.ErrorCode)
}

// fetchBytes of one request; a first batch larger than that is still returned
// whole (KIP-74).
const fetchBytes = 4 << 20

// Committed reads the committed records in [from, end), in order. end must not
// exceed the last stable offset.
func (l *Log) Committed(ctx context.Context, topic string, partition int32, from, end int64) ([]*kgo.Record, error) {
	var all []*kgo.Record
	for from < end {
		var recs []*kgo.Record
		var next int64
		err := l.steady(ctx, "read", topic, partition, func(at partitionAt) (err error) {
			recs, next, err = l.fetch(ctx, at, from)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, r := range recs {
			if r.Offset < end && !r.Attrs.IsControl() {
				all = append(all, r)
			}
		}
		from = next
	}
	return all, nil
}

func (l *Log) fetch(ctx context.Context, at partitionAt, from int64) ([]*kgo.Record, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.IsolationLevel, req.SessionEpoch = -1, 1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 100, 1, fetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = at.topic, at.id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = at.partition, from, fetchBytes
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := l.cl.Broker(int(at.leader)).Request(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, from, nil
	}
	rp := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		return nil, 0, err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(),
		Topic: at.topic, Partition: at.partition,
	}, rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		return nil, 0, fp.Err
	}
	if next <= from {
		// The caller asks below an end that was stable already: a leader that
		// does not serve it yet has just been elected.
		return nil, 0, kerr.OffsetNotAvailable
	}
	return fp.Records, next, nil
}

// LastCommitted reads backwards from end to the last committed record, nil if
// the partition holds none. Never from offset 0: a journal is read from its
// end.
func (l *Log) LastCommitted(ctx context.Context, topic string, partition int32, start, end int64) (*kgo.Record, error) {
	upper := end
	for step := int64(64); upper > start; step *= 8 {
		from := max(start, upper-step)
		recs, err := l.Committed(ctx, topic, partition, from, end)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			return recs[len(recs)-1], nil
		}
		upper = from
	}
	return nil, nil
}
