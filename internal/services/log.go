//go:build unix

package services

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// Log returns what the process has written to stdout and stderr so far.
func (p *Proc) Log() ([]byte, error) {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", p.name, err)
	}
	return b, nil
}

// WaitLog returns when text has appeared in the log at or after the byte
// position from, with the position behind it, so that a caller can wait for
// the next one. It fails early when the process ends without.
func (p *Proc) WaitLog(ctx context.Context, from int, text string) (int, error) {
	end := -1
	look := func(context.Context) error {
		b, err := p.Log()
		if err != nil {
			return err
		}
		if i := bytes.Index(b[min(from, len(b)):], []byte(text)); i >= 0 {
			end = from + i + len(text)
			return nil
		}
		return fmt.Errorf("%q is not in the log", text)
	}
	stop := func() error {
		if p.Alive() || look(ctx) == nil { // its last words may be the ones
			return nil
		}
		return p.gone()
	}
	err := poll(ctx, stop, look)
	if err != nil {
		return 0, fmt.Errorf("wait for %q from %s: %w", text, p.name, err)
	}
	return end, nil
}

// complaints are the last n warnings and errors of a broker's log.
func (p *Proc) complaints(n int) []byte {
	b, err := p.Log()
	if err != nil {
		return []byte(err.Error())
	}
	var lines [][]byte
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte("] WARN ")) || bytes.Contains(line, []byte("] ERROR ")) {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines[max(len(lines)-n, 0):], nil)
}

// tail is the last n lines of the log, or why there are none.
func (p *Proc) tail(n int) []byte {
	b, err := p.Log()
	if err != nil {
		return []byte(err.Error())
	}
	b = bytes.TrimRight(b, "\n")
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			if n--; n == 0 {
				return b[i+1:]
			}
		}
	}
	return b
}
