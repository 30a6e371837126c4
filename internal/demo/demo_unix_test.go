//go:build unix

package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerThatDoesNotComeUp: the run ends with the worker's own words, and
// does not hang.
func TestWorkerThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	exe := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\necho no licence >&2\nexit 5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), Options{Payments: 10, Exe: exe, Dir: filepath.Join(t.TempDir(), "d")})
	if err == nil || !containsAll(err.Error(), "worker 1 did not come up", "exit status 5", "no licence") {
		t.Errorf("Run: %v, want the worker, its exit status and its words", err)
	}
}

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
