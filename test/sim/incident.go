//go:build synctests

package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/sinktest"
)

// brokerErrors are what a broker answers in place of acting.
func brokerErrors() []*kerr.Error {
	return []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable,
		kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.UnknownServerError, kerr.ConcurrentTransactions,
	}
}

// run carries out the schedule's incidents at their times.
func (w *world) incidents(ctx context.Context) {
	begin := time.Now()
	for n, i := range w.s.Steps {
		w.rest(i.At - time.Since(begin))
		if ctx.Err() != nil {
			return
		}
		w.log.Info("incident", "n", n, "what", i.String())
		if w.happen(ctx, n, i) {
			w.note(string(i.Kind))
		}
	}
}

// happen reports whether there was something for the incident to happen to.
// Those that wait for a moment are counted when it comes.
func (w *world) happen(ctx context.Context, n int, i incident) bool {
	switch i.Kind {
	case kill:
		return w.each(i.Worker, func(s *slot, p *process) { w.kill(s, p, i.For) })
	case freeze:
		return w.each(i.Worker, func(_ *slot, p *process) {
			if i.Deaf {
				p.host.deafen()
			}
			w.freeze(p, i.For)
		})
	case stopIt:
		return w.each(i.Worker, func(s *slot, p *process) { w.stop(s, p, i.For) })
	case join:
		w.join(i.For)
	case atPoint:
		w.each(i.Worker, func(_ *slot, p *process) {
			w.mu.Lock()
			defer w.mu.Unlock()
			p.armed = append(p.armed, &pointArm{incident: i, left: i.Nth})
		})
		return false
	case network:
		w.each(i.Worker, func(_ *slot, p *process) { p.host.arm(rule{key: i.Key, nth: i.Nth, fault: i.Fault, delay: i.For}) })
		return false
	case brokerErr:
		e := brokerErrors()[i.For]
		w.injected = append(w.injected, w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Key(i.Key)}, Count: i.Nth, Err: e}))
		return false
	case moved:
		if w.s.Shape.Brokers == 1 {
			return false
		}
		w.cluster.ShufflePartitionLeaders()
		w.cluster.RehashCoordinators()
	case outage:
		w.servers(i.Sink, (*sinktest.Server).Down)
		w.wg.Go(func() {
			w.rest(i.For)
			w.servers(i.Sink, (*sinktest.Server).Up)
		})
		return len(w.srvs) > 0
	case crashSink:
		w.servers(i.Sink, (*sinktest.Server).Kill)
		return len(w.srvs) > 0
	case loseSink:
		w.watch.mu.Lock()
		w.watch.loseNth = i.Nth
		w.watch.mu.Unlock()
		return false
	case grow:
		return w.grow(ctx)
	case abortTxn:
		if err := w.input.aborted(ctx, n); err != nil {
			w.log.Info("aborted transaction", "err", err)
			return false
		}
	case jump:
		w.jump(i.For)
	case bump:
		w.bump(ctx, i)
	case duel:
		w.duel(i)
		return false
	}
	return true
}

// duel lets a worker sleep in the middle of something until it has lost its
// tasks, and wake while those who take them over are fencing it.
func (w *world) duel(i incident) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, s := range w.slots {
		switch {
		case s.proc == nil:
		case n == i.Worker:
			s.proc.armed = append(s.proc.armed, &pointArm{left: 1, incident: incident{Kind: i.Kind, Point: i.Point, Do: "freeze", For: i.For, Deaf: i.Deaf}})
		default:
			s.proc.host.arm(rule{key: int16(kmsg.InitProducerID), nth: i.Nth, fault: delayIt, delay: i.For - 5500*time.Millisecond})
		}
	}
}

// each finds the process in a slot, if one lives there.
func (w *world) each(n int, f func(*slot, *process)) bool {
	w.mu.Lock()
	s := w.slots[n%len(w.slots)]
	p := s.proc
	w.mu.Unlock()
	if p != nil {
		f(s, p)
	}
	return p != nil
}

// stop ends a process gracefully.
func (w *world) stop(s *slot, p *process, rest time.Duration) {
	p.cancel()
	w.wg.Go(func() {
		<-p.done
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.proc == p {
			s.proc, s.after = nil, time.Now().Add(rest)
		}
	})
}

// join adds a worker that leaves again.
func (w *world) join(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &slot{n: len(w.slots)}
	w.slots = append(w.slots, s)
	w.wg.Go(func() {
		w.rest(d)
		w.mu.Lock()
		s.gone = true
		p := s.proc
		w.mu.Unlock()
		if p != nil {
			p.cancel()
		}
	})
}

// jump is what a machine that was suspended sees.
func (w *world) jump(d time.Duration) {
	w.mu.Lock()
	var ps []*process
	for _, s := range w.slots {
		if s.proc != nil {
			ps = append(ps, s.proc)
		}
	}
	w.mu.Unlock()
	for _, p := range ps {
		w.freeze(p, d)
	}
	w.rest(d)
}

func (w *world) grow(ctx context.Context) bool {
	err := w.admin(func(c *kadm.Client) error {
		_, err := c.CreatePartitions(ctx, 1, source)
		return err
	})
	if err != nil {
		w.log.Info("one more partition", "err", err)
	}
	return err == nil
}

// bump stops every worker and begins a new generation, by a command that may
// die on the way and is called again, as its documentation says.
func (w *world) bump(ctx context.Context, i incident) {
	w.mu.Lock()
	w.paused = true
	slots := slices.Clone(w.slots)
	var ps []*process
	for _, s := range slots {
		if s.proc != nil {
			ps = append(ps, s.proc)
		}
	}
	w.tasks = int32(i.Nth)
	w.mu.Unlock()
	for n, p := range ps {
		switch {
		case i.Deaf && n == 0:
			w.sleepThrough(p)
			continue
		case n%2 == 1:
			p.host.set(dead)
		}
		p.cancel()
	}
	for n, p := range ps {
		if !i.Deaf || n != 0 {
			<-p.done
		}
	}
	for try := 0; ctx.Err() == nil; try++ {
		err := w.reset(ctx, i, try)
		w.log.Info("reset", "try", try, "err", err)
		if err == nil {
			break
		}
		if try == 100 {
			w.watch.mu.Lock()
			w.watch.violated("a reset does not come to an end: %v", err)
			w.watch.mu.Unlock()
			break
		}
		w.rest(time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = false
	for _, s := range w.slots {
		s.proc = nil
	}
}

// sleepThrough leaves a worker of the old generation asleep until its session is
// over and the reset has begun, or is done. It wakes to the seal.
func (w *world) sleepThrough(p *process) {
	w.mu.Lock()
	for _, s := range w.slots {
		if s.proc == p {
			s.proc = nil // that it ends by itself is right
		}
	}
	w.mu.Unlock()
	p.host.deafen()
	p.host.set(frozen)
	w.wg.Go(func() {
		w.rest(20 * time.Second)
		p.host.set(up)
		w.rest(20 * time.Second)
		p.cancel()
		<-p.done
		w.note("woke to the seal")
	})
}

func (w *world) reset(ctx context.Context, i incident, try int) error {
	h := newHost(w, fmt.Sprintf("reset.%d", try))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	points := failpoint.New(func(ctx context.Context, at failpoint.Point, _ int32, _ int64) error {
		w.note("point " + string(at))
		if err := h.gate(ctx); err != nil {
			return err
		}
		if try == 0 && at == i.Point {
			h.set(dead)
			cancel()
			return errDead
		}
		return nil
	})
	w.mu.Lock()
	w.add(points, h)
	w.mu.Unlock()
	_, err := engine.New(w.config(h, points)).Reset(ctx, engine.ResetOptions{Wait: time.Minute})
	return err
}
