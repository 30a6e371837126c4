package services

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// childAttr makes the child die with the thread that starts it, and keeps the
// terminal's interrupt from it, so that only the test ends it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// isStopped is nil when every thread of the process is stopped by a signal:
// SIGSTOP reaches them one after the other.
func isStopped(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, th := range threads {
		stat, err := os.ReadFile(dir + "/" + th.Name() + "/stat")
		if errors.Is(err, os.ErrNotExist) { // the thread ended meanwhile
			continue
		}
		if err != nil {
			return fmt.Errorf("read the state of a thread: %w", err)
		}
		// The state follows the name, which is in brackets and may hold any byte.
		if _, after, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(") ")); !ok || after[0] != 'T' {
			return fmt.Errorf("thread %s is not stopped yet", th.Name())
		}
	}
	return nil
}

// PeakRSS is the highest resident memory of a running process so far, in
// bytes (VmHWM of proc(5)).
func (p *Proc) PeakRSS() (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/status")
	if err != nil {
		return 0, fmt.Errorf("peak memory of %s: %w", p.name, err)
	}
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[0]) == "VmHWM:" {
			kb, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("peak memory of %s: %w", p.name, err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("peak memory of %s: no VmHWM, it has ended", p.name)
}
