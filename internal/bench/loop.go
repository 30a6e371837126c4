package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// Loop is what the engine is compared with: the loop that a user of franz-go
// writes by hand, from its GroupTransactSession, with the steps in plain Go.
type Loop struct {
	Brokers  []string
	From, To string // topics
	Group    string
	Interval time.Duration // of transactions
	Sessions int           // each a member of the group, with a producer of its own
	Static   bool          // members have static ids (KIP-345), which their user has to keep unique
	Log      *slog.Logger
}

// payment is a record, in and out.
type payment struct {
	ID          string `json:"payment_id"`
	AmountCents int64  `json:"amount_cents"`
	Merchant    string `json:"merchant_id"`
	EventTime   string `json:"event_time"`
	Status      string `json:"status"`
	FeeCents    int64  `json:"fee_cents"`
	ProcessedAt string `json:"processed_at"`
}

// timeFormat is RFC 3339 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Run works until ctx ends.
func (l Loop) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range l.Sessions {
		g.Go(func() error { return l.session(ctx, i) })
	}
	return g.Wait()
}

func (l Loop) session(ctx context.Context, i int) error {
	id := fmt.Sprintf("%s-%d", l.Group, i)
	opts := []kgo.Opt{
		kgo.SeedBrokers(l.Brokers...),
		kgo.ConsumerGroup(l.Group), kgo.ConsumeTopics(l.From),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.TransactionalID(id),
		kgo.ProducerLinger(0), // a transaction is short as it is; compression: snappy, the default
		kgo.MaxBufferedRecords(100_000),
	}
	if l.Static {
		opts = append(opts, kgo.InstanceID(id))
	}
	s, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return fmt.Errorf("session %s: %w", id, err)
	}
	defer s.Close()
	for ctx.Err() == nil {
		if err := l.transaction(ctx, s); err != nil {
			return fmt.Errorf("session %s: %w", id, err)
		}
	}
	return nil
}

// pollRecords is how many records a poll brings at most.
const pollRecords = 10_000

// transaction is one consume, transform and produce round of an interval.
func (l Loop) transaction(ctx context.Context, s *kgo.GroupTransactSession) error {
	fs := s.PollRecords(ctx, pollRecords)
	if fs.NumRecords() == 0 {
		return fetchError(ctx, fs)
	}
	if err := s.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	interval, cancel := context.WithTimeout(ctx, l.Interval)
	defer cancel()
	var failed atomic.Pointer[error]
	produced := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	for {
		if err := fetchError(interval, fs); err != nil {
			return err
		}
		now := time.Now()
		for it := fs.RecordIter(); !it.Done(); {
			r, err := l.enrich(it.Next(), now)
			if err != nil {
				return err
			}
			if r != nil {
				s.Produce(context.Background(), r, produced)
			}
		}
		if interval.Err() != nil {
			break
		}
		fs = s.PollRecords(interval, pollRecords)
	}
	// Not with ctx: what was begun is ended.
	if err := s.Client().Flush(context.Background()); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := failed.Load(); err != nil {
		l.Log.Warn("produce_failed", "err", *err)
	}
	committed, err := s.End(context.Background(), kgo.TransactionEndTry(failed.Load() == nil))
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	if !committed {
		l.Log.Warn("transaction_aborted")
	}
	return nil
}

// enrich does the steps; nil: the record is dropped.
func (l Loop) enrich(r *kgo.Record, now time.Time) (*kgo.Record, error) {
	var p payment
	if err := json.Unmarshal(r.Value, &p); err != nil {
		return nil, fmt.Errorf("decode %s-%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	if p.AmountCents <= 0 {
		return nil, nil
	}
	p.Status = "ok"
	if p.AmountCents >= 40_000 {
		p.Status = "review"
	}
	p.FeeCents = p.AmountCents*29/1000 + 30
	p.ProcessedAt = now.UTC().Format(timeFormat)
	value, err := json.Marshal(&p)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", p.ID, err)
	}
	return &kgo.Record{Topic: l.To, Key: []byte(p.ID), Value: value, Timestamp: r.Timestamp}, nil
}

// fetchError is what a loop stops for: not the end of ctx, nor what the client
// gets over by itself.
func fetchError(ctx context.Context, fs kgo.Fetches) error {
	for _, e := range fs.Errors() {
		if ctx.Err() != nil && (errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded)) {
			continue
		}
		var ke *kerr.Error
		if errors.As(e.Err, &ke) && ke.Retriable {
			continue
		}
		return fmt.Errorf("fetch %s-%d: %w", e.Topic, e.Partition, e.Err)
	}
	return nil
}
