package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"exactly/internal/broker"
)

// supervisor runs one assigned task: attempt after attempt, until the task is
// taken away or has failed for good.
type supervisor struct {
	w    *Worker
	task int32
	done chan struct{}

	stopOnce sync.Once
	stop     chan struct{} // closed: finish gracefully
	within   time.Duration // how long that may wait for sinks; set before stop is closed
	lostOnce sync.Once
	lost     chan struct{} // closed: end at once

	mu      sync.Mutex
	sources map[string]broker.TopicInfo
	changed chan struct{} // signalled when sources were replaced
}

func newSupervisor(w *Worker, task int32) *supervisor {
	return &supervisor{
		w: w, task: task, done: make(chan struct{}), stop: make(chan struct{}), lost: make(chan struct{}),
		sources: w.sources, changed: make(chan struct{}, 1),
	}
}

// end tells the task to end gracefully: what is open is decided, and sinks get
// a while to apply and confirm it, so that the next owner has less to do.
func (s *supervisor) end(within time.Duration) {
	s.stopOnce.Do(func() {
		s.within = within
		close(s.stop)
	})
}

// lose ends the task at once.
func (s *supervisor) lose() { s.lostOnce.Do(func() { close(s.lost) }) }

func (s *supervisor) sourcesAre(now map[string]broker.TopicInfo) {
	s.mu.Lock()
	s.sources = now
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *supervisor) topics() map[string]broker.TopicInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources
}

// lives is what the supervisor runs: an attempt of the protocol, or of the
// at-least-once loop.
type lives interface {
	// live runs until stop (nil), or until it is over (why).
	live(ctx context.Context) error
	// took says since when it has been running well; zero: it never was.
	took() time.Time
}

func (s *supervisor) run(ctx context.Context) {
	defer close(s.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	policy := s.w.c.Restart
	slow := policy.backoff()
	quick := Restart{Delay: 20 * time.Millisecond, MaxDelay: 2 * time.Second}.backoff()
	for failures := 0; ; {
		a := s.attempt()
		err := a.live(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.w.emit(Event{Kind: AttemptOver, Task: s.task, Err: err})
		if t := a.took(); !t.IsZero() {
			quick.Reset()
			if time.Since(t) > policy.ResetAfter {
				failures = 0
				slow.Reset()
			}
		}
		wait := quick.NextBackOff()
		switch judge(err) {
		case exit:
			s.failed(err)
			return
		case restart:
			failures++
			if failures > max(0, policy.Max) {
				s.failed(fmt.Errorf("task %d failed %d times, restart.max is %d: %w", s.task, failures, max(0, policy.Max), err))
				return
			}
			wait = slow.NextBackOff()
		case retake:
		}
		if !s.pause(ctx, wait) {
			return
		}
	}
}

func (r Restart) backoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = r.Delay, r.MaxDelay, 2
	b.Reset()
	return b
}

// pause waits between attempts. false: the task is to end; between attempts
// there is nothing to finish.
func (s *supervisor) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	case <-ctx.Done():
		return false
	}
}

func (s *supervisor) failed(err error) {
	s.w.emit(Event{Kind: TaskFailed, Task: s.task, Err: err})
	s.w.fail(err)
}

func (s *supervisor) attempt() lives {
	if s.w.exactly() {
		return newAttempt(s)
	}
	return newLoop(s)
}

// prove is the takeover's condition.
func (s *supervisor) prove(ctx context.Context) error {
	if s.w.member == nil {
		return nil // a command that made sure that no worker runs
	}
	ctx, cancel := context.WithTimeout(ctx, s.w.c.Epoch.Timeout)
	defer cancel()
	go func() { // before the takeover there is nothing to finish
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.w.member.Prove(ctx, s.task); err != nil {
		if errors.Is(err, broker.ErrNotOurs) {
			return errLost
		}
		return err
	}
	return nil
}
