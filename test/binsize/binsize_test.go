//go:build binsize

package binsize

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"exactly/internal/services"
)

var update = flag.Bool("update", false, "write docs/binary-size.txt anew")

// allowed is how much the size may change unannounced, in percent.
const allowed = 5

func TestBinarySize(t *testing.T) {
	root, err := services.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "docs", "binary-size.txt")
	got := build(t, root)
	if *update {
		if err := os.WriteFile(file, fmt.Appendf(nil, "%d bytes, stripped, linux/amd64\n", got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (make size-update writes it)", err)
	}
	var want int64
	if _, err := fmt.Sscanf(string(b), "%d bytes", &want); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	if change := float64(got-want) / float64(want) * 100; change > allowed || change < -allowed {
		t.Errorf("the binary has %d bytes, %+.1f %% against docs/binary-size.txt; more than %d %% is announced by make size-update", got, change, allowed)
	}
}

// build returns the size in bytes of the binary as it is released.
func build(t *testing.T, root string) int64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exactly")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/exactly")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
