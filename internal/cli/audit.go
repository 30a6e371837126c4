package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"exactly/internal/audit"
	"exactly/internal/config"
)

type auditFlags struct {
	json     bool
	failOn   string
	findings int
	listings map[string]string
	timeout  time.Duration
}

// newAudit makes `exactly audit`.
func newAudit(a *app) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit FILE",
		Short: "Compare what the sinks hold with what the source gives",
		Long: "Reads the source up to its present end, runs the steps on every record, and compares the\n" +
			"results with what each sink holds: missing, duplicate, out of order, changed and unexpected\n" +
			"records. It never asks engine, journal, ledgers or outbox. What the pipeline has not yet\n" +
			"processed counts as missing, so let it come to rest first.\n\n" +
			"An HTTP sink is audited by what the partner says that it carried out: --listing SINK=URL\n" +
			`names an address that answers GET with JSON lines {"key":…,"body":…}, one per call.` + "\n\n" +
			"Exit codes: 0 right, 3 something cannot be read, 4 something was found.",
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, got []string) error { return a.audit(cmd.Context(), got[0], f) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.failOn, "fail-on", "error", "least severity that gives exit code 4: error, warning (also dead letters, and what cannot be verified) or never")
	flags.IntVar(&f.findings, "findings", 20, "findings to print per sink and kind")
	flags.StringToStringVar(&f.listings, "listing", nil, "SINK=URL of a partner's listing, for each HTTP sink")
	flags.DurationVar(&f.timeout, "timeout", time.Hour, "time limit")
	return cmd
}

func (a *app) audit(ctx context.Context, path string, flags auditFlags) error {
	failOn := audit.Severity(flags.failOn)
	switch {
	case failOn != audit.Error && failOn != audit.Warning && failOn != audit.Nothing:
		return usageError{cmd: "exactly audit", err: fmt.Errorf("--fail-on %q: use error, warning or never", flags.failOn)}
	case flags.findings < 1:
		return usageError{cmd: "exactly audit", err: errors.New("--findings: must be at least 1")}
	}
	f, err := config.Load(path, a.kinds, a.env)
	if err != nil {
		return err
	}
	plan, err := audit.FromFile(f, audit.FileOptions{Listings: flags.listings, Log: a.log})
	if err != nil {
		return err
	}
	plan.Findings = flags.findings
	plan.Progress = func(what string, n int64) { a.log.Debug("audit_reads", "what", what, "records", n) }
	ctx, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	rep, err := audit.Run(ctx, plan)
	if errors.Is(err, audit.ErrRead) {
		return environment(err)
	}
	if err != nil {
		return err
	}
	if flags.json {
		err = writeJSON(a.out, rep)
	} else {
		err = rep.Print(a.out)
	}
	if err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if rep.Fails(failOn) {
		return exit{code: exitFound}
	}
	return nil
}
