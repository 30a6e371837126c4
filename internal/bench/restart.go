package bench

import (
	"context"
	"errors"
	"time"
)

// restart is what became of a contestant that was killed over and over.
type restart struct {
	took   []time.Duration // from SIGKILL to new output
	counts Counts          // over all rounds
}

// killRate is that of the payments that go on all the time.
const killRate = 2000

// calm is how long a contestant keeps up before it is killed.
const calm = time.Second

// kills of one job in a round. A loop without a static id waits for the session
// time-out each time.
func (r *run) kills(c contestant) int {
	if c.guarantee == "" && !c.static {
		return 1
	}
	return r.o.Kills
}

func (r *run) measureRestart(ctx context.Context, c contestant) (err error) {
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
	writeCtx, stop := context.WithCancel(ctx)
	defer stop()
	written := make(chan error, 1)
	go func() {
		_, err := m.write(writeCtx, next, 0, killRate)
		written <- err
	}()
	res := r.restarts[c]
	if res == nil {
		res = &restart{}
		r.restarts[c] = res
	}
	for range r.kills(c) {
		var took time.Duration
		if p, took, err = r.killOnce(ctx, j, m, p); err != nil {
			return err
		}
		res.took = append(res.took, took)
		r.say("restart     %-38s %6.0f ms from SIGKILL to new output", c.name(), ms(took))
	}
	stop()
	if err := <-written; err != nil {
		return err
	}
	counts, err := m.settle(ctx)
	if err != nil {
		return err
	}
	if j.table != "" {
		r.problem(counts, "restart of "+c.name()+", the topic beside it", true)
		if counts, err = r.tables.settled(ctx, j.table, counts); err != nil {
			return err
		}
	}
	r.problem(counts, "restart of "+c.name(), c.once())
	res.counts = res.counts.plus(counts)
	if err := p.stop(); err != nil {
		return err
	}
	return r.cluster.remove(ctx, j.to, j.from)
}

// killOnce lets a contestant keep up for a while, kills it, starts it again at
// once, and waits for output that only the new process can have made: a row where
// it has a table, else a record.
func (r *run) killOnce(ctx context.Context, j job, m *meter, p *process) (*process, time.Duration, error) {
	if _, err := wait(ctx, p, "keeping up", m.madeAfter(time.Now().Add(calm))); err != nil {
		return p, 0, err
	}
	killed := time.Now()
	if err := p.kill(); err != nil {
		return p, 0, err
	}
	out := m.processedAfter(time.Now())
	again, err := r.start(j)
	if err != nil {
		return p, 0, err
	}
	var first time.Time
	if j.table != "" {
		first, err = r.tables.processedAfter(ctx, again, j.table, killed)
	} else {
		first, err = wait(ctx, again, "output after the restart", out)
	}
	if err != nil {
		return again, 0, err
	}
	if _, err := wait(ctx, again, "catching up", m.madeAfter(first)); err != nil {
		return again, 0, err
	}
	return again, first.Sub(killed), nil
}
