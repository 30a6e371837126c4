package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"exactly/internal/cli"
)

// TestResolve: a pipeline without a two-phase sink, that never ran, that runs, and
// whose workers are gone.
func TestResolve(t *testing.T) {
	t.Parallel()
	env, path := cluster(t)
	if code, stdout, stderr := run(t, env, "resolve", "--log-level", "error", path); code != 3 || stdout != "" || !strings.Contains(stderr, "was never started on this cluster") {
		t.Errorf("never ran: exit code %d, want 3; stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, _, stderr := run(t, env, "resolve", "--wait", "0s", path); code != 2 || !strings.Contains(stderr, "--wait") {
		t.Errorf("--wait 0s: exit code %d, want 2; stderr %q", code, stderr)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int, 1)
	var logs bytes.Buffer
	go func() {
		lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
		done <- cli.Main(ctx, []string{"run", path}, strings.NewReader(""), &bytes.Buffer{}, &logs, lookup)
	}()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-look.C {
		code, stdout, stderr := run(t, env, "resolve", "--log-level", "error", path)
		if code == 3 && stdout == "" && strings.Contains(stderr, "1 workers are running (") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("beside a worker: exit code %d, want 3 and who runs; stderr %q", code, stderr)
		}
	}
	if code, stdout, stderr := run(t, env, "resolve", "--dry-run", "--log-level", "error", path); code != 0 || !strings.Contains(stdout, "1 workers are running") {
		t.Errorf("a dry run beside a worker: exit code %d, want 0; stdout %q, stderr %q", code, stdout, stderr)
	}
	cancel()
	if code := <-done; code != 0 {
		t.Fatalf("the worker: exit code %d\n%s", code, logs.String())
	}

	code, stdout, stderr := run(t, env, "resolve", "--log-level", "error", path)
	for _, want := range []string{"pipeline payments, generation 1: resolved", "ROLLED BACK", "lake", "no prepared transaction of this pipeline is left"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, want 0; stdout lacks %q: %q, stderr %q", code, want, stdout, stderr)
		}
	}
	code, stdout, stderr = run(t, env, "resolve", "--json", "--log-level", "error", path)
	var got struct {
		Tasks []struct {
			Sink string
			Task int
		}
		Prepared, Foreign []any
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v; stderr %q", code, err, stderr)
	}
	if len(got.Tasks) != 3 || got.Tasks[2].Sink != "lake" || got.Tasks[2].Task != 2 || got.Prepared == nil || got.Foreign == nil {
		t.Errorf("got %s, want a row for each task of the lake", stdout)
	}
	env["BROKERS"] = "127.0.0.1:1"
	if code, stdout, stderr := run(t, env, "resolve", "--log-level", "error", path); code != 3 || stdout != "" {
		t.Errorf("no broker: exit code %d, want 3; stdout %q, stderr %q", code, stdout, stderr)
	}
}
