package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"exactly/internal/config"
)

// newInit makes `exactly init`.
func newInit(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented pipeline file to begin with",
		Long: "Writes a commented pipeline file, pipeline.yaml unless FILE is given, that is valid as\n" +
			"it stands. FILE - is standard output. An existing file is left alone without --force.",
		Args: func(cmd *cobra.Command, got []string) error {
			if len(got) == 0 {
				return nil
			}
			return args("FILE")(cmd, got)
		},
		RunE: func(_ *cobra.Command, got []string) error {
			path := "pipeline.yaml"
			if len(got) == 1 {
				path = got[0]
			}
			return a.writeTemplate(path, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "write over an existing file")
	return cmd
}

func (a *app) writeTemplate(path string, force bool) error {
	if path == "-" {
		_, err := fmt.Fprint(a.out, config.Template())
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exit{code: exitUsage, err: fmt.Errorf("%s exists already\n  choose another name, or write over it with --force", path)}
	}
	if err != nil {
		return environment(fmt.Errorf("write the pipeline file: %w", err))
	}
	_, err = f.WriteString(config.Template())
	if err := errors.Join(err, f.Close()); err != nil {
		return environment(fmt.Errorf("write the pipeline file: %w", err))
	}
	fmt.Fprintf(a.out, "%s is written. Next: exactly validate %s --explain\n", path, path)
	return nil
}
