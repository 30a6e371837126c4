//go:build unix

package demo

import (
	"fmt"
	"os"
	"syscall"
)

// canFreeze says whether this system can stop a process and let it go on.
const canFreeze = true

func freeze(p *os.Process) error { return signal(p, syscall.SIGSTOP) }

func thaw(p *os.Process) error { return signal(p, syscall.SIGCONT) }

func interrupt(p *os.Process) error { return signal(p, syscall.SIGTERM) }

func signal(p *os.Process, s syscall.Signal) error {
	if err := p.Signal(s); err != nil {
		return fmt.Errorf("send %s to process %d: %w", s, p.Pid, err)
	}
	return nil
}
