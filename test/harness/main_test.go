//go:build services

package harness

import (
	"context"
	"os"
	"testing"
	"time"

	"exactly/internal/services"
)

func TestMain(m *testing.M) { os.Exit(services.Main(m)) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // only a slow machine needs it
	t.Cleanup(cancel)
	return ctx
}

// check fails the test at once if err is not nil.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
