package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// runner runs suites one after the other.
type runner struct {
	root    string
	results string // folder for results of a full run; empty: none
	full    bool
	out     io.Writer
}

// outcome is what came of one suite.
type outcome struct {
	suite suite
	took  time.Duration
	goTest
	err error
}

// killAfter is what a command gets beyond its budget: go test ends itself at
// the budget, and then shows what every goroutine was doing.
const killAfter = 30 * time.Second

func (r *runner) runAll(ctx context.Context, suites []suite) []outcome {
	var all []outcome
	for _, s := range suites {
		fmt.Fprintf(r.out, "=== %s: %s (at most %v)\n", s.name, s.what, s.budget(r.full))
		o := r.run(ctx, s)
		if o.err != nil {
			fmt.Fprintf(r.out, "=== %s: failed: %v\n", s.name, o.err)
		}
		all = append(all, o)
	}
	return all
}

func (r *runner) run(ctx context.Context, s suite) outcome {
	o := outcome{suite: s}
	for _, n := range s.needs {
		if err := r.command(ctx, r.out, "bash", filepath.Join("test", "services", n+".sh"), "install"); err != nil {
			o.err = fmt.Errorf("install %s: %w", n, err)
			return o
		}
	}
	budget := s.budget(r.full)
	start := time.Now()
	limit, cancel := context.WithTimeout(ctx, budget+killAfter)
	defer cancel()
	if s.tests != nil {
		for _, c := range s.prepare {
			o.err = errors.Join(o.err, r.command(limit, r.out, c[0], c[1:]...))
		}
		if o.err == nil {
			o.goTest, o.err = r.test(limit, s, budget)
		}
	} else {
		o.err = r.commands(limit, s)
	}
	o.took = time.Since(start)
	if o.took > budget {
		o.err = errors.Join(o.err, fmt.Errorf("over budget: it took %.1f of %.0f minutes", o.took.Minutes(), budget.Minutes()))
	}
	return o
}

func (r *runner) commands(ctx context.Context, s suite) error {
	var errs []error
	for _, c := range s.commands {
		if err := r.command(ctx, r.out, c[0], c[1:]...); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", c, err))
		}
	}
	return errors.Join(errs...)
}

func (r *runner) test(ctx context.Context, s suite, budget time.Duration) (goTest, error) {
	args := []string{"test", "-json", "-count=1", "-timeout=" + budget.String()}
	if s.needs != nil {
		args = append(args, "-p=1") // two clusters at once are too many for a small machine
	}
	reader, writer := io.Pipe()
	exit := make(chan error, 1)
	go func() {
		err := r.command(ctx, writer, "go", append(args, s.tests...)...)
		writer.Close()
		exit <- err
	}()
	g, err := readGoTest(reader, r.out)
	if err != nil {
		reader.CloseWithError(err)
	}
	err = errors.Join(err, <-exit)
	return g, errors.Join(err, g.judge())
}

// command runs in the root of the repository, stdout and stderr to out.
func (r *runner) command(ctx context.Context, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.root
	cmd.Env = os.Environ()
	if r.results != "" {
		cmd.Env = append(cmd.Env, "EXACTLY_RESULTS_DIR="+r.results)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// report prints the table, then the lines of go test itself, and last what the
// failed tests said: where they failed may be far above.
func (r *runner) report(all []outcome) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%-10s %8s %8s %7s  %s\n", "suite", "minutes", "budget", "passed", "result")
	for _, o := range all {
		fmt.Fprintf(&b, "%-10s %8.1f %8.0f %7s  %s\n", o.suite.name, o.took.Minutes(), o.suite.budget(r.full).Minutes(), o.count(), o.result())
	}
	b.WriteByte('\n')
	for _, o := range all {
		for _, line := range o.packages {
			b.WriteString(line)
		}
	}
	for _, o := range all {
		for _, line := range o.causes {
			b.WriteString(line + "\n")
		}
	}
	r.out.Write(b.Bytes())
}

func (o outcome) count() string {
	if o.suite.tests == nil {
		return "-"
	}
	return fmt.Sprint(o.passed)
}

func (o outcome) result() string {
	if o.err != nil {
		return "FAILED"
	}
	return "ok"
}

// write puts the table where it is kept in the repository. Rows of suites that did not
// run now stay as they are.
func (r *runner) write(all []outcome) error {
	commit := &bytes.Buffer{}
	if err := r.command(context.Background(), commit, "git", "rev-parse", "--short", "HEAD"); err != nil {
		return fmt.Errorf("name the commit of the results: %w", err)
	}
	path := filepath.Join(r.results, "suites.md")
	rows, err := readRows(path)
	if err != nil {
		return err
	}
	order := table()
	for _, o := range all {
		order = append(order, o.suite)
		rows[o.suite.name] = fmt.Sprintf("| %s | %s | %.1f | %.0f | %s | %s | %s | %s | %s | %s |\n",
			o.suite.name, o.suite.what, o.took.Minutes(), o.suite.budget(r.full).Minutes(), o.count(), o.result(),
			sizeName(r.full), bytes.TrimSpace(commit.Bytes()), time.Now().UTC().Format(time.DateOnly), machine())
	}
	var b bytes.Buffer
	b.WriteString(resultsHead)
	for _, s := range order {
		b.WriteString(rows[s.name])
		delete(rows, s.name)
	}
	if err := os.MkdirAll(r.results, 0o755); err != nil {
		return fmt.Errorf("make the folder of results: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

const resultsHead = `# Suites

Made by ` + "`make full`" + `, which replaces the rows of the suites that it runs: each row is of its commit.

| suite | what | minutes | budget | tests passed | result | size | commit | day | machine |
| --- | --- | --: | --: | --: | --- | --- | --- | --- | --- |
`

// readRows gives the rows that are there, by suite.
func readRows(path string) (map[string]string, error) {
	rows := map[string]string{}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the results that are there: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && len(cells) > 1 {
			rows[strings.TrimPrefix(cells[0], "| ")] = line
		}
	}
	return rows, nil
}

func sizeName(full bool) string {
	if full {
		return "full"
	}
	return "small"
}
