package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/sink"
)

// Worker is one process of a pipeline. Make one with New, Run it once.
type Worker struct {
	c       Config
	admin   *broker.Admin
	log     *broker.Log
	limits  *broker.Limits
	names   broker.Names
	meta    broker.Meta
	feat    broker.Features
	sources map[string]broker.TopicInfo // at the start
	member  *broker.Member
	slot    *slot
	away    bool     // Kafka did not answer the last look at the source topics
	seal    bool     // ending a generation: see Reset
	resolve bool     // finishing what dead workers left: see Resolve
	dropped []string // sinks that a reset gives up

	// settled is told what sinks committed and rolled back. nil: nobody asks.
	settled func(sink string, w sink.StagedWork, committed bool)

	mu     sync.Mutex
	tasks  map[int32]*supervisor
	failed chan error
}

// New checks nothing yet; Run does.
func New(c Config) *Worker {
	c = c.WithDefaults()
	if c.Worker == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return &Worker{c: c, tasks: map[int32]*supervisor{}, failed: make(chan error, 1)}
}

// Run joins the pipeline's group and runs what is assigned, until ctx is
// cancelled: then open epochs are closed, committed and confirmed, and the
// group is left. It returns nil after such a stop, and the cause where a task
// failed beyond the restart policy or the start was refused.
func (w *Worker) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, w.close()) }()
	if w.slot, err = takeSlot(w.c.Dir, w.c.Broker.Names(1).Group()); err != nil {
		return StartError{err}
	}
	if err := w.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return StartError{err}
	}
	// The member outlives ctx: a graceful stop needs it.
	w.member, err = broker.Join(context.WithoutCancel(ctx), w.admin, broker.MemberConfig{
		Group: w.names.Group(), JournalTopic: w.names.Journal(), Earlier: w.slot.earlier(),
	})
	if err != nil {
		return err
	}
	w.emit(Event{Kind: WorkerStarted})
	unobserve := w.observe(ctx)
	defer unobserve()
	cause := w.serve(ctx)
	w.stop(ctx)
	return cause
}

// settles: this is a command that takes every task over to finish what is decided,
// reads no source record, and leaves. No worker runs beside it.
func (w *Worker) settles() bool { return w.seal || w.resolve }

// StartError is why a worker did not start: nothing was read or written.
type StartError struct{ Err error }

func (e StartError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e StartError) Unwrap() error { return e.Err }

// serve carries out what the group assigns.
func (w *Worker) serve(ctx context.Context) error {
	refresh := time.NewTicker(w.c.Refresh)
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.failed:
			return err
		case a := <-w.member.Changes():
			w.change(ctx, a)
		case <-refresh.C:
			if err := w.refresh(ctx); err != nil {
				return err
			}
		}
	}
}

func (w *Worker) change(ctx context.Context, a broker.Assignment) {
	switch a.Kind {
	case broker.Assigned:
		if m, ok := w.member.Current(a.Tasks[0]); ok {
			if err := w.slot.remember(m.MemberID); err != nil {
				w.c.Log.Warn("member_id_not_kept", "err", err)
			}
		}
		w.start(ctx, a.Tasks)
		a.Done()
	case broker.Revoked:
		go func() {
			w.halt(a.Tasks, func(s *supervisor) { s.end(min(revokeWithin, w.c.StopWithin)) })
			a.Done()
		}()
	case broker.Lost:
		go func() {
			w.halt(a.Tasks, (*supervisor).lose)
			a.Done()
		}()
	}
}

func (w *Worker) start(ctx context.Context, tasks []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		old := w.tasks[t]
		s := newSupervisor(w, t)
		w.tasks[t] = s
		w.emit(Event{Kind: TaskAssigned, Task: t})
		go func() {
			if old != nil {
				<-old.done // of the assignment before; it was told to end
			}
			s.run(context.WithoutCancel(ctx))
		}()
	}
}

// revokeWithin is how long a task that moves to another worker may wait for its
// sinks: the whole group waits with it.
const revokeWithin = time.Second

// halt ends tasks and waits for them.
func (w *Worker) halt(tasks []int32, end func(*supervisor)) {
	var wait []*supervisor
	w.mu.Lock()
	for _, t := range tasks {
		if s := w.tasks[t]; s != nil {
			wait = append(wait, s)
		}
	}
	w.mu.Unlock()
	for _, s := range wait {
		end(s)
	}
	for _, s := range wait {
		<-s.done
		w.emit(Event{Kind: TaskRevoked, Task: s.task})
	}
}

// fail stops the process with the cause; the first one counts.
func (w *Worker) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// stop ends every task gracefully and leaves the group.
func (w *Worker) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.c.StopWithin+10*time.Second)
	defer cancel()
	w.emit(Event{Kind: WorkerStopping})
	drained := make(chan struct{})
	go func() { // revocations that come meanwhile must not block the group
		for {
			select {
			case a := <-w.member.Changes():
				a.Done()
			case <-drained:
				return
			}
		}
	}()
	w.mu.Lock()
	var all []int32
	for t := range w.tasks {
		all = append(all, t)
	}
	w.mu.Unlock()
	slices.Sort(all)
	w.halt(all, func(s *supervisor) { s.end(w.c.StopWithin) })
	close(drained)
	leave, cancelLeave := context.WithTimeout(ctx, 5*time.Second)
	defer cancelLeave()
	if err := w.member.Leave(leave); err != nil {
		// Everything is decided; the group finds out by the session time-out.
		w.c.Log.Warn("group_not_left", "err", err)
	} else if err := w.slot.forget(); err != nil {
		w.c.Log.Warn("member_id_not_forgotten", "err", err)
	}
	w.emit(Event{Kind: WorkerStopped})
}

func (w *Worker) close() error {
	var errs []error
	for _, s := range w.c.Sinks {
		if err := s.Sink.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close sink %s: %w", s.Name, err))
		}
	}
	if w.admin != nil {
		w.admin.Close()
	}
	return errors.Join(append(errs, w.slot.close())...)
}

func (w *Worker) emit(e Event) {
	e.Time = time.Now()
	w.c.Events(e)
}

// base options for the clients of tasks.
func (w *Worker) base() []kgo.Opt { return w.admin.Options() }

// outboxSinks are those that read the outbox.
func (w *Worker) outboxSinks() []Sink {
	return slices.DeleteFunc(slices.Clone(w.c.Sinks), func(s Sink) bool {
		_, ok := s.Sink.(sink.Outbox)
		return !ok
	})
}

func (w *Worker) stagingSinks() []Sink {
	return slices.DeleteFunc(slices.Clone(w.c.Sinks), func(s Sink) bool {
		_, ok := s.Sink.(sink.Staging)
		return !ok
	})
}
