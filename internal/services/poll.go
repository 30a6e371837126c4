package services

import (
	"context"
	"fmt"
	"time"
)

// pollEvery is how often a condition is looked at that no event announces.
const pollEvery = 20 * time.Millisecond

// poll calls f until it returns nil. It ends early when ctx is done, with the
// last error of f, or when stop returns an error, which may be nil for "no
// reason to stop".
func poll(ctx context.Context, stop func() error, f func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		last := f(ctx)
		if last == nil {
			return nil
		}
		if stop != nil {
			if err := stop(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
