//go:build unix

package services

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestPollStops(t *testing.T) {
	t.Parallel()
	never, dead := errors.New("not yet"), errors.New("server died")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	err := poll(ctx, nil, func(context.Context) error { return never })
	if !errors.Is(err, never) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of time: got %v, want both the deadline and the last error", err)
	}
	err = poll(t.Context(), func() error { return dead }, func(context.Context) error { return never })
	if !errors.Is(err, dead) {
		t.Errorf("a reason to stop: got %v, want %v", err, dead)
	}
	n := 0
	err = poll(t.Context(), nil, func(context.Context) error {
		if n++; n < 3 {
			return never
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("third time right: got %v after %d calls, want nil after 3", err, n)
	}
}

func TestTopicName(t *testing.T) {
	t.Parallel()
	legal := regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	for _, test := range []string{"TestX", "TestX/with space/ünïcode", strings.Repeat("a/", 300)} {
		a, b := topicName("pay", test), topicName("pay", test)
		if !legal.MatchString(a) || !strings.HasPrefix(a, "pay.") {
			t.Errorf("topicName(%q): got %q, want a legal name that starts with pay.", test, a)
		}
		if a == b {
			t.Errorf("topicName(%q) gave %q twice", test, a)
		}
	}
}

func TestFull(t *testing.T) {
	tests := []struct {
		value   string
		want    bool
		wantErr bool
	}{{"", false, false}, {"small", false, false}, {"full", true, false}, {"Full", false, true}}
	for _, tt := range tests {
		t.Setenv(SizeVariable, tt.value)
		got, err := Full()
		if got != tt.want || (err != nil) != tt.wantErr {
			t.Errorf("Full() with %q: got %t, %v; want %t, error: %t", tt.value, got, err, tt.want, tt.wantErr)
		}
	}
}

func TestDir(t *testing.T) {
	tests := []struct{ name, own, xdg, home, want string }{
		{"own variable", "/a", "/b", "/c", "/a"},
		{"cache folder", "", "/b", "/c", "/b/exactly-services"},
		{"home", "", "", "/c", "/c/.cache/exactly-services"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("EXACTLY_SERVICES_DIR", tt.own)
			t.Setenv("XDG_CACHE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			got, err := Dir()
			if err != nil || got != tt.want {
				t.Errorf("Dir(): got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestRootAndScripts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kafka.sh", "lib.sh"} {
		path, err := script(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("script %s: %v", name, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	c := &KafkaCluster{
		options: Options{Nodes: 2, TransactionVersion: 1, Secure: true, Settings: "a=b"},
		dir:     t.TempDir(),
		nodes:   []*node{{id: 1, port: 11, controller: 12, tls: 13}, {id: 2, port: 21, controller: 22, tls: 23}},
	}
	if err := c.describe(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nodes":            "1 11 12 13\n2 21 22 23\n",
		"format.args":      "--feature transaction.version=1\n",
		"extra.properties": "a=b\n",
	} {
		got, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
	if c.Security() == nil {
		t.Error("Security of a secure cluster: got nil")
	}
	if got, want := strings.Join(c.Bootstrap(), ","), "127.0.0.1:11,127.0.0.1:21"; got != want {
		t.Errorf("Bootstrap: got %s, want %s", got, want)
	}
	if got, want := strings.Join(c.BootstrapTLS(), ","), "127.0.0.1:13,127.0.0.1:23"; got != want {
		t.Errorf("BootstrapTLS: got %s, want %s", got, want)
	}
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	many := 2 * runtime.NumCPU()
	for free, want := range map[int64]int{0: 1, 1 << 29: 1, 2 << 30: 2, 1 << 50: many} {
		if got := atOnce(free); got != min(want, many) {
			t.Errorf("stores to start at once with %d bytes free: got %d, want %d", free, got, want)
		}
	}
	if runtime.GOOS == "linux" && freeMemory() == 0 {
		t.Error("the kernel says nothing about its memory")
	}
}

func TestOwnName(t *testing.T) {
	t.Parallel()
	legal := regexp.MustCompile(`^[a-z][a-z0-9-]{2,62}$`) // of a bucket, the strictest
	a, b := ownName(), ownName()
	if !legal.MatchString(a) || a == b {
		t.Errorf("names: got %q and %q, want two legal ones", a, b)
	}
}
