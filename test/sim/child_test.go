//go:build synctests

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"exactly/internal/mutation"
)

// Each schedule is lived in a process of its own, so that it always begins in
// the same state and that one which hangs or panics takes no other along.
const (
	scheduleVar = "EXACTLY_SIM_SCHEDULE"
	logVar      = "EXACTLY_SIM_LOG"
	ruleVar     = "EXACTLY_MUTATION"
	resultMark  = "simulated: "
)

// result is what a child prints.
type result struct {
	Wrong    string         `json:"wrong,omitempty"`
	Happened map[string]int `json:"happened"`
	Trace    uint64         `json:"trace"` // hash of every request with its virtual time
	Requests int            `json:"requests"`
	Outcome  uint64         `json:"outcome"` // hash of what every sink shows
	Virtual  time.Duration  `json:"virtual"`
	log      string
}

// TestChild lives the schedule of the environment.
func TestChild(t *testing.T) {
	text := os.Getenv(scheduleVar)
	if text == "" {
		return // the other tests of this package run it, in processes of its own
	}
	var s schedule
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	// Collections would disturb the order; a schedule needs little memory.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
	// Written after the run, since a system call in it would disturb the order, and
	// always, so that a run with its log is the run without it.
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var res result
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, s.Seed)
		begin := time.Now()
		w, err := run(s, log)
		if err != nil {
			res.Wrong = err.Error()
		}
		if w != nil {
			res.Happened, res.Trace, res.Requests, res.Outcome = w.happened, w.trace.Sum64(), w.requests, w.outcome
		}
		res.Virtual = time.Since(begin)
	})
	if os.Getenv(logVar) == "1" {
		_, _ = buf.WriteTo(os.Stderr)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", resultMark, b)
}

// how a schedule is lived.
type how struct {
	rule    mutation.Rule // that is broken
	outputs bool          // only what sinks, journals and readers show is looked at
	log     bool          // is kept
}

// live runs a schedule in a child process. Its error means that there is no
// result; what is wrong with the schedule's run is in the result.
func live(ctx context.Context, s schedule, h how) (result, error) {
	var res result
	text, err := json.Marshal(s)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.timeout=90s")
	printed, checks := "0", "all"
	if h.log {
		printed = "1"
	}
	if h.outputs {
		checks = checkOutputs
	}
	// Nothing of the caller's environment: its size would shift addresses.
	cmd.Env = []string{
		"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", logVar + "=" + printed, checksVar + "=" + checks,
		scheduleVar + "=" + string(text), ruleVar + "=" + string(h.rule),
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	res.log = stderr.String()
	if _, line, ok := strings.Cut(stdout.String(), resultMark); ok {
		line, _, _ = strings.Cut(line, "\n")
		return res, json.Unmarshal([]byte(line), &res)
	}
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	// A panic or a deadlock of the whole program is a finding like any other.
	res.Wrong = fmt.Sprintf("the process ended without a result: %v\n%s", err, last(stdout.String()+stderr.String(), 6000))
	return res, nil
}

func last(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
