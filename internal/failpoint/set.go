package failpoint

import "context"

// Set holds what is armed in one worker. nil: nothing.
type Set struct {
	hook func(ctx context.Context, p Point, task int32, epoch int64) error
}

// New returns a set that calls hook at every point. An error from hook is
// treated by the caller as if the act's answer was lost.
func New(hook func(ctx context.Context, p Point, task int32, epoch int64) error) *Set {
	return &Set{hook: hook}
}

// Hit is called at a point. It returns nil unless something is armed there.
func (s *Set) Hit(ctx context.Context, p Point, task int32, epoch int64) error {
	if s == nil {
		return nil
	}
	return s.hook(ctx, p, task, epoch)
}
