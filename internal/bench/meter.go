package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/payments"
)

// meter writes payments to the input of a job and reads its output as anybody
// would, read_committed. It knows of each payment when it was made and when it
// first came out. Its methods may be called from any goroutine.
type meter struct {
	from string
	cl   *kgo.Client // writes
	out  *kgo.Client // reads
	wg   sync.WaitGroup
	stop context.CancelFunc

	mu      sync.Mutex
	ids     map[uuid.UUID]int64
	made    []time.Time // by index of the payment
	arrived []time.Time // zero: not yet
	counts  Counts
	err     error
	wants   []want
}

// want is somebody who waits for a record.
type want struct {
	is   func(rec *kgo.Record, i int64) bool
	when chan time.Time // gets one arrival
}

// newMeter starts reading.
func (r *run) newMeter(ctx context.Context, j job) (*meter, error) {
	m := &meter{from: j.from, ids: map[uuid.UUID]int64{}}
	var err error
	// The loader must not cost the broker more than the contestants do.
	if m.cl, err = r.client(kgo.ProducerLinger(time.Millisecond)); err != nil {
		return nil, err
	}
	m.out, err = r.client(kgo.ConsumePartitions(partitions(j.to, r.o.Partitions)), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		m.cl.Close()
		return nil, err
	}
	ctx, m.stop = context.WithCancel(ctx)
	m.wg.Go(func() { m.read(ctx) })
	return m, nil
}

func (m *meter) close() {
	m.stop()
	m.wg.Wait()
	m.cl.Close()
	m.out.Close()
}

// write makes payments from first on at a rate and gives the next index. count
// 0: until ctx ends.
func (m *meter) write(ctx context.Context, first, count int64, rate float64) (int64, error) {
	return payments.Produce(ctx, m.cl, payments.Options{Topic: m.from, First: first, Count: count, Rate: rate, EventTime: m.note})
}

// note keeps that payment i is made now.
func (m *meter) note(i int64) time.Time {
	id, err := uuid.Parse(payments.ID(i))
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && m.err == nil {
		m.err = err
	}
	m.ids[id] = i
	for int64(len(m.made)) <= i {
		m.made, m.arrived = append(m.made, time.Time{}), append(m.arrived, time.Time{})
	}
	m.made[i] = now
	m.counts.Inputs++
	return now
}

func (m *meter) read(ctx context.Context) {
	for {
		fs := m.out.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		if err := fetchError(ctx, fs); err != nil && m.err == nil {
			m.err = err
		}
		fs.EachRecord(func(rec *kgo.Record) { m.see(rec, now) })
		m.mu.Unlock()
	}
}

func (m *meter) see(rec *kgo.Record, now time.Time) {
	id, err := idOf(rec.Value)
	i, known := m.ids[id]
	switch {
	case err != nil || !known:
		m.counts.Unknown++
		return
	case !m.arrived[i].IsZero():
		m.counts.Duplicates++
	default:
		m.arrived[i] = now
		m.counts.Unique++
	}
	if !right(rec) {
		m.counts.Wrong++
	}
	keep := m.wants[:0]
	for _, w := range m.wants {
		if w.is(rec, i) {
			w.when <- now
		} else {
			keep = append(keep, w)
		}
	}
	m.wants = keep
}

// await registers for the first record that is so, and gives its arrival.
func (m *meter) await(is func(rec *kgo.Record, i int64) bool) <-chan time.Time {
	w := want{is: is, when: make(chan time.Time, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wants = append(m.wants, w)
	return w.when
}

// any is the first record to come.
func (m *meter) any() <-chan time.Time {
	return m.await(func(*kgo.Record, int64) bool { return true })
}

// processedAfter is the first record that was processed after t, as the record
// itself says. It says so in whole milliseconds, so that what was processed in
// the same one does not count.
func (m *meter) processedAfter(t time.Time) <-chan time.Time {
	return m.await(func(rec *kgo.Record, _ int64) bool {
		var p payment
		if err := json.Unmarshal(rec.Value, &p); err != nil {
			return false
		}
		at, err := time.Parse(time.RFC3339Nano, p.ProcessedAt)
		return err == nil && at.After(t)
	})
}

// madeAfter is the first record of a payment that was made after t.
func (m *meter) madeAfter(t time.Time) <-chan time.Time {
	return m.await(func(_ *kgo.Record, i int64) bool { return m.made[i].After(t) })
}

// taken gives the latencies of the payments from first up to next.
func (m *meter) taken(first, next int64) []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ds []time.Duration
	for i := first; i < next; i++ {
		if !m.arrived[i].IsZero() {
			ds = append(ds, m.arrived[i].Sub(m.made[i]))
		}
	}
	return ds
}

// seen gives the counts so far.
func (m *meter) seen() (Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts, m.err
}

// settle waits until everything has come out, or until nothing more comes.
func (m *meter) settle(ctx context.Context) (Counts, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		c, err := m.seen()
		if err != nil || c.Unique == c.Inputs {
			return c, err
		}
		if c.Unique != last {
			last, since = c.Unique, time.Now()
		}
		if time.Since(since) > quietFor {
			return c, nil // the counts show what is missing
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}

// quietFor is how long an output may show nothing until it is taken for done.
const quietFor = 60 * time.Second

// wait waits for a record of a contestant.
func wait(ctx context.Context, p *process, what string, when <-chan time.Time) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case t := <-when:
		return t, nil
	case <-p.exited:
		return time.Time{}, p.died()
	case <-limit.C:
		return time.Time{}, fmt.Errorf("%s: nothing after %s%s", what, patience, p.tail())
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}
