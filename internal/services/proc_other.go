//go:build unix && !linux

package services

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func isStopped(pid int) error {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	if !strings.HasPrefix(strings.TrimSpace(string(out)), "T") {
		return fmt.Errorf("process %d is not stopped yet", pid)
	}
	return nil
}

// PeakRSS is the resident memory of a running process, in bytes: the peak is
// known on Linux only.
func (p *Proc) PeakRSS() (int64, error) {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(p.PID())).Output()
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	kb, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	return kb << 10, nil
}
