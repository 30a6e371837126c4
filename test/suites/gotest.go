package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// goTest is what go test -json told.
type goTest struct {
	passed   int      // tests and subtests
	skipped  []string // package and name
	failed   []string
	causes   []string // what the failed ones said last, each under its name
	packages []string // the line "ok ..." or "FAIL ..." of each package with tests
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// readGoTest reads to the end of in. To out go the lines of each package, and
// everything that a failed test or a broken package has printed.
func readGoTest(in io.Reader, out io.Writer) (goTest, error) {
	var g goTest
	printed := map[string][]string{} // output by package and test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil { // go itself speaks, not a test
				fmt.Fprintf(out, "%s", line)
			} else {
				g.take(e, printed, out)
			}
		}
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return g, fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

func (g *goTest) take(e event, printed map[string][]string, out io.Writer) {
	name := strings.TrimSuffix(e.Package+"."+e.Test, ".")
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test == "" && isPackageLine(e.Output) {
			fmt.Fprint(out, e.Output)
			g.packages = append(g.packages, e.Output)
			return
		}
		printed[name] = append(printed[name], e.Output)
	case "pass":
		if e.Test != "" {
			g.passed++
		}
		delete(printed, name)
	case "skip":
		if e.Test != "" {
			g.skipped = append(g.skipped, name)
		}
		delete(printed, name)
	case "fail":
		g.failed = append(g.failed, name)
		fmt.Fprint(out, strings.Join(printed[name], ""))
		g.causes = append(g.causes, cause(name, printed[name])...)
		delete(printed, name)
	}
}

var ownLine = regexp.MustCompile(`^ +\w+_test\.go:\d+: `)

// cause gives the last lines that a test wrote itself: what it failed with is
// among them, and the logs of its servers are not.
func cause(name string, lines []string) (out []string) {
	const most, widest = 5, 600
	for _, l := range lines {
		if l = strings.TrimRight(l, "\n"); ownLine.MatchString(l) {
			out = append(out, l[:min(len(l), widest)])
		}
	}
	if len(out) == 0 {
		return nil
	}
	return append([]string{name}, out[max(0, len(out)-most):]...)
}

// isPackageLine tells the result of a package with tests from its output.
func isPackageLine(s string) bool {
	return strings.HasPrefix(s, "ok  \t") || strings.HasPrefix(s, "FAIL\t")
}

// judge is an error unless tests ran and every one of them passed.
func (g goTest) judge() error {
	var errs []error
	if len(g.failed) > 0 {
		errs = append(errs, fmt.Errorf("%d failed: %s", len(g.failed), strings.Join(g.failed, ", ")))
	}
	if len(g.skipped) > 0 {
		errs = append(errs, fmt.Errorf("%d were skipped, which is no pass: %s", len(g.skipped), strings.Join(g.skipped, ", ")))
	}
	if g.passed == 0 {
		errs = append(errs, errors.New("no test ran"))
	}
	return errors.Join(errs...)
}
