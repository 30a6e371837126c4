//go:build services

package rig

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

// Worker is one life of a worker process.
type Worker struct {
	*services.Proc
	p    *Pipeline
	Slot int // its place: the directory outlives the process, as that of a service
}

// Run starts `exactly run` in a slot, with fail points armed if any are given.
func (p *Pipeline) Run(slot int, arms ...string) *Worker {
	p.T.Helper()
	args := []string{"run", p.File, "--log-format", "json"}
	if len(arms) > 0 {
		args = append(args, "--unsafe-failpoints")
	}
	dir := filepath.Join(p.Dir, fmt.Sprintf("worker-%d", slot))
	Check(p.T, os.MkdirAll(dir, 0o755))
	p.lives++
	w := &Worker{p: p, Slot: slot}
	w.Proc = services.Start(p.T, services.Command{
		Name: fmt.Sprintf("worker %d (process %d)", slot, p.lives), Path: p.exe,
		Args: args, Dir: p.Dir,
		Env: []string{"EXACTLY_WORKER_DIR=" + dir, "EXACTLY_FAILPOINTS=" + strings.Join(arms, ";")},
		Log: filepath.Join(p.Dir, fmt.Sprintf("worker-%d.%d.log", slot, p.lives)),
	})
	return w
}

// Entry is one line of a worker's log.
type Entry struct {
	Time   time.Time `json:"time"`
	Level  string    `json:"level"`
	Msg    string    `json:"msg"`
	Task   int32     `json:"task"`
	Sink   string    `json:"sink"`
	Err    string    `json:"err"`
	Offset int64     `json:"offset"`
	Addr   string    `json:"address"`
}

// Entries gives the lines written so far that are entries.
func (w *Worker) Entries() []Entry {
	w.p.T.Helper()
	b, err := w.Log()
	Check(w.p.T, err)
	var es []Entry
	for line := range bytes.Lines(b) {
		var e Entry
		if json.Unmarshal(line, &e) == nil {
			es = append(es, e)
		}
	}
	return es
}

// Listens is where the worker's endpoints are.
func (w *Worker) Listens() (addr string) {
	w.p.T.Helper()
	for _, e := range w.Entries() {
		if e.Addr != "" {
			addr = e.Addr
		}
	}
	if addr == "" {
		w.p.T.Fatalf("the log of worker %d names no address of its endpoints", w.Slot)
	}
	return addr
}

// Tasks are those that the worker runs: taken over, and not ended since.
func (w *Worker) Tasks() []int32 {
	running := map[int32]bool{}
	for _, e := range w.Entries() {
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

// AwaitTasks waits until the workers together run n tasks, each at least one.
func (p *Pipeline) AwaitTasks(n int, ws ...*Worker) {
	p.T.Helper()
	Await(p.T, fmt.Sprintf("%d tasks to run", n), func(context.Context) (string, bool) {
		all, idle := 0, false
		state := ""
		for _, w := range ws {
			ts := w.Tasks()
			all, idle = all+len(ts), idle || len(ts) == 0
			state += fmt.Sprintf("worker %d runs %v; ", w.Slot, ts)
			w.MustLive()
		}
		return state, all == n && !idle
	})
}

// MustLive fails the test if the process has ended by itself.
func (w *Worker) MustLive() {
	w.p.T.Helper()
	if !w.Alive() {
		code, _ := w.Wait(w.p.T.Context())
		w.p.T.Fatalf("worker %d has ended by itself, exit code %d", w.Slot, code)
	}
}

// Stop ends workers gracefully and wants exit code 0 of each.
func (p *Pipeline) Stop(ws ...*Worker) {
	p.T.Helper()
	for _, w := range ws {
		if w.Alive() {
			Check(p.T, w.Terminate())
		}
	}
	for _, w := range ws {
		if code := w.Exit(); code != 0 {
			p.T.Errorf("worker %d: exit code %d after SIGTERM", w.Slot, code)
		}
	}
}

// Exit waits for the end of the process.
func (w *Worker) Exit() int {
	w.p.T.Helper()
	ctx, cancel := context.WithTimeout(w.p.T.Context(), Patience)
	defer cancel()
	code, err := w.Wait(ctx)
	Check(w.p.T, err)
	return code
}

// Last is the end of the log as text.
func (w *Worker) Last() string {
	w.p.T.Helper()
	b, err := w.Log()
	Check(w.p.T, err)
	return string(b[max(0, len(b)-4000):])
}
