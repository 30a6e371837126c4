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

// producer writes the payments while the workers are being killed, as many as
// it is granted, so that there is something to process until the last kill.
type producer struct {
	cl    *kgo.Client
	topic string
	x     *index
	n     int64

	mu    sync.Mutex
	limit int64   // written up to here
	rate  float64 // per second
	err   error
}

// leastRate is per second.
const leastRate = 100

// grant lets n more payments through, within about d.
func (p *producer) grant(n int64, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = min(p.limit+n, p.n)
	p.rate = max(leastRate, float64(n)/d.Seconds())
}

// left is how many payments were not yet granted.
func (p *producer) left() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n - p.limit
}

// granted is how many there were in all.
func (p *producer) granted() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
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
			rate, stop, err := p.rate, p.limit, p.err
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
