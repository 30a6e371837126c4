package cli

import (
	"github.com/spf13/cobra"

	"exactly/internal/config"
)

// newSchema makes `exactly schema`.
func newSchema(a *app) *cobra.Command {
	var docs bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of pipeline files, or their reference",
		Long: "Prints the JSON Schema of pipeline files, for editors: save it and put\n" +
			"  # yaml-language-server: $schema=pipeline.schema.json\n" +
			"into the first line of a pipeline file. With --docs, prints the reference as Markdown.",
		Args: args(),
		RunE: func(*cobra.Command, []string) error {
			write := config.JSONSchema
			if docs {
				write = config.Reference
			}
			text, err := write(a.kinds)
			if err != nil {
				return err
			}
			_, err = a.out.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&docs, "docs", false, "print the reference of all settings instead, as Markdown")
	return cmd
}
