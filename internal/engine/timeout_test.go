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
