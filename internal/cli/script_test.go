package cli_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"exactly/internal/cli"
)

var update = flag.Bool("update", false, "write expected files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"exactly": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
		},
	})
}

// TestScripts runs the commands as a user does, one behaviour a file.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
