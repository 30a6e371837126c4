package failpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
)

const (
	// ArmVar is the environment variable that arms points.
	ArmVar = "EXACTLY_FAILPOINTS"
	// ControlVar is the environment variable that names the control socket.
	ControlVar = "EXACTLY_FAILPOINT_CONTROL"
)

// ErrUnsafe: a fail point variable is set, but --unsafe-failpoints is not given.
var ErrUnsafe = errors.New("fail points are for tests: they need the flag --unsafe-failpoints")

// FromEnv makes the set of a worker. getenv is os.Getenv; unsafe is the flag
// --unsafe-failpoints. Without the flag it returns nil, and ErrUnsafe where one
// of the variables is set, so that a forgotten variable can never harm a
// production worker unseen. With the flag each start logs an error line.
// Close the set before the process ends in peace.
func FromEnv(getenv func(string) string, unsafe bool, log *slog.Logger) (*Set, error) {
	text, socket := getenv(ArmVar), getenv(ControlVar)
	if !unsafe {
		for name, v := range map[string]string{ArmVar: text, ControlVar: socket} {
			if v != "" {
				return nil, fmt.Errorf("environment variable %s is set: %w; unset it", name, ErrUnsafe)
			}
		}
		return nil, nil
	}
	arms, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", ArmVar, err)
	}
	if text != "" && len(arms) == 0 {
		return nil, fmt.Errorf("environment variable %s: %q arms nothing: write POINT[:task=N][:epoch=N][:hit=N]=ACTION, or unset it", ArmVar, text)
	}
	log.Error("fail points are on: this worker may kill, freeze or fail itself; never in production",
		"armed", text, "control", socket)
	w := newArmed(arms, log)
	s := New(w.hook)
	if socket != "" {
		if s.close, err = w.connect(socket, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func newArmed(arms []Arm, log *slog.Logger) *armed {
	w := &armed{log: log, release: make(chan struct{})}
	w.kill = func() error { return signalSelf(os.Getpid(), Kill) }
	w.freeze = func() error { return signalSelf(os.Getpid(), Freeze) }
	w.arm(arms)
	return w
}
