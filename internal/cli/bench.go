package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"exactly/internal/bench"
)

type benchFlags struct {
	bench.Options
	quick bool
	json  string
}

// newBench makes `exactly bench`.
func newBench(a *app) *cobra.Command {
	f := benchFlags{Options: bench.Default()}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure throughput, latency, memory and restarts beside a hand-written loop",
		Long: "Measures on one Kafka, in interleaved rounds: a hand-written loop with franz-go's\n" +
			"GroupTransactSession, the engine at at_least_once, and at exactly_once at several epoch\n" +
			"intervals. Prints Markdown; --json also writes a file. Topics and groups that it makes\n" +
			"begin with bench- and are removed at the end, and so is the schema that it makes where\n" +
			"--postgres is given. `make bench` starts a broker and a database for it.\n\n" +
			"Exit codes: 0 every output was right, 1 the run failed, 3 no broker, 4 an output was\n" +
			"wrong. What times come out does not matter for it.",
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				f.fill(bench.Quick(), cmd.Flags().Changed)
			}
			return a.bench(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Brokers, "brokers", nil, "addresses host:port")
	flags.StringVar(&f.Postgres, "postgres", "", "a postgres:// URL: restarts are measured with rows as well; its password may be in PGPASSWORD or a password file")
	flags.StringSliceVar(&f.Parts, "parts", f.Parts, "what to measure")
	flags.Int64Var(&f.Records, "records", f.Records, "payments in the backlog")
	flags.Int32Var(&f.Partitions, "partitions", f.Partitions, "of every topic")
	flags.IntVar(&f.Tasks, "tasks", f.Tasks, "of the engine (default: its own default)")
	flags.IntVar(&f.Rounds, "rounds", f.Rounds, "how often everything is measured")
	flags.DurationSliceVar(&f.Intervals, "intervals", f.Intervals, "epoch intervals at exactly_once")
	flags.Float64SliceVar(&f.Rates, "rates", f.Rates, "payments per second, for latency")
	flags.DurationVar(&f.Measure, "measure", f.Measure, "how long to measure at each rate")
	flags.IntVar(&f.Kills, "kills", f.Kills, "kills of each contestant in a round")
	flags.BoolVar(&f.quick, "quick", false, "everything once and small: a smoke test, whose times mean nothing")
	flags.StringVar(&f.json, "json", "", "write the result to this file, as JSON")
	flags.StringVar(&f.Dir, "dir", "", "keep the contestants' pipeline files and logs in this folder")
	flags.StringVar(&f.Profiles, "profiles", "", "write a CPU profile of each contestant into this folder")
	cmd.AddCommand(newBenchLoop(a), newBenchTables(a))
	return cmd
}

// fill takes from q what was not given.
func (f *benchFlags) fill(q bench.Options, given func(flag string) bool) {
	f.StaticOnly = q.StaticOnly
	for flag, take := range map[string]func(){
		"records": func() { f.Records = q.Records }, "rounds": func() { f.Rounds = q.Rounds },
		"intervals": func() { f.Intervals = q.Intervals }, "rates": func() { f.Rates = q.Rates },
		"measure": func() { f.Measure = q.Measure }, "kills": func() { f.Kills = q.Kills },
	} {
		if !given(flag) {
			take()
		}
	}
}

func (a *app) bench(ctx context.Context, f benchFlags) (err error) {
	if err := f.Validate(); err != nil {
		return usageError{cmd: "exactly bench", err: fmt.Errorf("--%w", err)}
	}
	if f.Exe, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program, to run contestants of it: %w", err)
	}
	if f.Dir == "" {
		if f.Dir, err = os.MkdirTemp("", "exactly-bench"); err != nil {
			return fmt.Errorf("make a folder for contestants: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(f.Dir)) }()
	}
	for _, dir := range []*string{&f.Dir, &f.Profiles} { // contestants run in folders of their own
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return fmt.Errorf("find the folder %s: %w", *dir, err)
		}
	}
	if f.Profiles != "" {
		if err := os.MkdirAll(f.Profiles, 0o755); err != nil {
			return fmt.Errorf("make the folder for profiles: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	f.Progress, f.Log = a.err, a.log
	res, err := bench.Run(ctx, f.Options)
	if errors.Is(err, bench.ErrNoKafka) {
		return environment(err)
	}
	if err != nil {
		return err
	}
	if f.json != "" {
		if err := writeFile(f.json, res); err != nil {
			return err
		}
	}
	fmt.Fprint(a.out, res.Markdown())
	if !res.Right {
		return exit{code: exitFound}
	}
	return nil
}

// writeFile writes v as JSON.
func writeFile(path string, v any) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return writeJSON(out, v)
}

// newBenchLoop makes the command of the hand-written loop's processes.
func newBenchLoop(a *app) *cobra.Command {
	l := bench.Loop{}
	cmd := &cobra.Command{
		Use:    "loop",
		Short:  "Run the hand-written loop, as a contestant",
		Hidden: true,
		Args:   args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			l.Log = a.log
			return l.Run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&l.Brokers, "brokers", nil, "addresses host:port")
	flags.StringVar(&l.From, "from", "", "topic to read")
	flags.StringVar(&l.To, "to", "", "topic to write")
	flags.StringVar(&l.Group, "group", "", "consumer group, and prefix of ids")
	flags.DurationVar(&l.Interval, "interval", 100*time.Millisecond, "of transactions")
	flags.IntVar(&l.Sessions, "sessions", runtime.NumCPU(), "members of the group")
	flags.BoolVar(&l.Static, "static", false, "give members static ids")
	return cmd
}
