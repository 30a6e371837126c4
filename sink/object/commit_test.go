package object_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exactly/sink"
	"exactly/sink/object"
)

// one stages one record of epoch 1.
func one(t testing.TB, c object.Config, o sink.Owner, value string) (sink.OutboxStager, []sink.Committable) {
	t.Helper()
	task := open(t, c, object.Deps{}, o, sink.Pos{})
	apply(t, task, sink.Pos{}, sink.Pos{Epoch: 1}, entry(1, 0, value))
	return task, stage(t, task, start, true)
}

// TestSweepLookAlikes: only files of older attempts of exactly this owner go.
func TestSweepLookAlikes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := object.Config{URL: fileURL(dir)}
	base := func(f func(o *sink.Owner)) sink.Owner {
		o := owner(1)
		o.Task = 1
		f(&o)
		return o
	}
	others := map[string]sink.Owner{
		"task 10":      base(func(o *sink.Owner) { o.Task = 10 }),
		"task 11":      base(func(o *sink.Owner) { o.Task = 11 }),
		"generation":   base(func(o *sink.Owner) { o.Generation = 11 }),
		"pipeline":     base(func(o *sink.Owner) { o.Pipeline = "payments-lake" }),
		"sink":         base(func(o *sink.Owner) { o.Sink = "lake1" }),
		"split":        base(func(o *sink.Owner) { o.Pipeline, o.Sink = "payments.lake", "g1" }),
		"same attempt": base(func(o *sink.Owner) { o.Attempt = 5 }),
		"later":        base(func(o *sink.Owner) { o.Attempt = 15 }),
	}
	for _, o := range others {
		one(t, c, o, "1")
	}
	foreign := base(func(o *sink.Owner) { o.Incarnation = "00c0ffee00c0ffef"; o.Guarantee = sink.AtLeastOnce })
	one(t, c, foreign, "1")
	unknown := filepath.Join(dir, "_exactly", "staging", "payments.lake.g1.t1.00c0ffee00c0ffee.a1.n1.part.bak")
	if err := os.WriteFile(unknown, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	left := len(stagedFiles(t, dir))

	_, kept := one(t, c, base(func(o *sink.Owner) { o.Attempt = 2 }), "1")
	one(t, c, base(func(o *sink.Owner) { o.Attempt = 3 }), "1")
	unstaged := open(t, c, object.Deps{}, base(func(o *sink.Owner) { o.Attempt = 4 }), sink.Pos{})
	apply(t, unstaged, sink.Pos{}, sink.Pos{Epoch: 1}, entry(1, 0, `"`+strings.Repeat("x", 1<<20)+`"`))
	if n := len(stagedFiles(t, dir)); n != left+3 {
		t.Fatalf("%d staged files, want %d", n, left+3)
	}
	task := open(t, c, object.Deps{}, base(func(o *sink.Owner) { o.Attempt = 5 }), sink.Pos{})
	for range 2 {
		if err := task.Sweep(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		if n := len(stagedFiles(t, dir)); n != left+1 {
			t.Errorf("%d staged files, want %d: %v", n, left+1, stagedFiles(t, dir))
		}
	}
	commit(t, task, kept)
}

func TestCommitRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := object.Config{URL: fileURL(dir)}
	task, cs := one(t, c, owner(1), "1")

	other := owner(1)
	other.Task = 1
	stranger := open(t, c, object.Deps{}, other, sink.Pos{})
	for name, f := range map[string]func() error{
		"commit": func() error { return stranger.Commit(t.Context(), cs) },
		"abort":  func() error { return stranger.Abort(t.Context(), cs) },
		"sweep":  func() error { return stranger.Sweep(t.Context(), cs) },
	} {
		if err := f(); !errors.Is(err, sink.ErrForeignMark) || sink.Classify(err) != sink.ClassFatal {
			t.Errorf("%s of another task's work: got %v, want ErrForeignMark", name, err)
		}
	}
	for _, data := range []string{"", "x", "{}", `{"v":2}`, `{"v":1,"files":[{"staged":"../../x"}]}`, `{"v":1,"files":[{"staged":"payments.lake.g1.t0.00c0ffee00c0ffee.a1.n0.part","final":"../x"}]}`} {
		bad := cs[0]
		bad.Data = []byte(data)
		if err := task.Commit(t.Context(), []sink.Committable{bad}); sink.Classify(err) != sink.ClassFatal {
			t.Errorf("data %q: got %v, want fatal", data, err)
		}
	}
	commit(t, task, cs)
	if got := fmt.Sprint(rows(t, c.URL, object.ReadOptions{})); got != "[1]" {
		t.Errorf("rows %s", got)
	}
}

// TestConflict: another file under the final name is never overwritten nor
// taken for ours.
func TestConflict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	task, cs := one(t, object.Config{URL: fileURL(dir)}, owner(1), "1")
	var m struct {
		Files []struct{ Staged, Final string }
	}
	if err := json.Unmarshal(cs[0].Data, &m); err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(dir, m.Files[0].Final)
	if err := os.WriteFile(final, []byte("2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := task.Commit(t.Context(), cs)
	if sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), m.Files[0].Final) || !strings.Contains(err.Error(), m.Files[0].Staged) {
		t.Errorf("got %v, want fatal with both names", err)
	}
	if b, err := os.ReadFile(final); string(b) != "2\n" || err != nil {
		t.Errorf("the other file is now %q, %v", b, err)
	}
}

func TestForeignMark(t *testing.T) {
	t.Parallel()
	c := object.Config{URL: fileURL(t.TempDir())}
	task, cs := one(t, c, owner(1), "1")
	commit(t, task, cs)
	s, err := object.New("lake", c, object.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	o := owner(1)
	o.Incarnation = "0badcafe0badcafe"
	_, _, err = s.OpenOutbox(t.Context(), o, sink.Pos{})
	if !errors.Is(err, sink.ErrForeignMark) {
		t.Fatalf("got %v, want ErrForeignMark", err)
	}
	for _, part := range []string{c.URL, "00c0ffee00c0ffee", "0badcafe0badcafe", filepath.Join("marks", "payments.lake")} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %s: %v", part, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	file := "file:///tmp/x"
	tests := []struct {
		c    object.Config
		want string
	}{
		{object.Config{}, "url"},
		{object.Config{URL: "/data"}, "file:///"},
		{object.Config{URL: "s3://lake/x"}, "s3"},
		{object.Config{URL: "gs://lake/x"}, "later release"},
		{object.Config{URL: "ftp://lake/x"}, "ftp"},
		{object.Config{URL: file, Format: "csv"}, "jsonl or parquet"},
		{object.Config{URL: file, Compression: "snappy"}, "compression"},
		{object.Config{URL: file, Format: "parquet", Compression: "gzip"}, "compression"},
		{object.Config{URL: file, Format: "parquet", Envelope: true}, "envelope"},
		{object.Config{URL: file, Schema: map[string]string{"a": "int64"}}, "schema"},
		{object.Config{URL: file, SourceColumns: true}, "source_columns"},
		{object.Config{URL: file, Format: "parquet", Schema: map[string]string{"a": "int"}}, "schema.a"},
		{object.Config{URL: file, Format: "parquet", Schema: map[string]string{"source_topic": "string"}, SourceColumns: true}, "source_topic"},
		{object.Config{URL: file, Roll: object.Roll{Size: -1}}, "roll.size"},
		{object.Config{URL: file, Roll: object.Roll{Age: -1}}, "roll.age"},
		{object.Config{URL: file, MaxOpen: 65}, "max_open"},
		{object.Config{URL: file, PartitionBy: "1 +"}, "partition_by"},
		{object.Config{URL: file, PartitionBy: "1"}, "partition_by"},
	}
	for _, tt := range tests {
		_, err := object.New("lake", tt.c, object.Deps{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "sink lake: object.") {
			t.Errorf("%+v: got %v, want an error with %q", tt.c, err, tt.want)
		}
	}
}

func TestNamesTooLong(t *testing.T) {
	t.Parallel()
	s, err := object.New("lake", object.Config{URL: fileURL(t.TempDir())}, object.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	o := owner(1)
	o.Pipeline = strings.Repeat("ü", 40)
	if _, _, err := s.OpenOutbox(t.Context(), o, sink.Pos{}); sink.Classify(err) != sink.ClassFatal {
		t.Errorf("got %v, want fatal", err)
	}
}

func TestCheckNamesSetting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := object.New("lake", object.Config{URL: fileURL(path)}, object.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "object.url") {
		t.Errorf("got %v, want an error that names url", err)
	}
}
