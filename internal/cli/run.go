package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"exactly"
	"exactly/internal/catalog"
	"exactly/internal/config"
	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/internal/telemetry"
)

func newRun(a *app) *cobra.Command {
	var unsafePoints bool
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a worker of a pipeline",
		Long: "Run a worker of the pipeline in FILE. Start it on as many machines as you like: workers\n" +
			"share the tasks, and take over from one that dies.\n\n" +
			"SIGTERM or SIGINT stops it gracefully: open epochs are closed, committed and confirmed,\n" +
			"and the group is left. A second signal ends it at once, which loses nothing either.",
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), args[0], unsafePoints)
		},
	}
	unsafeFlag(cmd.Flags(), &unsafePoints)
	return cmd
}

// gcLimit is the soft limit of the heap where the environment sets none: above
// it the collector works harder, so that the peak stays near the byte budgets. Not
// less than these: at three quarters, a worker with a backlog spent a third of its
// time on collections. What is outside of the heap (SQLite's pages) comes on top.
func gcLimit(f *config.File) int64 {
	tasks := int64(f.Tasks)
	if tasks == 0 {
		tasks = int64(engine.DefaultTasks(math.MaxInt32, f.Epoch.Interval))
	}
	return 32<<20 + tasks*(f.Memory.Fetch+f.Memory.Epoch+f.Memory.Handover)
}

func unsafeFlag(flags *pflag.FlagSet, on *bool) {
	flags.BoolVar(on, "unsafe-failpoints", false, "let the environment arm fail points; for tests only")
}

// failPoints are those that the environment arms, if the flag allows it.
func (a *app) failPoints(cmd string, allowed bool) (*failpoint.Set, error) {
	points, err := failpoint.FromEnv(func(k string) string { v, _ := a.env(k); return v }, allowed, a.log)
	if err != nil {
		return nil, usageError{cmd: cmd, err: err}
	}
	return points, nil
}

func (a *app) run(ctx context.Context, path string, unsafePoints bool) (err error) {
	f, err := config.Load(path, a.kinds, a.env)
	if err != nil {
		return err
	}
	points, err := a.failPoints("exactly run", unsafePoints)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, points.Close()) }()
	if limit, _ := a.env("GOMEMLIMIT"); limit == "" {
		debug.SetMemoryLimit(gcLimit(f))
	}
	p, err := catalog.Pipeline(f, a.log)
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(telemetry.Config{
		Pipeline: f.Pipeline, Listen: f.HTTP.Listen, Token: f.HTTP.Token, TokenFile: f.HTTP.TokenFile, Log: a.log,
	})
	if err != nil {
		return environment(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err = errors.Join(err, tel.Close(ctx))
	}()
	p.Events, p.Failpoints = tel.See, points
	return a.work(ctx, p)
}

// sameSignal: some tools send a signal to a process and then to its group.
const sameSignal = 500 * time.Millisecond

// work runs until a signal: the first stops gracefully, the second at once.
func (a *app) work(ctx context.Context, p exactly.Pipeline) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	var stopping time.Time
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if !stopping.IsZero() && time.Since(stopping) < sameSignal {
				continue
			}
			if !stopping.IsZero() {
				return fmt.Errorf("ended at once by a second %s; nothing is lost, the next start takes over", s)
			}
			a.log.Info("stopping", "signal", s.String())
			stopping = time.Now()
			cancel()
		}
	}
}
