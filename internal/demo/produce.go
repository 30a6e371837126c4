package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/payments"
)

// eventBase is the event time of payment 0; each is a second later.
var eventBase = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// producer writes the payments while the workers are being killed: quickly up
// to a limit that follows the kills, then by a trickle, so that there is always
// something to process.
type producer struct {
	cl    *kgo.Client
	topic string
	x     *index
	n     int64

	mu      sync.Mutex
	limit   int64   // quickly up to here
	reserve int64   // the trickle stops here
	rate    float64 // per second, up to limit
	err     error
}

// trickle is how many payments per second there are beyond the limit.
const trickle = 60

func (p *producer) set(limit, reserve int64, rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.reserve, p.rate = min(limit, p.n), min(reserve, p.n), rate
}

// stop is where the producer waits at the latest.
func (p *producer) stop() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.limit, p.reserve)
}

func (p *producer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// run writes until all payments are acknowledged or ctx ends.
func (p *producer) run(ctx context.Context) error {
	const beat = 4 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	credit := 0.0
	last := time.Now()
	for i := int64(0); i < p.n; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			p.mu.Lock()
			rate := p.rate
			stop := p.limit
			if i >= p.limit {
				rate, stop = trickle, p.reserve
			}
			err := p.err
			p.mu.Unlock()
			if err != nil {
				return err
			}
			credit = min(credit+rate*now.Sub(last).Seconds(), rate/4+1)
			last = now
			for ; credit >= 1 && i < stop; credit-- {
				p.send(ctx, i)
				i++
			}
		}
	}
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("write payments: %w", err)
	}
	return p.failed()
}

func (p *producer) send(ctx context.Context, i int64) {
	pay := payments.New(i, eventBase.Add(time.Duration(i)*time.Second))
	r := &kgo.Record{Topic: p.topic, Key: pay.Key(), Value: pay.AppendJSON(make([]byte, 0, 160))}
	p.cl.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err == nil {
			p.x.put(i, r.Partition, r.Offset)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err == nil {
			p.err = fmt.Errorf("write payment %d: %w", i, err)
		}
	})
}
