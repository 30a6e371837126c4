//go:build unix

package failpoint

import (
	"fmt"
	"syscall"
)

// signalSelf kills or stops the process pid, which is our own. It returns only
// from Freeze, after somebody sent SIGCONT.
func signalSelf(pid int, a Action) error {
	sig := syscall.SIGKILL
	if a == Freeze {
		sig = syscall.SIGSTOP
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("%s process %d at a fail point: %w", a, pid, err)
	}
	if a == Kill {
		select {} // the signal is on its way: nothing more may happen here
	}
	return nil
}
