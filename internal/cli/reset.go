package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"exactly"
	"exactly/internal/catalog"
	"exactly/internal/config"
)

func newReset(a *app) *cobra.Command {
	var o exactly.ResetOptions
	var asJSON, unsafePoints bool
	cmd := &cobra.Command{
		Use:   "reset FILE",
		Short: "Begin a new generation: other task count, start position or sinks",
		Long: "Ends the running generation of the pipeline in FILE and begins the next one, which takes over\n" +
			"what FILE says: tasks, topics, sinks. Stop every worker first.\n\n" +
			"It fences the old generation for good, finishes its decided work, drains its outboxes, and\n" +
			"lets the new one begin where the old one stopped, or at --to. Run again after a failure, it\n" +
			"goes on where it stopped.",
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reset(cmd.Context(), args[0], o, asJSON, unsafePoints)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.To, "to", "", "where to begin: earliest, latest, a time (RFC 3339) or group:NAME (default: where the old generation stopped)")
	flags.StringSliceVar(&o.DropSinks, "drop-sink", nil, "a sink that left FILE: give up what it has not applied")
	flags.DurationVar(&o.Wait, "wait", 5*time.Minute, "how long each task's outbox may take to drain")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	unsafeFlag(flags, &unsafePoints)
	return cmd
}

func (a *app) reset(ctx context.Context, path string, o exactly.ResetOptions, asJSON, unsafePoints bool) (err error) {
	p, err := a.offline("exactly reset", path, unsafePoints)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Failpoints.Close()) }()
	res, err := p.Reset(ctx, o)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.out, res)
	}
	fmt.Fprintf(a.out, "pipeline %s: generation %d ended, generation %d begins with %d tasks at\n", p.Name, res.From, res.Generation, res.Tasks)
	for _, t := range slices.Sorted(maps.Keys(res.Starts)) {
		for partition, offset := range res.Starts[t] {
			fmt.Fprintf(a.out, "  %s-%d@%d\n", t, partition, offset)
		}
	}
	_, err = fmt.Fprintf(a.out, "nothing reads these topics any more: %s\n", strings.Join(res.OldTopics, ", "))
	return err
}

// offline makes the pipeline of a command that works while no worker runs. The
// caller closes its fail points.
func (a *app) offline(cmd, path string, unsafePoints bool) (p exactly.Pipeline, err error) {
	f, err := config.Load(path, a.kinds, a.env)
	if err != nil {
		return p, err
	}
	points, err := a.failPoints(cmd, unsafePoints)
	if err != nil {
		return p, err
	}
	if p, err = catalog.Pipeline(f, a.log); err != nil {
		return p, errors.Join(err, points.Close())
	}
	p.Failpoints = points
	return p, nil
}
