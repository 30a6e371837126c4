package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Start is where a partition is read from.
type Start struct {
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32
}

// fetchMaxWait is how long a broker holds a fetch that finds nothing new. The
// broker answers as soon as one byte is there.
const fetchMaxWait = 500 * time.Millisecond

// Reader reads fixed partitions, read_committed, by direct assignment. It has
// its own client: a task that is taken away closes it, and nothing that it had
// fetched can be processed afterwards. Not polling is the back-pressure.
type Reader struct {
	cl   *kgo.Client
	gaps map[topicPartition]*gaps

	mu        sync.Mutex
	compacted map[string]bool
}

type topicPartition struct {
	topic     string
	partition int32
}

// gaps follows the offsets of one partition.
type gaps struct {
	next int64 // expected
	open int64 // first offset missing without an explanation yet; -1: none
}

// Errors of Poll that a person has to act on.
var (
	// ErrOutOfRange: the position is not in the log any more.
	ErrOutOfRange = errors.New("the position is outside of the partition's log")
	// ErrBackwards: a record came twice or out of order.
	ErrBackwards = errors.New("the broker client returned an offset that is not behind the last one")
)

// NewReader opens a reader. fetchBytes bounds what it buffers; compacted names
// the topics whose offsets may have gaps at any place.
func NewReader(base []kgo.Opt, starts []Start, fetchBytes int32, compacted map[string]bool) (*Reader, error) {
	r := &Reader{gaps: map[topicPartition]*gaps{}, compacted: compacted}
	parts := r.partitions(starts)
	opts := append(slices.Clip(base),
		kgo.ConsumePartitions(parts),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(max(64<<10, fetchBytes/int32(max(1, min(len(starts), 8))))),
		kgo.MaxConcurrentFetches(1),
		kgo.FetchMaxWait(fetchMaxWait),
	)
	var err error
	if r.cl, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("source reader: %w", err)
	}
	return r, nil
}

func (r *Reader) partitions(starts []Start) map[string]map[int32]kgo.Offset {
	parts := map[string]map[int32]kgo.Offset{}
	for _, s := range starts {
		if parts[s.Topic] == nil {
			parts[s.Topic] = map[int32]kgo.Offset{}
		}
		// No epoch: a truncation that matters shows as an offset out of range,
		// and an epoch of a topic restored elsewhere would block the start.
		parts[s.Topic][s.Partition] = kgo.NewOffset().At(s.Offset)
		r.gaps[topicPartition{s.Topic, s.Partition}] = &gaps{next: s.Offset, open: -1}
	}
	return parts
}

// Add starts reading further partitions.
func (r *Reader) Add(starts []Start) {
	r.mu.Lock()
	parts := r.partitions(starts)
	r.mu.Unlock()
	r.cl.AddConsumePartitions(parts)
}

// Poll waits for records, at most max of them, and calls each for every data
// record in order. Control records only move positions, which moved tells.
// A retriable fetch error is not returned: the client goes on by itself. A
// fetch with errors may hold records too; they are processed first.
func (r *Reader) Poll(ctx context.Context, maxRecords int, each func(*kgo.Record) error) error {
	fs := r.cl.PollRecords(ctx, maxRecords)
	if err := ctx.Err(); err != nil && fs.NumRecords() == 0 {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed error
	fs.EachPartition(func(p kgo.FetchTopicPartition) {
		if failed != nil {
			return
		}
		failed = r.partition(p, each)
	})
	return failed
}

func (r *Reader) partition(p kgo.FetchTopicPartition, each func(*kgo.Record) error) error {
	g := r.gaps[topicPartition{p.Topic, p.Partition}]
	for _, rec := range p.Records {
		if g == nil {
			return fmt.Errorf("%s-%d@%d: a partition that this task does not own: %w", p.Topic, p.Partition, rec.Offset, ErrBackwards)
		}
		if err := g.see(rec, r.compacted[p.Topic]); err != nil {
			return err
		}
		if rec.Attrs.IsControl() {
			continue
		}
		if err := each(rec); err != nil {
			return err
		}
	}
	return fetchError(p)
}

func fetchError(p kgo.FetchTopicPartition) error {
	var lost *kgo.ErrDataLoss
	switch {
	case p.Err == nil, errors.Is(p.Err, context.Canceled), errors.Is(p.Err, context.DeadlineExceeded):
		return nil
	case errors.Is(p.Err, kerr.OffsetOutOfRange), errors.As(p.Err, &lost):
		return fmt.Errorf("%s-%d: %w: records were deleted before they were read (retention), or the topic was truncated: %w", p.Topic, p.Partition, ErrOutOfRange, p.Err)
	}
	var ke *kerr.Error
	if errors.As(p.Err, &ke) && ke.Retriable {
		return nil
	}
	return fmt.Errorf("fetch %s-%d: %w", p.Topic, p.Partition, p.Err)
}

// see checks that offsets rise without a gap, except for what the broker
// compacted or aborted: missing offsets in a topic that is not compacted are
// explained by an abort marker behind them.
func (g *gaps) see(rec *kgo.Record, compacted bool) error {
	if rec.Offset < g.next {
		return fmt.Errorf("%s-%d@%d: expected offset %d or later: %w", rec.Topic, rec.Partition, rec.Offset, g.next, ErrBackwards)
	}
	if rec.Offset > g.next && !compacted && g.open < 0 {
		g.open = g.next
	}
	if rec.Attrs.IsControl() && isAbort(rec) {
		g.open = -1
	}
	g.next = rec.Offset + 1
	return nil
}

// isAbort reads a control record's key: version, then type 0 abort, 1 commit.
func isAbort(rec *kgo.Record) bool {
	return len(rec.Key) >= 4 && rec.Key[2] == 0 && rec.Key[3] == 0
}

// Gap is the first offset of a partition that is missing without an
// explanation, and whether there is one.
func (r *Reader) Gap() (topic string, partition int32, offset int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for tp, g := range r.gaps {
		if g.open >= 0 {
			return tp.topic, tp.partition, g.open, true
		}
	}
	return "", 0, 0, false
}

// Next is the position behind everything seen of a partition, control records
// included.
func (r *Reader) Next(topic string, partition int32) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.gaps[topicPartition{topic, partition}]; g != nil {
		return g.next
	}
	return -1
}

// Positions are the places behind everything seen, control records included.
func (r *Reader) Positions() []Start {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Start, 0, len(r.gaps))
	for tp, g := range r.gaps {
		out = append(out, Start{Topic: tp.topic, Partition: tp.partition, Offset: g.next})
	}
	return out
}

// Close stops reading.
func (r *Reader) Close() { r.cl.CloseAllowingRebalance() }
