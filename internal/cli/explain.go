package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// newExplain makes `exactly explain`.
func newExplain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain the code of an error, or list the codes",
		Args: func(cmd *cobra.Command, got []string) error {
			if len(got) == 0 {
				return nil
			}
			return args("CODE")(cmd, got)
		},
		RunE: func(cmd *cobra.Command, got []string) error {
			if len(got) == 0 {
				return a.listCodes()
			}
			return a.explainCode(cmd, got[0])
		},
	}
}

func (a *app) listCodes() error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, c := range codes() {
		fmt.Fprintf(w, "%s\t%s\n", c.Code, c.Title)
	}
	return w.Flush()
}

func (a *app) explainCode(cmd *cobra.Command, code string) error {
	code = strings.ToLower(strings.Trim(code, "[]"))
	for _, c := range codes() {
		if c.Code == code {
			fmt.Fprintf(a.out, "%s: %s\n\n%s\n", c.Code, c.Title, wrap(c.Text, 80))
			return nil
		}
	}
	return usageError{cmd: cmd.CommandPath(), err: fmt.Errorf("there is no code %q\n  exactly explain, without a code, lists them", code)}
}

// wrap breaks lines at words.
func wrap(text string, width int) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString("\n\n")
		}
		col := 0
		for word := range strings.FieldsSeq(paragraph) {
			if col > 0 && col+1+len(word) > width {
				b.WriteByte('\n')
				col = 0
			}
			if col > 0 {
				b.WriteByte(' ')
				col++
			}
			b.WriteString(word)
			col += len(word)
		}
	}
	return b.String()
}
