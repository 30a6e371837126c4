package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"exactly/internal/services"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with everything passed in. It returns the exit code: 0 when all
// is right, 1 when a suite failed, 2 for a wrong command line.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("suites", flag.ContinueOnError)
	flags.SetOutput(errs)
	results := flags.String("results", "", "also write the table to `DIR`/suites.md")
	list := flags.Bool("list", false, "list the suites and their budgets, run nothing")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	full, err := services.Full()
	if err != nil {
		fmt.Fprintln(errs, "suites:", err)
		return 2
	}
	chosen, err := choose(table(), flags.Args())
	if err != nil {
		fmt.Fprintln(errs, "suites:", err)
		return 2
	}
	if *list {
		for _, s := range chosen {
			fmt.Fprintf(out, "%-10s %3.0f min  %s\n", s.name, s.budget(full).Minutes(), s.what)
		}
		return 0
	}
	root, err := services.Root()
	if err != nil {
		fmt.Fprintln(errs, "suites:", err)
		return 1
	}
	r := &runner{root: root, full: full, out: out}
	if *results != "" {
		if r.results, err = filepath.Abs(*results); err != nil {
			fmt.Fprintln(errs, "suites:", err)
			return 2
		}
	}
	all := r.runAll(ctx, chosen)
	r.report(all)
	if r.results != "" {
		if err := r.write(all); err != nil {
			fmt.Fprintln(errs, "suites:", err)
			return 1
		}
	}
	for _, o := range all {
		if o.err != nil {
			return 1
		}
	}
	return 0
}

// choose returns the named suites in the order of the table; all without names.
func choose(all []suite, names []string) ([]suite, error) {
	if len(names) == 0 {
		return all, nil
	}
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	var chosen []suite
	for _, s := range all {
		if want[s.name] {
			chosen = append(chosen, s)
			delete(want, s.name)
		}
	}
	var unknown []error
	for n := range want {
		unknown = append(unknown, fmt.Errorf("no suite is named %q: see -list", n))
	}
	return chosen, errors.Join(unknown...)
}
