//go:build unix

package services

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReserveGivesFreeLockedPorts(t *testing.T) {
	t.Parallel()
	p := &ports{dir: t.TempDir()}
	other := &ports{dir: p.dir}
	got, err := p.reserve(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range got {
		if port < firstPort || port > lastPort {
			t.Errorf("port %d is not between %d and %d", port, firstPort, lastPort)
		}
		if seen[port] {
			t.Errorf("port %d was given twice", port)
		}
		seen[port] = true
		if ok, err := other.try(port); ok || err != nil {
			t.Errorf("another test binary tried port %d: got %t, %v; want refused", port, ok, err)
		}
	}
	if err := p.release(); err != nil {
		t.Fatal(err)
	}
	if ok, err := other.try(got[0]); !ok || err != nil {
		t.Errorf("a released port: got %t, %v; want it free", ok, err)
	}
}

func TestReserveRefusesPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := &ports{dir: t.TempDir()}
	if ok, err := p.try(l.Addr().(*net.TCPAddr).Port); ok || err != nil {
		t.Errorf("a port on which somebody listens: got %t, %v; want refused", ok, err)
	}
}

func TestSweepRemovesOnlyWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	for _, name := range []string{"dead", "alive", "new"} {
		if err := os.Mkdir(filepath.Join(tmp, runPrefix+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, runPrefix+"dead", "lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := lock(filepath.Join(tmp, runPrefix+"alive", "lock"))
	if err != nil || l == nil {
		t.Fatalf("lock: got %v, %v", l, err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := sweep(tmp); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range left {
		got = append(got, d.Name())
	}
	if want := []string{runPrefix + "alive", runPrefix + "new"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("left after the sweep: got %v, want %v", got, want)
	}
}

func TestPruneKeepsTheNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	for i, name := range []string{"c", "a", "b"} { // from new to old
		d := filepath.Join(dir, name)
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		at := now.Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(d, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(dir, 2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"c": true, "a": true, "b": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("folder %s: got %v, want kept: %t", name, err, want)
		}
	}
}
