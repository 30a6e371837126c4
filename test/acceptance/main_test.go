//go:build services

package acceptance

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

func TestMain(m *testing.M) {
	// The brokers get the same share of the processors as the workers: times are
	// part of what is tested. (The scripts of test/services are nice otherwise.)
	if err := os.Setenv("NICE", ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(services.Main(m))
}

// The clusters that tests share. Those of one test only are its own, and end
// with it.
var (
	one   = services.Options{Nodes: 1}
	three = services.Options{Nodes: 3}
)

// check fails the test at once if err is not nil.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sized chooses by the one variable that says how large the tests are.
func sized[T any](t *testing.T, small, full T) T {
	t.Helper()
	f, err := services.Full()
	check(t, err)
	if f {
		return full
	}
	return small
}

// random is the source of a test's choices.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("EXACTLY_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		check(t, err)
	}
	t.Logf("EXACTLY_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// patience is how long something may go without any progress before the test
// fails. The machine may be busy with other things.
const patience = 2 * time.Minute

// lookEvery is how often a condition is looked at that no event announces.
const lookEvery = 50 * time.Millisecond

// await looks until done. look also gives the state as text: a state that does
// not change for as long as patience fails the test.
func await(t *testing.T, what string, look func(ctx context.Context) (state string, done bool)) {
	t.Helper()
	tick := time.NewTicker(lookEvery)
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
		if time.Since(changed) > patience {
			t.Fatalf("wait for %s: nothing has changed for %s: %s", what, patience, state)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("wait for %s: %s", what, state)
		}
	}
}

// awaitNil is await for a condition that is an error until it holds.
func awaitNil(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	await(t, what, func(ctx context.Context) (string, bool) {
		err := f(ctx)
		return fmt.Sprint(err), err == nil
	})
}

// pause lets chaos take its course for a while; it synchronises nothing.
func pause(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
