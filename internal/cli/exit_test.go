package cli

import (
	"errors"
	"fmt"
	"testing"

	"exactly/internal/broker"
	"exactly/internal/config"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		err     error
		code    int
		message string
	}{
		{"none", nil, 0, ""},
		{"any", errors.New("broke"), 1, "exactly: broke"},
		{"usage", usageError{cmd: "exactly run", err: errors.New("FILE is missing")}, 2, "exactly: FILE is missing\n  see exactly run --help"},
		{"config", fmt.Errorf("load: %w", config.Errors{{File: "p", Cause: "odd", Code: "config_type"}}), 2, "load: p: odd [config_type]"},
		{"one config", &config.Error{File: "p", Cause: "odd", Code: "config_type"}, 2, "p: odd [config_type]"},
		{"broker setting", &broker.Problem{Code: broker.CodeConfig, Cause: "odd"}, 2, "exactly: odd [kafka_config]"},
		{"broker", fmt.Errorf("start: %w", &broker.Problem{Code: broker.CodeACL, Cause: "no"}), 3, "exactly: start: no [kafka_acl]"},
		{"environment", environment(errors.New("gone")), 3, "exactly: gone"},
		{"own", exit{code: exitFound, err: errors.New("2 missing")}, 4, "exactly: 2 missing"},
		{"silent", exit{code: exitFound}, 4, ""},
		{"wrapped", fmt.Errorf("audit: %w", exit{code: exitFound, err: errors.New("2 missing")}), 4, "exactly: audit: 2 missing"},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.code)
		}
		if got := message(c.err); got != c.message {
			t.Errorf("%s: message %q, want %q", c.name, got, c.message)
		}
	}
	if environment(nil) != nil {
		t.Error("environment(nil) is an error")
	}
}
