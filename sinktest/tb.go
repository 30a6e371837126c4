package sinktest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// TB is what the suite needs of a test: *testing.T through Wrap, or a Recorder.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	TempDir() string
	Cleanup(f func())
	Parallel()
	Run(name string, f func(TB)) bool
}

// Wrap makes a TB of a *testing.T.
func Wrap(t *testing.T) TB { return wrapped{t} }

type wrapped struct{ *testing.T }

func (w wrapped) Run(name string, f func(TB)) bool {
	return w.T.Run(name, func(t *testing.T) { f(wrapped{t}) })
}

// Recorder is a TB that keeps its failures instead of failing a test, so that
// a test can demand that the suite fails. Make one with NewRecorder.
type Recorder struct {
	name   string
	parent *Recorder

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// NewRecorder returns an empty recorder; call Close when it is done with.
func NewRecorder(name string) *Recorder { return &Recorder{name: name} }

// Failures lists what was reported so far, each with the name of its subtest.
func (r *Recorder) Failures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.failures...)
}

// Close runs what Cleanup collected, last first.
func (r *Recorder) Close() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		f()
	}
}

// Helper does nothing.
func (r *Recorder) Helper() {}

// Parallel does nothing: a Recorder runs its subtests one after another.
func (r *Recorder) Parallel() {}

// Name is the path of the subtest, as testing.T has it.
func (r *Recorder) Name() string { return r.name }

// Context is never cancelled.
func (r *Recorder) Context() context.Context { return context.Background() }

// Logf does nothing.
func (r *Recorder) Logf(string, ...any) {}

// Failed reports whether anything failed here or below.
func (r *Recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// Errorf records a failure.
func (r *Recorder) Errorf(format string, args ...any) {
	msg := r.name + ": " + fmt.Sprintf(format, args...)
	for p := r; p != nil; p = p.parent {
		p.mu.Lock()
		p.failures = append(p.failures, msg)
		p.mu.Unlock()
	}
}

// Fatalf records a failure and ends the subtest's goroutine.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Cleanup registers f for Close, or for the end of the subtest.
func (r *Recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// TempDir gives a directory that the clean-up removes.
func (r *Recorder) TempDir() string {
	dir, err := os.MkdirTemp("", strings.Map(func(c rune) rune {
		if c == '/' || c == '*' || c == '\\' {
			return '_'
		}
		return c
	}, r.name))
	if err != nil {
		r.Fatalf("make a temporary directory: %v", err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Run runs f as a subtest on a goroutine of its own and waits for it; a panic
// counts as a failure.
func (r *Recorder) Run(name string, f func(TB)) bool {
	sub := &Recorder{name: r.name + "/" + name, parent: r}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer sub.Close()
		defer func() {
			if p := recover(); p != nil {
				sub.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f(sub)
	}()
	<-done
	return !sub.Failed()
}
