package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/outbox"
	"exactly/record"
	"exactly/sink"
)

// feed gives one sink the decided entries behind its position, in order and
// without a gap: from the tail in memory where that reaches back far enough,
// else from the outbox topic.
type feed struct {
	w      *Worker
	task   int32
	tail   *outbox.Tail
	most   int      // entries at once
	pos    sink.Pos // of the last entry that was given
	offset int64    // to read from to find what is behind pos
	lag    *broker.Reader
	held   []outbox.Entry // read, not yet given
}

// Sizes of a batch.
const (
	feedRecords = 4000
	feedBytes   = 4 << 20
)

var errOutboxGap = errors.New("the outbox has a gap: records that were decided are missing")

// next blocks until there are entries, or until limit has passed: then it gives
// none. The entries are valid until the next call.
func (f *feed) next(ctx context.Context, limit time.Duration) ([]outbox.Entry, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		es, wake, ok := f.tail.From(f.pos, f.most, feedBytes)
		switch {
		case ok && len(es) > 0:
			f.closeLag()
			return es, f.contiguous(es)
		case !ok:
			es, err := f.fromTopic(ctx, limit)
			if err != nil || len(es) > 0 {
				return es, errors.Join(err, f.contiguous(es))
			}
			return nil, ctx.Err()
		}
		select {
		case <-wake:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// contiguous upholds that nothing is skipped: each entry names its predecessor.
func (f *feed) contiguous(es []outbox.Entry) error {
	at := f.pos
	for i := range es {
		if es[i].Prev != at {
			return fmt.Errorf("%s-%d@%d: entry %s follows %s, not %s: %w",
				f.w.names.Outbox(), f.task, es[i].Offset, es[i].Pos, es[i].Prev, at, errOutboxGap)
		}
		at = es[i].Pos
	}
	return nil
}

// advance is called when the entries up to pos were dealt with.
func (f *feed) advance(pos sink.Pos, offset int64) {
	f.pos, f.offset = pos, max(f.offset, offset)
	for len(f.held) > 0 && !pos.Before(f.held[0].Pos) {
		f.held = f.held[1:]
	}
}

// begin fetches what a predecessor left, while the sink is opened.
func (f *feed) begin() error {
	if f.pos == f.tail.Head() {
		return nil
	}
	return f.openLag()
}

func (f *feed) openLag() (err error) {
	if f.lag == nil {
		start := broker.Start{Topic: f.w.names.Outbox(), Partition: f.task, Offset: f.offset}
		f.lag, err = broker.NewReader(f.w.base(), []broker.Start{start}, feedBytes/unpacked, map[string]bool{start.Topic: true})
		f.held = nil
	}
	return err
}

func (f *feed) fromTopic(ctx context.Context, limit time.Duration) ([]outbox.Entry, error) {
	if err := f.openLag(); err != nil {
		return nil, err
	}
	if len(f.held) > 0 {
		return f.held, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f.lag.Poll(ctx, f.most, func(r *kgo.Record) error {
		e, err := entryOf(r)
		if err != nil {
			return Permanent(fmt.Errorf("%s-%d@%d: %w", r.Topic, r.Partition, r.Offset, err))
		}
		if f.pos.Before(e.Pos) {
			f.held = append(f.held, e)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && len(f.held) == 0:
		return nil, nil
	case errors.Is(err, broker.ErrOutOfRange):
		return nil, Permanent(fmt.Errorf("the outbox was trimmed or truncated below what a sink still needs: %w", err))
	}
	return f.held, err
}

func entryOf(r *kgo.Record) (outbox.Entry, error) {
	hs := make([]record.Header, len(r.Headers))
	for i, h := range r.Headers {
		hs[i] = record.Header{Key: h.Key, Value: h.Value}
	}
	return outbox.Parse(r.Key, r.Value, hs, r.Timestamp.UnixMilli(), r.Offset)
}

func (f *feed) closeLag() {
	if f.lag != nil {
		f.lag.Close()
		f.lag, f.held = nil, nil
	}
}
