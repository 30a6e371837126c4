package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"exactly/internal/mutation"
)

// ByKey as the Partition of a record lets the producer choose it as Kafka's own
// default does: by the hash of the key, and in turn where there is none.
const ByKey int32 = -1

// Producer is one of a task's transactional producers. It is thrown away with
// its attempt: a client whose transaction failed is never used again.
// Begin, Produce, Flush and End are called in the order of an epoch; Produce
// and SendOffsets may overlap with calls on the other producer.
type Producer struct {
	cl    *kgo.Client
	id    string
	group string
	v2    bool
	err   atomic.Pointer[error]
	onErr func(error)
	acked func(*kgo.Record, error) // produced, made a value once and not per record

	journal   string
	partition int32
}

// ProducerConfig is what a Producer is made from.
type ProducerConfig struct {
	TransactionalID string
	Group           string
	Timeout         time.Duration            // transaction.timeout.ms
	V2              bool                     // the cluster has finalised transaction.version 2 or above
	BatchBytes      func(topic string) int32 // of one batch, per topic; nil: the client's default
	Linger          time.Duration            // how long a batch waits for more; Flush ends it
	OnError         func(error)              // called once, when a record could not be produced

	// Journal and Partition are where the record goes that every transaction has.
	Journal   string
	Partition int32
}

// NewProducer makes the client over the worker's base options (see Options).
// Nothing is sent before Init.
func NewProducer(base []kgo.Opt, pc ProducerConfig) (*Producer, error) {
	p := &Producer{id: pc.TransactionalID, group: pc.Group, v2: pc.V2, onErr: pc.OnError, journal: pc.Journal, partition: pc.Partition}
	p.acked = p.produced
	opts := append(slices.Clip(base),
		kgo.TransactionalID(pc.TransactionalID),
		kgo.TransactionTimeout(pc.Timeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(pc.Linger),
		// The broker asks the coordinator about each request that arrives before a
		// partition's first one is in its log: one at a time costs it a third less,
		// and cannot arrive out of order.
		kgo.MaxProduceRequestsInflightPerBroker(1),
		// Bounded by the engine's byte budget: a Produce that blocks would stop
		// the task's event loop, and with it the epochs that make room.
		kgo.MaxBufferedRecords(math.MaxInt32),
		kgo.RecordPartitioner(Partitioner()),
		kgo.ConcurrentTransactionsBackoff(2*time.Millisecond),
	)
	if pc.BatchBytes != nil {
		opts = append(opts, kgo.ProducerBatchMaxBytesFn(pc.BatchBytes))
	}
	if !pc.V2 {
		// Without transaction version 2, TxnOffsetCommit up to v4 after
		// AddOffsetsToTxn (KIP-890).
		v := kversion.Stable()
		v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
		opts = append(opts, kgo.MaxVersions(v))
	}
	var err error
	if p.cl, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("producer %s: %w", pc.TransactionalID, err)
	}
	return p, nil
}

// Init sends InitProducerId without an expected id and epoch: it fences every
// other user of the id, aborts what they left open and completes what they
// decided. Only a takeover may call it.
func (p *Producer) Init(ctx context.Context) error {
	if _, _, err := p.cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("fence %s: %w", p.id, err)
	}
	return nil
}

// Warm finds the coordinator and connects to it, so that a later Init need not.
// It changes nothing. Best effort.
func (p *Producer) Warm(ctx context.Context) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{p.id}
	_, _ = req.RequestWith(ctx, p.cl)
}

// Begin begins a transaction. It does no I/O.
func (p *Producer) Begin() error {
	if err := p.Err(); err != nil {
		return err
	}
	if err := p.cl.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction of %s: %w", p.id, err)
	}
	return nil
}

// Produce adds a record to the open transaction and does not block. A failure
// is kept, given to OnError once, and returned by Flush.
func (p *Producer) Produce(r *kgo.Record) {
	p.cl.Produce(context.Background(), r, p.acked)
}

func (p *Producer) produced(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	p.fail(fmt.Errorf("produce to %s (partition %d, %d bytes, transactional id %s): %w", r.Topic, r.Partition, len(r.Key)+len(r.Value), p.id, err))
}

func (p *Producer) fail(err error) {
	if p.err.CompareAndSwap(nil, &err) && p.onErr != nil {
		p.onErr(err)
	}
}

// Err is the first failure, or nil.
func (p *Producer) Err() error {
	if e := p.err.Load(); e != nil {
		return *e
	}
	return nil
}

// Buffered is how many bytes wait for their acknowledgement.
func (p *Producer) Buffered() int64 { return p.cl.BufferedProduceBytes() }

// Flush waits until every record was acknowledged, and returns the first
// failure of the attempt.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush %s: %w", p.id, err)
	}
	return p.Err()
}

// End sends EndTxn(commit). nil means decided; anything else means that only
// the journal knows, after fencing.
func (p *Producer) End(ctx context.Context) error {
	err := p.knowsJournal(ctx)
	if err == nil {
		err = p.cl.EndTransaction(ctx, kgo.TryCommit)
	}
	if mutation.On(mutation.ErrorDecides) && errors.Is(err, kerr.UnknownServerError) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("end transaction of %s: %w", p.id, err)
		p.fail(err)
		return err
	}
	return nil
}

// knowsJournal waits until the client has stored what it has loaded of the journal's
// topic. It sends the first records of a topic before that, and for an instant sees no
// partition to which anything was produced: then it makes an abort of a commit, and
// reports success.
func (p *Producer) knowsJournal(ctx context.Context) error {
	for p.journal != "" {
		if leader, _, _ := p.cl.PartitionLeader(p.journal, p.partition); leader >= 0 {
			break
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("wait for the leader of %s-%d: %w", p.journal, p.partition, err)
		}
	}
	return nil
}

// Abort gives the open transaction up, so that readers need not wait for its
// time-out. Only for one whose End was never called. Best effort.
func (p *Producer) Abort(ctx context.Context) error {
	p.cl.UnsafeAbortBufferedRecords()
	return p.cl.EndTransaction(ctx, kgo.TryAbort)
}

// Close drops what is buffered and closes the client. It sends no EndTxn.
func (p *Producer) Close() {
	p.cl.UnsafeAbortBufferedRecords()
	p.cl.Close()
}

// OffsetCommit is a source position on its way into a transaction.
type OffsetCommit struct {
	Topic       string
	TopicID     [16]byte
	Partition   int32
	Offset      int64
	LeaderEpoch int32
}

// Membership says as whom offsets are committed. The zero value with
// Generation -1 commits without the group's fencing; the protocol's fencing is
// the transactional id's.
type Membership struct {
	MemberID   string
	Generation int32
}

// SendOffsets puts source offsets into the open transaction, behind everything
// that was produced so far. current gives the
// group membership and whether the task is still ours; it is asked again when
// the group has moved on meanwhile.
func (p *Producer) SendOffsets(ctx context.Context, offs []OffsetCommit, current func() (Membership, bool)) error {
	if len(offs) == 0 {
		return nil
	}
	// A coordinator takes one addition to a transaction at a time. A produce that
	// adds its partition meanwhile is bounced, and the back-offs of broker and
	// client make that tens of milliseconds, now and then hundreds.
	if err := p.Flush(ctx); err != nil {
		return err
	}
	if !p.v2 {
		if err := p.addOffsets(ctx); err != nil {
			return err
		}
	}
	err := Settle(ctx, func() error {
		m, ok := current()
		if !ok {
			return ErrNotOurs
		}
		return p.sendOffsets(ctx, offs, m)
	})
	if err != nil {
		return fmt.Errorf("offsets of %s: %w", p.id, err)
	}
	return nil
}

// ErrNotOurs: the group has taken the task away.
var ErrNotOurs = errors.New("the task was taken away")

func (p *Producer) addOffsets(ctx context.Context) error {
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("producer id of %s: %w", p.id, err)
	}
	err = Settle(ctx, func() error {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, id, epoch, p.group
		resp, err := req.RequestWith(ctx, p.cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("add offsets to %s: %w", p.id, err)
	}
	return nil
}

func (p *Producer) sendOffsets(ctx context.Context, offs []OffsetCommit, m Membership) error {
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = p.id, p.group
	req.ProducerID, req.ProducerEpoch = id, epoch
	req.MemberID, req.Generation = m.MemberID, m.Generation
	at := map[string]int{}
	for _, o := range offs {
		i, ok := at[o.Topic]
		if !ok {
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic, t.TopicID = o.Topic, o.TopicID // v6 sends the id alone
			i = len(req.Topics)
			at[o.Topic] = i
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = o.Partition, o.Offset, o.LeaderEpoch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	resp, err := req.RequestWith(ctx, p.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, rp := range t.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return fmt.Errorf("offset of %s-%d: %w", t.Topic, rp.Partition, err)
			}
		}
	}
	return nil
}

// Settle repeats what the broker refuses only for now: the transaction before
// is still being completed, the group or its coordinator is moving.
func Settle(ctx context.Context, f func() error) error {
	wait := 2 * time.Millisecond
	for {
		err := f()
		if err == nil || !settles(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(wait):
		}
		wait = min(2*wait, 100*time.Millisecond)
	}
}

func settles(err error) bool {
	for _, e := range []error{
		kerr.ConcurrentTransactions, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.UnknownMemberID,
		kerr.StaleMemberEpoch, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnstableOffsetCommit, kerr.UnknownTopicID, kerr.NotEnoughReplicas, kerr.RequestTimedOut,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Partitioner honours a record's own partition, and hashes keys as Kafka does
// for those that are ByKey.
func Partitioner() kgo.Partitioner { return partitioner{kgo.StickyKeyPartitioner(nil)} }

// partitioner honours a record's own partition, and hashes keys as Kafka does
// where it has none.
type partitioner struct{ byKey kgo.Partitioner }

func (p partitioner) ForTopic(t string) kgo.TopicPartitioner {
	return &topicPartitioner{byKey: p.byKey.ForTopic(t)}
}

type topicPartitioner struct {
	byKey kgo.TopicPartitioner
	turn  int
}

func (t *topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

// keylessRun is how many records without a key follow one another into one
// partition: long enough for full batches.
const keylessRun = 512

func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition >= 0:
		return int(r.Partition)
	case r.Key != nil:
		return t.byKey.Partition(r, n)
	}
	t.turn++
	return t.turn / keylessRun % n
}
