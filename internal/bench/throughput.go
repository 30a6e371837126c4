package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// throughput is one pass over the backlog.
type throughput struct {
	rate   float64       // records per second, from the first written to all visible
	whole  time.Duration // from the start of the process to all visible
	cpu    time.Duration // of the process, for all records
	peak   int64         // bytes
	counts Counts
}

// pollEvery is how often we look from outside whether a pass is done: often
// enough for 0.1 % of it, too seldom to take anything from it.
const pollEvery = 20 * time.Millisecond

func (r *run) measureThroughput(ctx context.Context, c contestant) (err error) {
	j, err := r.job(ctx, c, r.backlog)
	if err != nil {
		return err
	}
	p, err := r.start(j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kill()) }()
	first, err := r.until(ctx, p, func() (bool, error) {
		n, err := r.cluster.written(ctx, j.to)
		return n > 0, err
	})
	if err != nil {
		return err
	}
	last, err := r.until(ctx, p, func() (bool, error) { return r.through(ctx, j) })
	if err != nil {
		return err
	}
	t := throughput{
		rate: float64(r.o.Records) / last.Sub(first).Seconds(), whole: last.Sub(p.started), peak: p.peak(),
	}
	if err := p.stop(); err != nil {
		return err
	}
	t.cpu = p.cpu()
	if t.counts, err = r.count(ctx, j.to, r.inputs); err != nil {
		return err
	}
	r.throughputs[c] = append(r.throughputs[c], t)
	r.problem(t.counts, "throughput of "+c.name(), c.once())
	r.say("throughput  %-22s %8.0f/s  %5.2f CPU s per million  %4d MiB", c.name(), t.rate, r.perMillion(t), t.peak>>20)
	return r.cluster.remove(ctx, j.to)
}

func (r *run) perMillion(t throughput) float64 {
	return t.cpu.Seconds() / float64(r.o.Records) * 1e6
}

// through reports whether the whole backlog is committed and visible.
func (r *run) through(ctx context.Context, j job) (bool, error) {
	n, err := r.cluster.done(ctx, j.group(), j.from)
	if err != nil || n < r.o.Records {
		return false, err
	}
	written, err := r.cluster.written(ctx, j.to)
	if err != nil {
		return false, err
	}
	stable, err := r.cluster.stable(ctx, j.to)
	return stable == written, err
}

// patience is how long a contestant may take for anything.
const patience = 10 * time.Minute

// until polls a condition, and gives the time at which it held.
func (r *run) until(ctx context.Context, p *process, done func() (bool, error)) (time.Time, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		ok, err := done()
		if err != nil {
			return time.Time{}, err
		}
		if ok {
			return time.Now(), nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return time.Time{}, p.died()
		case <-limit.C:
			return time.Time{}, fmt.Errorf("not done after %s%s", patience, p.tail())
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}
