package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"

	"exactly/internal/catalog"
	"exactly/internal/config"
)

// app is what every command is given.
type app struct {
	in    io.Reader
	out   io.Writer // results
	err   io.Writer // logs and errors
	env   config.Env
	kinds config.Kinds
	log   *slog.Logger // set before a command runs, by --log-format and --log-level

	logFormat, logLevel string

	profile     string       // file for a CPU profile; "": none
	stopProfile func() error // set while one is written
}

// commands lists every command, in the order of the help.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newDemo(a),
		newRun(a),
		newReset(a),
		newResolve(a),
		newProduce(a),
		newAudit(a),
		newBench(a),
		newInit(a),
		newValidate(a),
		newSchema(a),
		newExplain(a),
	}
}

// Main runs one command and gives the exit code. args come without the name of
// the program. When ctx is cancelled, the command stops soon, finishing what it
// must. Nothing is read or written but through the arguments, and what the
// command itself is about.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	a := &app{in: stdin, out: stdout, err: stderr, env: env, kinds: catalog.Kinds(), log: slog.New(slog.DiscardHandler)}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if a.stopProfile != nil {
		err = errors.Join(err, a.stopProfile())
	}
	if text := message(err); text != "" {
		fmt.Fprintln(stderr, text)
	}
	return exitCode(err)
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "exactly",
		Short: "Exactly-once pipelines from Kafka to many systems",
		Long: "exactly reads Kafka topics, transforms records, and writes them to Kafka, databases,\n" +
			"files and HTTP services: each effect becomes visible exactly once, after the decision.\n\n" +
			"Exit codes: 0 right, 1 failed at run time, 2 usage or configuration, 3 environment,\n" +
			"4 a check or audit found something.",
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := a.setUpLog(); err != nil {
				return err
			}
			return a.startProfile()
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.logFormat, "log-format", "text", "format of logs on standard error: text or json")
	flags.StringVar(&a.logLevel, "log-level", "info", "least level of logs: debug, info, warn or error")
	flags.StringVar(&a.profile, "cpu-profile", "", "write a CPU profile to this file, for go tool pprof")
	_ = flags.MarkHidden("cpu-profile") // fails for unknown flags only
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{cmd: cmd.CommandPath(), err: err}
	})
	root.AddCommand(commands(a)...)
	return root
}

// startProfile begins a CPU profile where one is asked for; Main ends it.
func (a *app) startProfile() error {
	if a.profile == "" {
		return nil
	}
	f, err := os.Create(a.profile)
	if err != nil {
		return fmt.Errorf("write a CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(fmt.Errorf("write a CPU profile: %w", err), f.Close())
	}
	a.stopProfile = func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}
	return nil
}

func unknownCommand(root *cobra.Command, name string) error {
	err := fmt.Errorf("there is no command %q", name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("there is no command %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return usageError{cmd: root.CommandPath(), err: err}
}

// args checks the number of arguments; names are shown in the error.
func args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		switch {
		case len(got) < len(names):
			return usageError{cmd: cmd.CommandPath(), err: fmt.Errorf("%s is missing", names[len(got)])}
		case len(got) > len(names):
			return usageError{cmd: cmd.CommandPath(), err: fmt.Errorf("%q is one argument too many", got[len(names)])}
		}
		return nil
	}
}

func (a *app) setUpLog() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return usageError{cmd: "exactly", err: fmt.Errorf("--log-level %q: use debug, info, warn or error", a.logLevel)}
	}
	o := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		a.log = slog.New(slog.NewTextHandler(a.err, o))
	case "json":
		a.log = slog.New(slog.NewJSONHandler(a.err, o))
	default:
		return usageError{cmd: "exactly", err: fmt.Errorf("--log-format %q: use text or json", a.logFormat)}
	}
	return nil
}
