package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"exactly/internal/demo"
	"exactly/internal/exercise"
	"exactly/sink"
)

// newDemo makes `exactly demo`.
func newDemo(a *app) *cobra.Command {
	var o demo.Options
	var dsn string
	var fresh, asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Kill a pipeline over and over, and see that nothing is lost or doubled",
		Long: "Runs payments through a pipeline into a Kafka topic, a SQLite table, Parquet files and a\n" +
			"partner's HTTP API, all of which it brings along, kills the workers with SIGKILL in every\n" +
			"phase of an epoch, wakes one as a zombie, and audits every sink.\n\n" +
			"With --guarantee at_least_once the same run goes without the protocol, as the control:\n" +
			"it shows how often each sink was written to twice (a row with a key cannot be doubled:\n" +
			"there a counter of conflicting writes shows it). It is right if nothing is missing.\n\n" +
			"With --brokers and --postgres it is the classic exercise instead: " + exercise.Raw + " and\n" +
			exercise.Enriched + ", the tables payment_records and order_records, a worker killed after\n" +
			"200 to 300 payments, and three queries with their answers.\n\n" +
			"Exit codes: 0 all right, 1 the run failed, 3 no broker or no folder, 4 something was found wrong.",
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("brokers") && len(o.Brokers) == 0 {
				return usageError{cmd: "exactly demo", err: errors.New("--brokers is empty: give host:port, or leave it out for the embedded Kafka")}
			}
			if !cmd.Flags().Changed("postgres") {
				return a.demo(cmd.Context(), o, asJSON)
			}
			for _, name := range []string{"kills", "workers", "tasks", "guarantee"} {
				if cmd.Flags().Changed(name) {
					return usageError{cmd: "exactly demo", err: fmt.Errorf("--%s has no meaning with --postgres", name)}
				}
			}
			if len(o.Brokers) == 0 || dsn == "" {
				return usageError{cmd: "exactly demo", err: errors.New("--postgres needs the address of a database, and --brokers those of a Kafka")}
			}
			return a.exercise(cmd.Context(), o, dsn, fresh, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&o.Payments, "payments", 1000, "how many payments")
	flags.IntVar(&o.Kills, "kills", -1, "how many kills; below 0: one in each phase and a few at random, at most one for ten payments")
	flags.IntVar(&o.Workers, "workers", 2, "worker processes")
	flags.IntVar(&o.Tasks, "tasks", 4, "tasks of the pipeline")
	flags.Uint64Var(&o.Seed, "seed", 0, "of all random choices; 0: a new one, which is printed")
	flags.StringVar(&o.Dir, "dir", "", "keep everything in this folder for a look")
	flags.StringSliceVar(&o.Brokers, "brokers", nil, "use this Kafka, host:port, in place of the embedded one")
	flags.StringVar((*string)(&o.Guarantee), "guarantee", string(sink.ExactlyOnce), "exactly_once, or at_least_once as the control")
	flags.StringVar(&dsn, "postgres", "", "run the classic exercise into this PostgreSQL, a postgres:// URL; its password may be in PGPASSWORD or a password file")
	flags.BoolVar(&fresh, "fresh", false, "with --postgres: first remove topics and tables that an earlier run made, and no others")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) demo(ctx context.Context, o demo.Options, asJSON bool) error {
	if err := o.Validate(); err != nil {
		return usageError{cmd: "exactly demo", err: fmt.Errorf("--%w", err)}
	}
	for o.Seed == 0 {
		o.Seed = uint64(rand.Uint32())
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run workers of it: %w", err)
	}
	o.Exe, o.Log = exe, a.log
	o.Progress, o.Terminal = a.err, isTerminal(a.err)
	res, err := demo.Run(ctx, o)
	if errors.Is(err, demo.ErrNoKafka) || errors.Is(err, demo.ErrFolder) {
		return environment(err)
	}
	if res == nil {
		return err
	}
	if asJSON {
		err = errors.Join(err, writeJSON(a.out, res))
	} else {
		err = errors.Join(err, res.Print(a.out))
	}
	if err == nil && !res.Right {
		return exit{code: exitFound}
	}
	return err
}

// exercise runs the classic exercise.
func (a *app) exercise(ctx context.Context, d demo.Options, dsn string, fresh, asJSON bool) (err error) {
	if d.Payments < exercise.Least {
		return usageError{cmd: "exactly demo", err: fmt.Errorf("--payments: must be at least %d, since the worker is killed after 200 to 300", exercise.Least)}
	}
	o := exercise.Options{
		Brokers: d.Brokers, DSN: dsn, Payments: d.Payments, Seed: d.Seed, Dir: d.Dir, Fresh: fresh, Progress: a.err, Log: a.log,
	}
	for o.Seed == 0 {
		o.Seed = uint64(rand.Uint32())
	}
	if o.Exe, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program, to run a worker of it: %w", err)
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "exactly-exercise-"); err != nil {
			return fmt.Errorf("make a folder for the exercise: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	} else if o.Dir, err = filepath.Abs(o.Dir); err == nil {
		err = os.MkdirAll(o.Dir, 0o755)
	}
	if err != nil {
		return environment(fmt.Errorf("cannot use the folder: %w", err))
	}
	res, err := exercise.Run(ctx, o)
	if errors.Is(err, exercise.ErrEnvironment) {
		return environment(err)
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(a.out, res)
	} else {
		err = res.Print(a.out)
	}
	if err == nil && !res.Right {
		return exit{code: exitFound}
	}
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
