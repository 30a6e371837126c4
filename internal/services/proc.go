//go:build unix

package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Command says which process to start.
type Command struct {
	Name string   // in messages; it names the log file too
	Path string   // the program
	Args []string // without the program's name
	Env  []string // added to the environment of the test
	Dir  string   // working directory; empty: the test's
	Log  string   // file that gets stdout and stderr, appended; empty: <Name>.log in a temporary folder
}

// Proc is a process that was started. Its methods may be called from any
// goroutine.
type Proc struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone and reaped
}

// Start runs c until it ends by itself or the test does, which kills it. When
// the test fails, the end of the log is shown.
func Start(t testing.TB, c Command) *Proc {
	t.Helper()
	if c.Log == "" {
		c.Log = filepath.Join(t.TempDir(), c.Name+".log")
	}
	p, err := startProc(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", p.name, p.tail(40))
		}
	})
	return p
}

func startProc(c Command) (*Proc, error) {
	out, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", c.Name, err)
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	p := &Proc{name: c.Name, log: c.Log, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(out, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// run starts and reaps the process on one thread of its own: the parent death
// signal is sent when the thread that started a child ends, not the process
// (prctl(2), PR_SET_PDEATHSIG).
func (p *Proc) run(out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if cerr := out.Close(); err == nil && cerr != nil {
		err = errors.Join(cerr, p.cmd.Process.Kill(), p.cmd.Wait())
	}
	started <- err
	if err != nil {
		return
	}
	// How it ended is in ProcessState; an exit code other than 0 is an error
	// for Wait, and ours to judge for the caller.
	_ = p.cmd.Wait()
	close(p.done)
}

// PID is the process id, also of a process that has ended.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Alive reports whether the process runs; a frozen one does.
func (p *Proc) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill sends SIGKILL and waits until the process is gone. It does nothing to
// one that has ended.
func (p *Proc) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Terminate sends SIGTERM, the request for a graceful stop, and returns at
// once.
func (p *Proc) Terminate() error { return p.signal(syscall.SIGTERM) }

// Freeze sends SIGSTOP: the process keeps its connections and its belief that
// it owns things, and does nothing. It returns when the kernel says that the
// process has stopped.
func (p *Proc) Freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := poll(ctx, p.gone, func(context.Context) error { return isStopped(p.PID()) }); err != nil {
		return fmt.Errorf("freeze %s: %w", p.name, err)
	}
	return nil
}

// Frozen reports whether the process is stopped: by Freeze, or by itself.
func (p *Proc) Frozen() bool { return p.Alive() && isStopped(p.PID()) == nil }

// Thaw sends SIGCONT: a frozen process goes on as if no time had passed.
func (p *Proc) Thaw() error { return p.signal(syscall.SIGCONT) }

// Wait returns the exit code once the process has ended: -1 if a signal
// ended it. It returns the error of ctx if that is done first.
func (p *Proc) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for %s: %w", p.name, context.Cause(ctx))
	}
}

// CPU is the processor time that the process used; it is 0 while it runs.
func (p *Proc) CPU() time.Duration {
	if p.Alive() {
		return 0
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

func (p *Proc) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("send %v to %s: %w", s, p.name, err)
}

// gone is an error once the process has ended.
func (p *Proc) gone() error {
	if p.Alive() {
		return nil
	}
	return fmt.Errorf("%s has ended (%v); its log ends:\n%s", p.name, p.cmd.ProcessState, p.tail(30))
}
