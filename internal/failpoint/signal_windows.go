package failpoint

import (
	"errors"
	"fmt"
	"os"
)

// signalSelf kills our own process; Windows cannot stop one.
func signalSelf(pid int, a Action) error {
	if a == Freeze {
		return errors.New("freeze at a fail point: not possible on Windows")
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		return fmt.Errorf("kill process %d at a fail point: %w", pid, err)
	}
	select {}
}
