//go:build unix

package services

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the exactly binary, or why it could not be built.
type built struct {
	once sync.Once
	path string
	err  error
}

// Exactly returns the path of the exactly binary, built from this tree once
// per test binary; with the race detector if race is set.
func Exactly(t testing.TB, race bool) string {
	t.Helper()
	r := theRun(t)
	r.mu.Lock()
	b := r.binaries[race]
	if b == nil {
		b = &built{}
		r.binaries[race] = b
	}
	r.mu.Unlock()
	b.once.Do(func() { b.path, b.err = build(t.Context(), r.dir, race) })
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

func build(ctx context.Context, dir string, race bool) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "exactly")
	args := []string{"build", "-o"}
	if race {
		path += "-race"
		args = append(args, path, "-race", "./cmd/exactly")
	} else {
		args = append(args, path, "./cmd/exactly")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the exactly binary: %w\n%s", err, out)
	}
	return path, nil
}
