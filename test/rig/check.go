//go:build services

package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"exactly/internal/services"
)

// Check fails the test at once if err is not nil.
func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Sized chooses by the one variable that says how large the tests are.
func Sized[T any](t *testing.T, small, full T) T {
	t.Helper()
	f, err := services.Full()
	Check(t, err)
	if f {
		return full
	}
	return small
}

// Random is the source of a test's choices.
func Random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("EXACTLY_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		Check(t, err)
	}
	t.Logf("EXACTLY_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// Patience is how long something may go without any progress before the test
// fails. The machine may be busy with other things.
const Patience = 2 * time.Minute

// LookEvery is how often a condition is looked at that no event announces.
const LookEvery = 50 * time.Millisecond

// Await looks until done. look also gives the state as text: a state that does
// not change for as long as patience fails the test.
func Await(t *testing.T, what string, look func(ctx context.Context) (state string, done bool)) {
	t.Helper()
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	var last string
	changed := time.Now()
	for {
		state, done := look(t.Context())
		if done {
			return
		}
		if state != last {
			last, changed = state, time.Now()
		}
		if time.Since(changed) > Patience {
			t.Fatalf("wait for %s: nothing has changed for %s: %s", what, Patience, state)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("wait for %s: %s", what, state)
		}
	}
}

// AwaitNil is await for a condition that is an error until it holds.
func AwaitNil(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	Await(t, what, func(ctx context.Context) (string, bool) {
		err := f(ctx)
		return fmt.Sprint(err), err == nil
	})
}

// Pause lets chaos take its course for a while; it synchronises nothing.
func Pause(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
