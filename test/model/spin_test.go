//go:build model

package model

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"exactly/internal/services"
)

// memory bounds a verifier, in MB: two run at a time.
const memory = 1800

// spec is a model with its constants.
type spec struct {
	file     string
	defs     string   // -D of the model, by blanks
	bits     bool     // bit-state search: no proof, but far more states
	quick    bool     // few states: compiling is what takes time
	all      bool     // without partial-order reduction: every state
	run      []string // arguments of the verifier
	emitting bool     // the model prints every state, of so many attempts
}

// result is what a verifier came to.
type result struct {
	states   int64
	stopped  bool                // at the time limit of a bit-state search
	violated string              // the first line that says so; "": no violation
	emitted  map[string]struct{} // the states, if the model prints them
}

// attempts is how many attempts a printed state shows: as many as the worlds of
// internal/model have room for.
const attempts = 8

// verify builds the verifier of a model and runs it to its end.
func (s spec) verify(t *testing.T) result {
	t.Helper()
	dir := t.TempDir()
	args := strings.Fields(s.defs)
	if s.emitting {
		args = append(args, fmt.Sprintf("-DEMIT=%d", attempts))
	}
	command(t, dir, "spin", append(args, "-a", source(t, s.file))...)
	flags := []string{"-w", "-DSAFETY", fmt.Sprintf("-DMEMLIM=%d", memory), "-DVECTORSZ=2048"}
	if s.bits {
		flags = append(flags, "-DBITSTATE")
	} else {
		flags = append(flags, "-DCOLLAPSE")
	}
	if !s.quick {
		flags = append(flags, "-O1")
	}
	if s.all {
		flags = append(flags, "-DNOREDUCE")
	}
	command(t, dir, "gcc", append(flags, "-o", "pan", "pan.c")...)
	r, out, err := run(t, filepath.Join(dir, "pan"), append([]string{"-m500000"}, s.run...)...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", s.file, s.defs, err, out)
	}
	return r
}

func source(t *testing.T, file string) string {
	t.Helper()
	root, err := services.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "docs", file)
}

// command runs a tool, whose absence is a failure like any other.
func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%v: test/services/spin.sh install brings it", err)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

var (
	storedLine = regexp.MustCompile(`^\s*(\d+)(?:\.\d+)?(?:e\+\d+)? states, stored`)
	errorLine  = regexp.MustCompile(`errors: (\d+)`)
)

// run reads what a verifier says. A search that was cut short is an error: it
// would pass for a proof. Only a bit-state search, which is none, has a limit
// of time.
func run(t *testing.T, pan string, args ...string) (result, string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), pan, args...)
	cmd.Dir = filepath.Dir(pan)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, "", err
	}
	if err := cmd.Start(); err != nil {
		return result{}, "", err
	}
	r := result{emitted: map[string]struct{}{}}
	var said []string
	found := -1
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		line := lines.Text()
		if state, ok := strings.CutPrefix(line, "@"); ok {
			r.emitted[state] = struct{}{}
			continue
		}
		said = append(said, line)
		if m := storedLine.FindStringSubmatch(line); m != nil {
			f, _ := strconv.ParseFloat(strings.Fields(line)[0], 64)
			r.states = int64(f)
		}
		if m := errorLine.FindStringSubmatch(line); m != nil {
			found, _ = strconv.Atoi(m[1])
		}
		if strings.HasPrefix(line, "pan:1:") && r.violated == "" {
			r.violated = line
		}
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	out := strings.Join(said, "\n") + stderr.String()
	r.stopped = strings.Contains(out, "Time limit of")
	for _, cut := range []string{"max search depth too small", "MEMLIM bound", "out of memory", "VECTORSZ"} {
		if strings.Contains(out, cut) {
			return r, out, fmt.Errorf("the search was cut short: %s", cut)
		}
	}
	switch {
	case r.violated != "" || found > 0:
		if r.violated == "" {
			r.violated = "a violation"
		}
		return r, out, nil
	case err != nil:
		return r, out, err
	case found < 0 || r.states == 0:
		return r, out, errors.New("the verifier did not come to its end")
	}
	return r, out, nil
}

func full(t *testing.T) bool {
	t.Helper()
	f, err := services.Full()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// report keeps what a full run has seen.
func report(t *testing.T, name, text string) {
	t.Helper()
	t.Log(text)
	dir := os.Getenv("EXACTLY_RESULTS_DIR")
	if dir == "" {
		return
	}
	file := filepath.Join(dir, name)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintln(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
