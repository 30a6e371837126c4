package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"exactly/internal/failpoint"
)

// crew starts, kills and stops the worker processes of one pipeline file.
type crew struct {
	exe    string
	file   string
	dir    string
	socket string // of the control channel
	parent *failpoint.Parent
	slots  []*slot
}

// slot is a place for a worker. Its directory outlives the processes in it,
// like that of a service which is restarted.
type slot struct {
	number int
	dir    string
	log    string
	proc   *process // nil: none
}

type process struct {
	cmd     *exec.Cmd
	ctl     *failpoint.Worker
	exited  chan struct{}
	err     error // of Wait, once exited is closed
	meant   bool  // its end was meant
	started time.Time
}

// newCrew listens for workers; none is started yet.
func newCrew(exe, file, dir string, n int) (*crew, error) {
	// Not in dir: the path of a socket must be short.
	tmp, err := os.MkdirTemp("", "exactly")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the control socket: %w", err)
	}
	c := &crew{exe: exe, file: file, dir: dir, socket: filepath.Join(tmp, "control")}
	if c.parent, err = failpoint.Listen(c.socket); err != nil {
		_ = os.RemoveAll(tmp)
		return nil, err
	}
	for i := range n {
		c.add(i + 1)
	}
	return c, nil
}

func (c *crew) add(number int) *slot {
	s := &slot{number: number, dir: filepath.Join(c.dir, fmt.Sprintf("worker-%d", number))}
	s.log = s.dir + ".log"
	c.slots = append(c.slots, s)
	return s
}

// startTimeout bounds the time from the start of a process to its first word.
const startTimeout = 20 * time.Second

// start runs a worker with arms armed and waits until it is under control.
func (c *crew) start(ctx context.Context, s *slot, arms string) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of worker %d: %w", s.number, err)
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of worker %d: %w", s.number, err)
	}
	defer log.Close()
	cmd := exec.Command(c.exe, "run", c.file, "--unsafe-failpoints", "--log-format", "json")
	cmd.Dir = c.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(),
		"EXACTLY_WORKER_DIR="+s.dir, failpoint.ArmVar+"="+arms, failpoint.ControlVar+"="+c.socket)
	p := &process{cmd: cmd, exited: make(chan struct{}), started: time.Now()}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start worker %d: %w", s.number, err)
	}
	s.proc = p
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return c.greet(ctx, s)
}

// greet waits for the control channel of the process just started.
func (c *crew) greet(ctx context.Context, s *slot) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	go func() {
		select {
		case <-s.proc.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		w, err := c.parent.Next(ctx)
		if err != nil && !s.alive() && s.proc.err != nil {
			err = s.proc.err
		}
		if err != nil {
			return fmt.Errorf("worker %d did not come up: %w%s", s.number, err, s.tail())
		}
		if w.PID == s.proc.cmd.Process.Pid {
			s.proc.ctl = w
			return nil
		}
	}
}

// alive reports whether a process of the slot runs.
func (s *slot) alive() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.proc.exited:
		return false
	default:
		return true
	}
}

// kill sends SIGKILL and waits until the process is gone.
func (s *slot) kill() error {
	s.proc.meant = true
	if err := s.proc.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill worker %d: %w", s.number, err)
	}
	<-s.proc.exited
	return nil
}

// stopTimeout bounds a graceful stop.
const stopTimeout = 30 * time.Second

// stop ends all workers gracefully; what does not end in time is killed, and
// told.
func (c *crew) stop() error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.slots))
	for i, s := range c.slots {
		if s.alive() {
			wg.Go(func() { errs[i] = s.stop() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *slot) stop() error {
	s.proc.meant = true
	if err := interrupt(s.proc.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop worker %d: %w", s.number, err)
	}
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-s.proc.exited:
	case <-t.C:
		_ = s.kill()
		return fmt.Errorf("worker %d did not stop within %s and was killed%s", s.number, stopTimeout, s.tail())
	}
	if s.proc.err != nil {
		return fmt.Errorf("worker %d stopped with %w%s", s.number, s.proc.err, s.tail())
	}
	return nil
}

// close kills what still runs, and ends the control channel.
func (c *crew) close() {
	for _, s := range c.slots {
		if s.alive() {
			_ = s.kill()
		}
	}
	_ = c.parent.Close()
	_ = os.RemoveAll(filepath.Dir(c.socket))
}

// tail gives the end of a worker's log, for people.
func (s *slot) tail() string {
	const most = 4 << 10
	f, err := os.Open(s.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	b, err := io.ReadAll(f)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return fmt.Sprintf("\n  end of %s:\n    %s", s.log, bytes.Join(lines, []byte("\n    ")))
}
