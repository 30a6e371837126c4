//go:build services

package rig

import (
	"os"
	"strings"
)

// Reset begins a new generation.
func (p *Pipeline) Reset(args ...string) {
	p.T.Helper()
	code, out, errs := p.Command(append([]string{"reset", p.File}, args...)...)
	if code != 0 {
		p.T.Fatalf("reset: exit code %d\n%s%s", code, out, errs)
	}
}

// Refused starts a worker and wants it to end with this exit code and these
// words.
func (p *Pipeline) Refused(code int, words ...string) {
	p.T.Helper()
	w := p.Run(0)
	got := w.Exit()
	last := w.Last()
	for _, word := range words {
		if !strings.Contains(last, word) {
			p.T.Errorf("the refusal does not say %q", word)
		}
	}
	if got != code {
		p.T.Errorf("exit code %d, want %d", got, code)
	}
	p.T.Logf("%s", lastLine(last))
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\nexactly:")+1:]
}

// ResetKilled begins a new generation and wants the command to be killed by the
// fail point that is armed.
func (p *Pipeline) ResetKilled(arm string) {
	p.T.Helper()
	Check(p.T, os.Setenv("EXACTLY_FAILPOINTS", arm))
	code, out, errs := p.Command("reset", p.File, "--unsafe-failpoints")
	Check(p.T, os.Unsetenv("EXACTLY_FAILPOINTS"))
	if code != -1 {
		p.T.Errorf("reset with %s: exit code %d, not by SIGKILL\n%s%s", arm, code, out, errs)
	}
}
