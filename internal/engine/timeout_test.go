package engine

import (
	"strings"
	"testing"
	"time"

	"exactly/internal/broker"
)

// TestTimeoutBeyondTheBrokers: the refusal is one of the settings, and names
// both numbers and what to set.
func TestTimeoutBeyondTheBrokers(t *testing.T) {
	t.Parallel()
	e := Config{}.WithDefaults().Epoch
	if err := e.checkTimeouts(15 * time.Minute); err != nil {
		t.Errorf("the defaults: got %v", err)
	}
	if err := e.checkTimeouts(0); err != nil {
		t.Errorf("an unknown limit: got %v", err)
	}
	err := e.checkTimeouts(time.Minute)
	if broker.CodeOf(err) != broker.CodeConfig {
		t.Fatalf("got %v, want a problem of the settings", err)
	}
	for _, part := range []string{"2m0.2s", "allow 1m0s", "at most 59.8s", "transaction.max.timeout.ms"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("it does not say %q: %v", part, err)
		}
	}
}

func TestDefaultTasks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		partitions int32
		interval   time.Duration
		want       int32
	}{
		{1, time.Second, 1},
		{3, 100 * time.Millisecond, 3},
		{64, 100 * time.Millisecond, 4},
		{64, 10 * time.Minute, 4},
		{64, 50 * time.Millisecond, 2},
		{64, 10 * time.Millisecond, 1},
		{64, time.Millisecond, 1},
		{0, time.Second, 1},
	} {
		if got := DefaultTasks(tt.partitions, tt.interval); got != tt.want {
			t.Errorf("%d partitions, epochs of %s: got %d tasks, want %d", tt.partitions, tt.interval, got, tt.want)
		}
	}
}
