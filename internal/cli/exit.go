package cli

import (
	"errors"

	"exactly"
	"exactly/internal/broker"
	"exactly/internal/config"
)

// The exit codes.
const (
	exitRight       = 0
	exitFailed      = 1
	exitUsage       = 2
	exitEnvironment = 3
	exitFound       = 4
)

// usageError is a wrong command line.
type usageError struct {
	cmd string
	err error
}

func (e usageError) Error() string {
	return e.err.Error() + "\n  see " + e.cmd + " --help"
}

func (e usageError) Unwrap() error { return e.err }

// exit ends a command with a code of its own. A nil err prints nothing, for
// commands that have said everything already.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// environment marks an error as one of the environment.
func environment(err error) error {
	if err == nil {
		return nil
	}
	return exit{code: exitEnvironment, err: err}
}

// exitCode gives the exit code of a command's error.
func exitCode(err error) int {
	var own exit
	var usage usageError
	var problem *broker.Problem
	switch {
	case err == nil:
		return exitRight
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &usage), len(config.List(err)) > 0:
		return exitUsage
	case errors.As(err, &problem):
		if problem.Code == broker.CodeConfig || problem.Code == broker.CodeName {
			return exitUsage
		}
		return exitEnvironment
	case errors.As(err, new(exactly.StartError)):
		return exitEnvironment
	}
	return exitFailed
}

// message is what is printed about a command's error; "" is nothing.
func message(err error) string {
	switch {
	case err == nil || err.Error() == "":
		return ""
	case len(config.List(err)) > 0:
		return err.Error()
	}
	return "exactly: " + err.Error()
}
