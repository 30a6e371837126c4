//go:build synctests

package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"exactly/sinktest"
)

// patience is how long, in virtual time, everything may take to be visible and
// confirmed once all faults are over.
const patience = 10 * time.Minute

// run lives one schedule; it has to be called inside a synctest bubble. The
// error is the violation that was found.
func run(s schedule, log *slog.Logger) (w *world, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	w, err = newWorld(s, log)
	if err != nil {
		cancel()
		return nil, err
	}
	supervised := make(chan struct{})
	go func() {
		defer close(supervised)
		w.supervise(ctx)
	}()
	err = w.live(ctx)
	w.mu.Lock()
	w.paused = true
	for _, s := range w.slots {
		if s.proc != nil {
			s.proc.host.set(dead)
			s.proc.cancel()
		}
	}
	for _, h := range w.hosts {
		h.set(dead)
	}
	w.mu.Unlock()
	close(w.over)
	cancel()
	<-supervised
	w.wg.Wait()
	w.cluster.Close()
	return w, err
}

func (w *world) live(ctx context.Context) error {
	fed := make(chan error, 1)
	go func() { fed <- w.input.run(ctx) }()
	w.incidents(ctx)
	if err := <-fed; err != nil {
		return err
	}
	w.rest(5 * time.Second)
	w.heal()
	if err := w.input.more(ctx, 7); err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	generations, err := w.stopAll(ctx)
	if err != nil {
		return err
	}
	if soon, never := w.check(ctx); never != nil || soon != nil {
		return errors.Join(never, soon) // what was there is not gone again either
	}
	for _, s := range w.srvs {
		if left := s.StagedWork(); len(left) > 0 {
			return fmt.Errorf("staged at the end in %s: %v", s.name, left)
		}
	}
	if err := w.checkJournals(ctx, generations); err != nil {
		return err
	}
	if w.s.Shape.Recreate && len(w.srvs) > 0 {
		w.note("recreated")
		if err := w.recreate(ctx); err != nil {
			return err
		}
	}
	return w.watch.first()
}

// heal ends every fault.
func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers("", (*sinktest.Server).Up)
	for _, f := range w.injected {
		if f.Hits() > 0 {
			w.happened[string(brokerErr)]++
		}
		f.Remove()
	}
	for _, s := range w.slots {
		if s.proc != nil {
			s.proc.armed = nil
			s.proc.host.heal()
		}
	}
	for _, h := range w.hosts {
		h.set(up)
	}
}

func (h *host) heal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = nil
}

// settle waits until the promise is kept.
func (w *world) settle(ctx context.Context) error {
	until := time.Now().Add(patience)
	for {
		soon, never := w.check(ctx)
		switch {
		case never != nil:
			return never
		case w.watch.first() != nil:
			return w.watch.first()
		case soon == nil:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("not within %s after the last fault: %w", patience, soon)
		}
		w.rest(500 * time.Millisecond)
	}
}

// stopAll stops every worker gracefully, so that everything is confirmed, and
// gives the number of generations.
func (w *world) stopAll(ctx context.Context) (int32, error) {
	w.mu.Lock()
	w.paused = true
	var ps []*process
	for _, s := range w.slots {
		if s.proc != nil {
			ps = append(ps, s.proc)
		}
	}
	w.mu.Unlock()
	w.rest(sweepEvery + 3*time.Second) // files by age, and what late zombies staged
	for _, p := range ps {
		p.cancel()
	}
	for _, p := range ps {
		<-p.done
	}
	var errs []error
	for _, p := range ps {
		errs = append(errs, p.err)
	}
	g := int32(0)
	err := w.admin(func(c *kadm.Client) error {
		topics, err := c.ListTopics(ctx)
		for n := int32(1); topics.Has(fmt.Sprintf("exactly.%s.g%d.journal", pipeline, n)); n++ {
			g = n
		}
		return err
	})
	return g, errors.Join(append(errs, err)...)
}
