package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exactly/internal/config"
)

var update = flag.Bool("update", false, "write the expected texts anew")

// TestMalformed holds the exact text that a user sees for each broken file.
func TestMalformed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/malformed/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 40 {
		t.Fatalf("%d malformed files, at least 40 are wanted", len(files))
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := config.Parse("pipeline.yaml", data, kinds(), environment)
			got := complaint(f, err)
			if got == "" {
				t.Fatal("the file was accepted without a warning")
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", got)
			for _, e := range append(config.List(err), warnings(f)...) {
				if _, ok := config.Explain(e.Code); !ok {
					t.Errorf("code %s has no explanation", e.Code)
				}
			}
		})
	}
}

func complaint(f *config.File, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, w := range f.Warnings {
		b.WriteString("warning: " + w.Error() + "\n")
	}
	return b.String()
}

func warnings(f *config.File) []*config.Error {
	if f == nil {
		return nil
	}
	return f.Warnings
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if got != string(want) {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}
