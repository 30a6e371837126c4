package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

// latency is what one contestant took at one rate, in one round.
type latency struct {
	p50, p99, max time.Duration
	samples       int
	counts        Counts // of the whole job, at all rates
}

// pilotRate is that of the payments by which we see that a contestant works.
const pilotRate = 200

// warmUp goes before each measurement, at its rate.
const warmUp = time.Second

func (r *run) measureLatency(ctx context.Context, c contestant) (err error) {
	j, m, p, err := r.feed(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kill()) }()
	defer m.close()
	next, err := r.pilot(ctx, m, p)
	if err != nil {
		return err
	}
	first := make([]int64, len(r.o.Rates))
	last := make([]int64, len(r.o.Rates))
	for i, rate := range r.o.Rates {
		if next, err = m.write(ctx, next, count(rate, warmUp), rate); err != nil {
			return err
		}
		first[i] = next
		if next, err = m.write(ctx, next, count(rate, r.o.Measure), rate); err != nil {
			return err
		}
		last[i] = next
	}
	counts, err := m.settle(ctx)
	if err != nil {
		return err
	}
	r.problem(counts, "latency of "+c.name(), c.once())
	for i, rate := range r.o.Rates {
		l := summary(m.taken(first[i], last[i]))
		l.counts = counts
		if r.latencies[c] == nil {
			r.latencies[c] = map[float64][]latency{}
		}
		r.latencies[c][rate] = append(r.latencies[c][rate], l)
		r.say("latency     %-22s %8.0f/s  p50 %6.1f ms  p99 %6.1f ms  max %6.1f ms", c.name(), rate, ms(l.p50), ms(l.p99), ms(l.max))
	}
	if err := p.stop(); err != nil {
		return err
	}
	return r.cluster.remove(ctx, j.to, j.from)
}

// feed starts a job on an empty topic of its own, with a meter around it.
func (r *run) feed(ctx context.Context, c contestant) (job, *meter, *process, error) {
	j, err := r.job(ctx, c, "")
	if err != nil {
		return j, nil, nil, err
	}
	j.from = j.id + ".in"
	if err := r.cluster.create(ctx, j.from, r.o.Partitions); err != nil {
		return j, nil, nil, err
	}
	m, err := r.newMeter(ctx, j)
	if err != nil {
		return j, nil, nil, err
	}
	p, err := r.start(j)
	if err != nil {
		m.close()
		return j, nil, nil, err
	}
	return j, m, p, nil
}

// pilot writes payments until the first one is out, and gives the next index.
func (r *run) pilot(ctx context.Context, m *meter, p *process) (int64, error) {
	out := m.any()
	pilotCtx, stop := context.WithCancel(ctx)
	defer stop()
	waited := make(chan error, 1)
	go func() {
		defer stop()
		_, err := wait(ctx, p, "first output", out)
		waited <- err
	}()
	next, err := m.write(pilotCtx, 0, 0, pilotRate)
	return next, errors.Join(err, <-waited)
}

func count(rate float64, d time.Duration) int64 { return int64(rate * d.Seconds()) }

// summary sorts ds.
func summary(ds []time.Duration) latency {
	if len(ds) == 0 {
		return latency{}
	}
	slices.Sort(ds)
	return latency{p50: percentile(ds, 50), p99: percentile(ds, 99), max: ds[len(ds)-1], samples: len(ds)}
}

// percentile is the least of the sorted values that p percent do not exceed
// (nearest rank).
func percentile(sorted []time.Duration, p int) time.Duration {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
