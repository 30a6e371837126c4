//go:build unix

package services

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// storeMemory is what one store may take, in bytes: OpenSearch with its heap does,
// the others take a tenth.
const storeMemory = 1 << 30

// Stores installs and starts the shared stores of these kinds side by side, as many
// at a time as memory allows. Tests that ask for them then find them up. It returns
// when all are.
func Stores(t testing.TB, kinds ...Kind) {
	t.Helper()
	r := theRun(t)
	ctx, cancel := context.WithTimeout(t.Context(), prepareTimeout)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce(freeMemory()))
	for _, k := range kinds {
		g.Go(func() error {
			s, err := r.sharedStore(ctx, k)
			if err != nil {
				return err
			}
			return s.Start(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// atOnce is how many stores to start at a time with so many bytes free.
func atOnce(free int64) int {
	return int(min(max(free/storeMemory, 1), 2*int64(runtime.NumCPU())))
}

// freeMemory is what the kernel says can be had without swapping, in bytes; 0 where
// it says nothing.
func freeMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kb int64
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				return kb << 10
			}
		}
	}
	return 0
}
