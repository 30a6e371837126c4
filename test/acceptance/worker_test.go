//go:build services

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"exactly/internal/services"
)

// worker is one life of a worker process.
type worker struct {
	*services.Proc
	p    *pipeline
	slot int // its place: the directory outlives the process, as that of a service
}

// start runs `exactly run` in a slot, with fail points armed if any are given.
func (p *pipeline) start(slot int, arms ...string) *worker {
	p.t.Helper()
	args := []string{"run", p.file, "--log-format", "json"}
	if len(arms) > 0 {
		args = append(args, "--unsafe-failpoints")
	}
	dir := filepath.Join(p.dir, fmt.Sprintf("worker-%d", slot))
	check(p.t, os.MkdirAll(dir, 0o755))
	p.lives++
	w := &worker{p: p, slot: slot}
	w.Proc = services.Start(p.t, services.Command{
		Name: fmt.Sprintf("worker %d (process %d)", slot, p.lives), Path: p.exe,
		Args: args, Dir: p.dir,
		Env: []string{"EXACTLY_WORKER_DIR=" + dir, "EXACTLY_FAILPOINTS=" + strings.Join(arms, ";")},
		Log: filepath.Join(p.dir, fmt.Sprintf("worker-%d.%d.log", slot, p.lives)),
	})
	return w
}

// entry is one line of a worker's log.
type entry struct {
	Time   time.Time `json:"time"`
	Level  string    `json:"level"`
	Msg    string    `json:"msg"`
	Task   int32     `json:"task"`
	Sink   string    `json:"sink"`
	Err    string    `json:"err"`
	Offset int64     `json:"offset"`
}

// log gives the lines written so far that are entries.
func (w *worker) log() []entry {
	w.p.t.Helper()
	b, err := w.Log()
	check(w.p.t, err)
	var es []entry
	for line := range bytes.Lines(b) {
		var e entry
		if json.Unmarshal(line, &e) == nil {
			es = append(es, e)
		}
	}
	return es
}

// tasks are those that the worker runs: taken over, and not ended since.
func (w *worker) tasks() []int32 {
	running := map[int32]bool{}
	for _, e := range w.log() {
		switch e.Msg {
		case "task_taken_over":
			running[e.Task] = true
		case "attempt_over", "task_revoked", "task_assigned":
			delete(running, e.Task)
		}
	}
	var ts []int32
	for t := range running {
		ts = append(ts, t)
	}
	slices.Sort(ts)
	return ts
}

// awaitTasks waits until the workers together run n tasks, each at least one.
func (p *pipeline) awaitTasks(n int, ws ...*worker) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%d tasks to run", n), func(context.Context) (string, bool) {
		all, idle := 0, false
		state := ""
		for _, w := range ws {
			ts := w.tasks()
			all, idle = all+len(ts), idle || len(ts) == 0
			state += fmt.Sprintf("worker %d runs %v; ", w.slot, ts)
			w.mustLive()
		}
		return state, all == n && !idle
	})
}

// mustLive fails the test if the process has ended by itself.
func (w *worker) mustLive() {
	w.p.t.Helper()
	if !w.Alive() {
		code, _ := w.Wait(w.p.t.Context())
		w.p.t.Fatalf("worker %d has ended by itself, exit code %d", w.slot, code)
	}
}

// stop ends workers gracefully and wants exit code 0 of each.
func (p *pipeline) stop(ws ...*worker) {
	p.t.Helper()
	for _, w := range ws {
		if w.Alive() {
			check(p.t, w.Terminate())
		}
	}
	for _, w := range ws {
		if code := w.exit(); code != 0 {
			p.t.Errorf("worker %d: exit code %d after SIGTERM", w.slot, code)
		}
	}
}

// exit waits for the end of the process.
func (w *worker) exit() int {
	w.p.t.Helper()
	ctx, cancel := context.WithTimeout(w.p.t.Context(), patience)
	defer cancel()
	code, err := w.Wait(ctx)
	check(w.p.t, err)
	return code
}

// last is the end of the log as text.
func (w *worker) last() string {
	w.p.t.Helper()
	b, err := w.Log()
	check(w.p.t, err)
	return string(b[max(0, len(b)-4000):])
}
