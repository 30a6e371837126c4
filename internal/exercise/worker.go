package exercise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// worker is a process of `exactly run`, life after life in one folder.
type worker struct {
	exe, dir, file string
	env            []string

	started bool // once at least

	cmd    *exec.Cmd // nil: none
	exited chan struct{}
	err    error // once exited is closed
}

func (w *worker) log() string { return filepath.Join(w.dir, "worker.log") }

func (w *worker) start() error {
	log, err := os.OpenFile(w.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the worker's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(w.exe, "run", w.file)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, log, log
	cmd.Env = append(append(os.Environ(), "EXACTLY_WORKER_DIR="+w.dir), w.env...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	w.started, w.cmd, w.exited = true, cmd, make(chan struct{})
	go func(exited chan struct{}) {
		w.err = cmd.Wait()
		close(exited)
	}(w.exited)
	return nil
}

// alive gives an error with the end of the log if the process has ended.
func (w *worker) alive() error {
	select {
	case <-w.exited:
		b, _ := os.ReadFile(w.log())
		b = bytes.TrimSpace(b)
		if n := len(b) - 2000; n > 0 {
			b = b[n:]
		}
		return fmt.Errorf("the worker has ended by itself: %s\n%s", w.cmd.ProcessState, b)
	default:
		return nil
	}
}

// kill ends it without a chance to do anything.
func (w *worker) kill() error {
	if w.cmd == nil {
		return nil
	}
	if err := w.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the worker: %w", err)
	}
	<-w.exited
	w.cmd = nil
	return nil
}

// stop ends it gracefully.
func (w *worker) stop(ctx context.Context) error {
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stop the worker: %w", err)
	}
	select {
	case <-w.exited:
		w.cmd = nil
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("the worker does not stop: %w", ctx.Err())
	}
}
