package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"exactly/internal/bench"
)

// newBenchTables makes `exactly bench tables`.
func newBenchTables(a *app) *cobra.Command {
	o := bench.TablesOptions{Records: 500_000, Rounds: 5, Batch: 20_000}
	cmd := &cobra.Command{
		Use:   "tables",
		Short: "Measure how fast rows come into PostgreSQL, beside COPY and a statement by hand",
		Long: "Writes the same rows into the same table, in interleaved rounds: with one COPY, with a\n" +
			"statement of many rows and ON CONFLICT, and through the sink, which parses JSON and keeps\n" +
			"its ledger. Prints Markdown. The table exactly_bench is made for it and removed.",
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.benchTables(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.DSN, "postgres", "", "a postgres:// URL; its password may be in PGPASSWORD or a password file")
	flags.Int64Var(&o.Records, "records", o.Records, "rows")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "how often everything is measured")
	flags.IntVar(&o.Batch, "batch", o.Batch, "records per call of the sink at most")
	return cmd
}

func (a *app) benchTables(ctx context.Context, o bench.TablesOptions) error {
	if err := o.Validate(); err != nil {
		return usageError{cmd: "exactly bench tables", err: fmt.Errorf("--%w", err)}
	}
	o.Progress = a.err
	res, err := bench.Tables(ctx, o)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.out, res.Markdown())
	return err
}
