package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exactly/internal/config"
)

// FuzzParse: no text makes Parse panic, every refusal has a known code, a place
// inside the file, and every accepted file explains itself.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/malformed/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			if len(data) < 64<<10 {
				f.Add(data)
			}
		}
	}
	f.Add([]byte(config.Template()))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "${file:") {
			return // reads files
		}
		file, err := config.Parse("p.yaml", data, kinds(), environment)
		if err == nil {
			if len(file.Explain()) == 0 || file.Pipeline == "" || len(file.Sinks) == 0 {
				t.Error("an accepted file says nothing")
			}
			return
		}
		list := config.List(err)
		if len(list) == 0 {
			t.Fatalf("not an error for people: %v", err)
		}
		lines := strings.Count(strings.ReplaceAll(string(data), "\r", "\n"), "\n") + 1
		for _, e := range list {
			if _, ok := config.Explain(e.Code); !ok || e.Cause == "" || e.Line < 0 || e.Line > lines {
				t.Errorf("code %q, line %d of %d: %v", e.Code, e.Line, lines, e)
			}
		}
		if err.Error() == "" {
			t.Error("no text")
		}
	})
}
