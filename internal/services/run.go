//go:build unix

package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// current is what Main has set up. Tests reach it by Kafka and Exactly, which
// get nothing but their *testing.T: so it is the one variable of the package.
var current atomic.Pointer[run]

// run holds what the tests of one test binary share.
type run struct {
	dir   string   // data of the services, readable by other users (PostgreSQL)
	lock  *os.File // held as long as the run lives: a dir without is left over
	ports *ports

	mu       sync.Mutex
	clusters map[Options]*shared
	binaries map[bool]*built
	postgres sharedPostgres
	stores   map[Kind]*sharedStore
}

const (
	runPrefix = "exactly-run-"
	keptRuns  = 5 // of which the logs are kept
)

// MainTimed is Main where times are part of what is tested: the services get the
// same share of the processors as the workers. (The scripts are nice otherwise.)
func MainTimed(m *testing.M) int {
	if err := os.Setenv("NICE", ""); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		return 1
	}
	return Main(m)
}

// Main runs the tests of m and ends what they shared. It returns the exit code
// for os.Exit. The logs of the servers are kept when tests fail.
func Main(m *testing.M) int {
	r, err := openRun()
	if err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		return 1
	}
	current.Store(r)
	code := m.Run()
	if err := r.close(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		return max(code, 1)
	}
	return code
}

func theRun(t testing.TB) *run {
	t.Helper()
	r := current.Load()
	if r == nil {
		t.Fatal("services: this test binary needs func TestMain(m *testing.M) { os.Exit(services.Main(m)) }")
	}
	return r
}

func openRun() (*run, error) {
	if err := sweep(os.TempDir()); err != nil {
		return nil, err
	}
	p, err := newPorts()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", runPrefix)
	if err != nil {
		return nil, fmt.Errorf("make the folder of this run: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the folder of this run to other users: %w", err)
	}
	l, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	return &run{dir: dir, lock: l, ports: p, clusters: map[Options]*shared{}, binaries: map[bool]*built{}, stores: map[Kind]*sharedStore{}}, nil
}

// reserve takes n ports for a service.
func (r *run) reserve(n int) ([]int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ports.reserve(n)
}

// sweep removes the folders of runs that were killed.
func sweep(tmp string) error {
	old, err := filepath.Glob(filepath.Join(tmp, runPrefix+"*"))
	if err != nil {
		return fmt.Errorf("look for folders of earlier runs: %w", err)
	}
	for _, d := range old {
		if _, err := os.Stat(filepath.Join(d, "lock")); err != nil {
			continue // another run is being set up, or another user's
		}
		l, err := lock(filepath.Join(d, "lock"))
		if l == nil || err != nil {
			continue // it lives
		}
		if err := errors.Join(os.RemoveAll(d), l.Close()); err != nil {
			return fmt.Errorf("remove the folder of an earlier run: %w", err)
		}
	}
	return nil
}

func (r *run) close(failed bool) error {
	var errs []error
	for _, s := range r.clusters {
		if s.cluster != nil {
			errs = append(errs, s.cluster.Stop())
		}
	}
	for _, s := range r.stores {
		if s.store != nil { // its folder is removed below
			errs = append(errs, s.store.Kill())
		}
	}
	if failed {
		errs = append(errs, r.keepLogs())
	}
	errs = append(errs, os.RemoveAll(r.dir), r.lock.Close(), r.ports.release())
	current.Store(nil)
	return errors.Join(errs...)
}

// keepLogs copies the logs of the servers to the folder failed of Dir.
func (r *run) keepLogs() error {
	base, err := Dir()
	if err != nil {
		return err
	}
	to := filepath.Join(base, "failed", strings.TrimPrefix(filepath.Base(r.dir), runPrefix))
	n := 0
	err = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || (d.Name() != "log" && filepath.Ext(d.Name()) != ".properties") {
			return nil
		}
		rel, err := filepath.Rel(r.dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		dst := filepath.Join(to, rel)
		return errors.Join(os.MkdirAll(filepath.Dir(dst), 0o755), os.WriteFile(dst, b, 0o644))
	})
	if err != nil {
		return fmt.Errorf("keep the logs of the failed run: %w", err)
	}
	if n > 0 {
		if err := prune(filepath.Dir(to), keptRuns); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "services: the logs of the servers are in", to)
	}
	return nil
}

// prune removes all but the newest folders in dir.
func prune(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for old logs: %w", err)
	}
	changed := map[string]time.Time{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("look at old logs: %w", err)
		}
		changed[e.Name()] = info.ModTime()
	}
	names := slices.SortedFunc(maps.Keys(changed), func(a, b string) int { return changed[b].Compare(changed[a]) })
	for _, name := range names[min(keep, len(names)):] {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove old logs: %w", err)
		}
	}
	return nil
}

// prepare runs a script that installs a service, or makes its data folder, and
// returns at once where that is done.
func prepare(ctx context.Context, name string, args ...string) error {
	sh, err := script(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "bash", append([]string{sh}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
