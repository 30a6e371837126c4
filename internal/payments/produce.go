package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options say what Produce writes.
type Options struct {
	Topic string
	First int64   // index of the first payment
	Count int64   // how many; 0: until ctx ends
	Rate  float64 // payments per second; 0: as fast as the broker takes them

	// EventTime of payment i; nil: the time when it is made.
	EventTime func(i int64) time.Time
	// Acked is told of each payment that the broker has acknowledged, with its
	// partition and offset, one at a time. nil: nobody.
	Acked func(i int64, r *kgo.Record)
	// Finish is how long payments that are under way may take once ctx has ended;
	// 0: 10 s.
	Finish time.Duration
}

const defaultFinish = 10 * time.Second

// Produce writes payments and returns the index to go on with: every payment
// below it is acknowledged. It blocks until all are written, until ctx ends
// (which is no error), or until the broker refuses one.
func Produce(ctx context.Context, cl *kgo.Client, o Options) (int64, error) {
	last := int64(math.MaxInt64)
	if o.Count > 0 {
		last = o.First + o.Count
	}
	p := producer{Options: o, next: o.First, pending: map[int64]bool{}}
	made := o.First
	for pace := newPace(o.Rate); made < last && p.failed() == nil && pace.wait(ctx); made++ {
		p.send(ctx, cl, made)
	}
	// What was begun is finished: the next index is a promise.
	flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(o.Finish, defaultFinish))
	defer cancel()
	if err := cl.Flush(flushCtx); err != nil {
		return p.reached(), fmt.Errorf("write payments to topic %s: %w", o.Topic, err)
	}
	return p.reached(), p.failed()
}

// producer follows what is acknowledged.
type producer struct {
	Options
	mu      sync.Mutex
	next    int64          // all below are acknowledged
	pending map[int64]bool // acknowledged beyond next
	err     error
}

func (p *producer) send(ctx context.Context, cl *kgo.Client, i int64) {
	now := time.Now()
	eventTime := now
	if p.EventTime != nil {
		eventTime = p.EventTime(i)
	}
	pay := New(i, eventTime)
	r := &kgo.Record{
		Topic: p.Topic, Key: pay.Key(), Value: pay.AppendJSON(make([]byte, 0, 160)), Timestamp: now,
	}
	// Not cancelled with ctx: a cancelled record may or may not be written.
	cl.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) { p.acked(i, r, err) })
}

func (p *producer) acked(i int64, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.err == nil {
			p.err = fmt.Errorf("write payment %d to topic %s: %w", i, p.Topic, err)
		}
		return
	}
	if p.Acked != nil {
		p.Acked(i, r)
	}
	p.pending[i] = true
	for p.pending[p.next] {
		delete(p.pending, p.next)
		p.next++
	}
}

func (p *producer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *producer) reached() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// pace lets through rate calls of wait per second, in small groups, and catches
// up after a stall of at most a second.
type pace struct {
	rate  float64
	begin time.Time
	done  float64
}

func newPace(rate float64) *pace { return &pace{rate: rate, begin: time.Now()} }

// wait reports false when ctx has ended.
func (p *pace) wait(ctx context.Context) bool {
	if p.rate <= 0 {
		return ctx.Err() == nil
	}
	p.done++
	due := p.begin.Add(time.Duration((p.done - 1) / p.rate * float64(time.Second)))
	early := time.Until(due)
	if early < -time.Second {
		p.begin = p.begin.Add(-early - time.Second)
	}
	if early < time.Millisecond {
		return ctx.Err() == nil
	}
	t := time.NewTimer(early)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Validate says what is wrong with o, in the words of the flags of `exactly
// produce`.
func (o Options) Validate() error {
	switch {
	case o.Topic == "":
		return errors.New("topic: is missing")
	case o.First < 0:
		return errors.New("first: must not be negative")
	case o.Count < 0:
		return errors.New("count: must not be negative; 0 goes on for ever")
	case o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0):
		return errors.New("rate: must be a number of payments per second; 0 is as fast as the broker takes them")
	}
	return nil
}
