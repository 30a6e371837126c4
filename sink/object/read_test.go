package object_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exactly/sink"
	"exactly/sink/object"
)

func TestRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := fileURL(dir)
	for task, c := range []object.Config{
		{},
		{Compression: "gzip"},
		{Compression: "zstd"},
		{Format: "parquet"},
		{Format: "parquet", Schema: map[string]string{"n": "int64"}, SourceColumns: true},
	} {
		c.URL = url
		o := owner(1)
		o.Task = int32(task)
		tk, cs := one(t, c, o, fmt.Sprintf(`{"n":%d}`, task))
		commit(t, tk, cs)
	}
	want := `[{"n":0} {"n":1} {"n":2} {"n":3} {"n":4}]`
	if got := fmt.Sprint(rows(t, url, object.ReadOptions{})); got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	sources := 0
	for row, err := range object.Rows(t.Context(), url, object.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Source != nil {
			sources++
			if row.Source.Topic != "t" || row.Source.Offset != 1000 {
				t.Errorf("%s: source %s", row.File, row.Source)
			}
		}
	}
	if sources != 2 {
		t.Errorf("%d rows with a source, want those of Parquet", sources)
	}
	third := object.ReadOptions{Match: func(f object.File) bool { return f.Ours && f.Name.Task == 2 }}
	if got := fmt.Sprint(rows(t, url, third)); got != `[{"n":2}]` {
		t.Errorf("matched rows %s", got)
	}

	// A copy by hand is read as well: it doubles what readers see.
	first := files(t, url)[0].Path
	b, err := os.ReadFile(filepath.Join(dir, first))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old", "copy.jsonl"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "readme.txt"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(rows(t, url, object.ReadOptions{})), `[{"n":0} `+want[1:]; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	for f, err := range object.Files(t.Context(), url) {
		if err != nil || f.Ours != (f.Path != "old/copy.jsonl") || f.Size == 0 {
			t.Errorf("file %+v, %v", f, err)
		}
	}
}

func TestRowsErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte("{}\n{\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := 0
	var last error
	for row, err := range object.Rows(t.Context(), fileURL(dir), object.ReadOptions{}) {
		n++
		last = err
		if row.File != "x.jsonl" {
			t.Errorf("row of file %q", row.File)
		}
	}
	if n != 2 || last == nil || !strings.Contains(last.Error(), filepath.Join(dir, "x.jsonl")) || !strings.Contains(last.Error(), "line 2") {
		t.Errorf("%d rows, then %v; want one and an error with file and line", n, last)
	}
	for _, tt := range []struct{ url, path string }{{"s3://x", "x.jsonl"}, {fileURL(dir), "y.jsonl"}, {fileURL(dir), "x.csv"}, {fileURL(dir), "../x.jsonl"}} {
		n := 0
		for _, err := range object.ReadFile(t.Context(), tt.url, tt.path, object.ReadOptions{}) {
			if n++; err == nil {
				t.Errorf("%+v reads without an error", tt)
			}
		}
		if n != 1 {
			t.Errorf("%+v: %d rows", tt, n)
		}
	}
	for _, err := range object.Files(t.Context(), "s3://x") {
		if err == nil {
			t.Errorf("Files of an unknown scheme has no error")
		}
	}
	if got := rows(t, fileURL(filepath.Join(dir, "nothing")), object.ReadOptions{}); len(got) > 0 {
		t.Errorf("rows of a folder that does not exist: %v", got)
	}
}

// TestStopReading: a caller may stop at any row.
func TestStopReading(t *testing.T) {
	t.Parallel()
	for _, c := range []object.Config{{}, {Compression: "zstd"}, {Format: "parquet"}} {
		c.URL = fileURL(t.TempDir())
		task := open(t, c, object.Deps{}, owner(1), sink.Pos{})
		apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1, Index: 2}, entry(1, 0, "1"), entry(1, 1, "2"), entry(1, 2, "3"))
		commit(t, task, stage(t, task, start, true))
		for stop := 1; stop <= 3; stop++ {
			n := 0
			for _, err := range object.Rows(t.Context(), c.URL, object.ReadOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == stop {
					break
				}
			}
			if n != stop {
				t.Errorf("%d rows, want %d", n, stop)
			}
		}
	}
}
