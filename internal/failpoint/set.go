package failpoint

import (
	"context"
	"strings"
	"sync/atomic"
)

// Set holds what is armed in one worker. nil: nothing.
type Set struct {
	hook  func(ctx context.Context, p Point, task int32, epoch int64) error
	hits  map[Point]*atomic.Int64
	last  atomic.Pointer[Passed]
	close func() error
}

// Passed is a point that was hit.
type Passed struct {
	Point Point `json:"point"`
	Task  int32 `json:"task"`
	Epoch int64 `json:"epoch"`
}

// New returns a set that calls hook at every point. An error from hook is
// treated by the caller as if the act's answer was lost.
func New(hook func(ctx context.Context, p Point, task int32, epoch int64) error) *Set {
	s := &Set{hook: hook, hits: map[Point]*atomic.Int64{}}
	for _, p := range Points() {
		s.hits[p.Point] = new(atomic.Int64)
	}
	return s
}

// Hit is called at a point, by any goroutine. It returns nil unless something
// is armed there; it blocks for delay, hold and freeze, at most until ctx ends.
func (s *Set) Hit(ctx context.Context, p Point, task int32, epoch int64) error {
	if s == nil {
		return nil
	}
	if n := s.hits[p]; n != nil {
		n.Add(1)
	}
	if !strings.HasPrefix(string(p), "sink/") {
		s.last.Store(&Passed{p, task, epoch})
	}
	return s.hook(ctx, p, task, epoch)
}

// Hits says how often each point was passed, also those that never were (0).
// It is nil for a nil set, which does not count.
func (s *Set) Hits() map[Point]int64 {
	if s == nil {
		return nil
	}
	m := make(map[Point]int64, len(s.hits))
	for p, n := range s.hits {
		m[p] = n.Load()
	}
	return m
}

// Last is the point of an epoch or a takeover that was hit last, not one inside
// a sink; nil: none, or the set is nil.
func (s *Set) Last() *Passed {
	if s == nil {
		return nil
	}
	return s.last.Load()
}

// Close ends the control channel, if there is one.
func (s *Set) Close() error {
	if s == nil || s.close == nil {
		return nil
	}
	return s.close()
}
