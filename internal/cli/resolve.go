package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"exactly"
	"exactly/internal/engine"
)

func newResolve(a *app) *cobra.Command {
	var o exactly.ResolveOptions
	var asJSON, unsafePoints bool
	cmd := &cobra.Command{
		Use:   "resolve FILE",
		Short: "Finish what dead workers left, without starting any",
		Long: "Finishes what the workers of the pipeline in FILE left when they died, for as long as they are\n" +
			"to stay down: prepared transactions hold locks, and keep a database from cleaning up. Stop\n" +
			"every worker first; starting one does the same.\n\n" +
			"It takes every task over as a worker does: what the journal lists is committed, what it does\n" +
			"not is rolled back, decided records are applied. It reads no source record. What bears the name\n" +
			"of another pipeline is listed and left alone. Run again after a failure, it goes on.\n\n" +
			"Exit codes: 0 all is finished, 1 something is not, 3 something cannot be reached, or workers\n" +
			"run, 4 something is left that nothing decides.",
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resolve(cmd.Context(), args[0], o, asJSON, unsafePoints)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.DryRun, "dry-run", false, "change nothing: list what is prepared, and what would become of it")
	flags.DurationVar(&o.Wait, "wait", time.Minute, "how long each task may take, with its outbox")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	unsafeFlag(flags, &unsafePoints)
	return cmd
}

func (a *app) resolve(ctx context.Context, path string, o exactly.ResolveOptions, asJSON, unsafePoints bool) (err error) {
	if o.Wait <= 0 {
		return usageError{cmd: "exactly resolve", err: fmt.Errorf("--wait %s: must be above 0", o.Wait)}
	}
	p, err := a.offline("exactly resolve", path, unsafePoints)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Failpoints.Close()) }()
	res, err := p.Resolve(ctx, o)
	if res.Pipeline == "" {
		return err // it did not begin
	}
	rep := newResolution(res, err)
	if asJSON {
		err = errors.Join(err, writeJSON(a.out, rep))
	} else {
		err = errors.Join(err, rep.print(a.out))
	}
	if err == nil && !o.DryRun && len(rep.Prepared) > 0 {
		return exit{code: exitFound}
	}
	return err
}

// resolution is what is printed, also as JSON.
type resolution struct {
	Pipeline   string         `json:"pipeline"`
	Generation int32          `json:"generation"`
	DryRun     bool           `json:"dry_run"`
	Error      string         `json:"error,omitempty"`
	Workers    []string       `json:"workers,omitempty"`
	Tasks      []resolvedTask `json:"tasks"`
	Skipped    []int32        `json:"tasks_without_journal,omitempty"`
	Prepared   []preparedWork `json:"prepared"` // in a dry run what there is, else what is left; null: it could not be asked for
	Foreign    []foreignWork  `json:"foreign"`
}

type resolvedTask struct {
	Sink       string `json:"sink"`
	Generation int32  `json:"generation"`
	Task       int32  `json:"task"`
	Found      int64  `json:"found"`
	Committed  int64  `json:"committed"`
	RolledBack int64  `json:"rolled_back"`
	Applied    int64  `json:"applied"`
}

type preparedWork struct {
	Sink       string      `json:"sink"`
	Generation int32       `json:"generation"`
	Task       int32       `json:"task"`
	Attempt    int64       `json:"attempt"`
	Epoch      int64       `json:"epoch"`
	AgeMillis  int64       `json:"age_ms"`
	Fate       engine.Fate `json:"fate"`
	Why        string      `json:"why"`
	Name       string      `json:"name"`
	Place      string      `json:"place"`
}

type foreignWork struct {
	AgeMillis int64  `json:"age_ms"`
	Name      string `json:"name"`
	Place     string `json:"place"`
	Undo      string `json:"undo"`
}

func newResolution(r exactly.ResolveResult, err error) resolution {
	out := resolution{
		Pipeline: r.Pipeline, Generation: r.Generation, DryRun: r.DryRun, Workers: r.Workers, Skipped: r.Skipped,
		Tasks: []resolvedTask{}, Prepared: []preparedWork{}, Foreign: []foreignWork{},
	}
	if err != nil {
		out.Error = err.Error()
	}
	for _, t := range r.Rows {
		out.Tasks = append(out.Tasks, resolvedTask(t))
	}
	for _, s := range r.Staged {
		out.Prepared = append(out.Prepared, preparedWork{
			Sink: s.Sink, Generation: s.Generation, Task: s.Task, Attempt: s.Attempt, Epoch: s.Epoch,
			AgeMillis: s.Age.Milliseconds(), Fate: s.Fate, Why: s.Why, Name: s.Name, Place: s.Place,
		})
	}
	if r.Unseen {
		out.Prepared = nil
	}
	for _, s := range r.Foreign {
		out.Foreign = append(out.Foreign, foreignWork{AgeMillis: s.Age.Milliseconds(), Name: s.Name, Place: s.Place, Undo: s.Undo})
	}
	return out
}

func age(ms int64) time.Duration { return (time.Duration(ms) * time.Millisecond).Round(time.Second) }

func (r resolution) print(to io.Writer) error {
	var b strings.Builder
	verb := "resolved"
	switch {
	case r.DryRun:
		verb = "looked at, nothing was changed"
	case r.Error != "":
		verb = "not finished, see the error"
	}
	fmt.Fprintf(&b, "pipeline %s, generation %d: %s\n", r.Pipeline, r.Generation, verb)
	if len(r.Workers) > 0 {
		fmt.Fprintf(&b, "%d workers are running, and prepare and commit all the time: %s\n", len(r.Workers), strings.Join(r.Workers, ", "))
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if !r.DryRun {
		fmt.Fprintln(w, "\nSINK\tGENERATION\tTASK\tFOUND\tCOMMITTED\tROLLED BACK\tAPPLIED")
		for _, t := range r.Tasks {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Sink, t.Generation, t.Task, t.Found, t.Committed, t.RolledBack, t.Applied)
		}
		w.Flush()
		if len(r.Skipped) > 0 {
			fmt.Fprintf(&b, "left out, since their journals are empty: tasks %v\n", r.Skipped)
		}
	}
	switch {
	case r.Prepared == nil:
		b.WriteString("\nwhether prepared transactions are left could not be asked for\n")
	case len(r.Prepared) > 0:
		b.WriteString("\nprepared transactions of this pipeline" + map[bool]string{true: "", false: " that are left"}[r.DryRun] + "\n")
		fmt.Fprintln(w, "SINK\tGENERATION\tTASK\tATTEMPT\tEPOCH\tAGE\tWOULD\tBECAUSE\tNAME")
		for _, p := range r.Prepared {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", p.Sink, p.Generation, p.Task, p.Attempt, p.Epoch, age(p.AgeMillis),
				strings.ReplaceAll(string(p.Fate), "_", " "), oneLine(p.Why), p.Name)
		}
		w.Flush()
	default:
		b.WriteString("\nno prepared transaction of this pipeline" + map[bool]string{true: "", false: " is left"}[r.DryRun] + "\n")
	}
	if len(r.Foreign) > 0 {
		b.WriteString("\nof another pipeline, incarnation or sink, left alone; who is sure that nobody needs one any more ends it with\n")
		for _, f := range r.Foreign {
			fmt.Fprintf(w, "  %s;\t-- in %s, %s old\n", f.Undo, f.Place, age(f.AgeMillis))
		}
		w.Flush()
	}
	_, err := io.WriteString(to, b.String())
	return err
}
