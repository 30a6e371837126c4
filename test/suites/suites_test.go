package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"exactly/internal/services"
)

func TestReadGoTest(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"loud\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: got 1, want 2\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    proc.go:3: a log\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"q","Test":"TestC"}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.2s\n"}
{"Action":"pass","Package":"q"}
{"Action":"output","Package":"r","Output":"?   \tr\t[no test files]\n"}
{"Action":"skip","Package":"r"}
{"ImportPath":"s","Action":"build-output","Output":"s.go:1: broken\n"}
go: a line of its own
`
	var out bytes.Buffer
	g, err := readGoTest(strings.NewReader(events), &out)
	if err != nil {
		t.Fatal(err)
	}
	if g.passed != 1 {
		t.Errorf("passed: got %d, want 1", g.passed)
	}
	if got, want := strings.Join(g.failed, " "), "p.TestB p"; got != want {
		t.Errorf("failed: got %q, want %q", got, want)
	}
	if got, want := strings.Join(g.skipped, " "), "q.TestC"; got != want {
		t.Errorf("skipped: got %q, want %q", got, want)
	}
	if got, want := strings.Join(g.causes, "|"), "p.TestB|    b_test.go:7: got 1, want 2"; got != want {
		t.Errorf("causes: got %q, want %q", got, want)
	}
	if got, want := strings.Join(g.packages, ""), "FAIL\tp\t0.1s\nok  \tq\t0.2s\n"; got != want {
		t.Errorf("lines of packages: got %q, want %q", got, want)
	}
	if got, want := out.String(), "loud\n    b_test.go:7: got 1, want 2\n    proc.go:3: a log\nFAIL\tp\t0.1s\nok  \tq\t0.2s\ns.go:1: broken\ngo: a line of its own\n"; got != want {
		t.Errorf("printed: got %q, want %q", got, want)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		g       goTest
		wantErr string
	}{
		{"right", goTest{passed: 1}, ""},
		{"nothing ran", goTest{}, "no test ran"},
		{"a failure", goTest{passed: 1, failed: []string{"p.T"}}, "1 failed: p.T"},
		{"a skip", goTest{passed: 1, skipped: []string{"p.T"}}, "1 were skipped, which is no pass: p.T"},
	}
	for _, tt := range tests {
		got := ""
		if err := tt.g.judge(); err != nil {
			got = err.Error()
		}
		if got != tt.wantErr {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.wantErr)
		}
	}
}

func TestRunKeepsToTheBudget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		s       suite
		wantErr string
	}{
		{"in time", suite{small: time.Minute, commands: [][]string{{"true"}}}, ""},
		{"too long", suite{small: time.Millisecond, commands: [][]string{{"sh", "-c", "sleep 0.05"}}}, "over budget"},
		{"wrong", suite{small: time.Minute, commands: [][]string{{"false"}, {"true"}}}, "false"},
		{"no install", suite{small: time.Minute, needs: []string{"no-such-service"}}, "install no-such-service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &runner{root: t.TempDir(), out: &bytes.Buffer{}}
			o := r.run(t.Context(), tt.s)
			if (o.err == nil) != (tt.wantErr == "") {
				t.Fatalf("got error %v, want %q", o.err, tt.wantErr)
			}
			if o.err != nil && !strings.Contains(o.err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q in it", o.err, tt.wantErr)
			}
		})
	}
}

func TestReportAndResults(t *testing.T) {
	t.Parallel()
	root, err := services.Root()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := &runner{root: root, out: &out, full: true, results: filepath.Join(t.TempDir(), "results")}
	all := []outcome{{
		suite:  suite{name: "one", what: "first", full: 2 * time.Minute, tests: []string{"."}},
		took:   90 * time.Second,
		goTest: goTest{passed: 7, packages: []string{"ok  \tone\t1.5s\n"}, causes: []string{"one.TestX", " x_test.go:1: no"}},
	}}
	r.report(all)
	if got := strings.Join(strings.Fields(out.String()), " "); got != "suite minutes budget passed result one 1.5 2 7 ok ok one 1.5s one.TestX x_test.go:1: no" {
		t.Errorf("report: got %q", got)
	}
	if err := r.write(all); err != nil {
		t.Fatal(err)
	}
	wantRows(t, r, "| one | first | 1.5 | 2 | 7 | ok | full | ")
}

// wantRows wants the file of results to have these rows and no other, by their begin.
func wantRows(t *testing.T, r *runner, want ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.results, "suites.md"))
	if err != nil {
		t.Fatal(err)
	}
	head, rows, _ := strings.Cut(string(b), "| ---")
	got := strings.SplitAfter(rows, "\n")[1:]
	ok := strings.HasPrefix(head, "# Suites\n") && len(got) == len(want)+1
	for i := 0; ok && i < len(want); i++ {
		ok = strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("results: got\n%s\nwant the rows %q", b, want)
	}
}

// A run of some suites leaves the rows of the others as they are, in the order of the
// table, but for those of suites that there are no more.
func TestResultsOfOtherSuitesStay(t *testing.T) {
	t.Parallel()
	root, err := services.Root()
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{root: root, out: io.Discard, full: true, results: t.TempDir()}
	old := resultsHead + "| sim | old | 1.0 | 2 | 3 | ok | full | 0123456 | 2026-01-31 | m |\n| gone | x | 1.0 | 2 | 3 | ok | full | 0123456 | 2026-01-31 | m |\n" +
		"| lint | old | 1.0 | 2 | - | FAILED | full | 0123456 | 2026-01-31 | m |\n"
	if err := os.WriteFile(filepath.Join(r.results, "suites.md"), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	sim := outcome{suite: suite{name: "sim", what: "new", full: time.Minute, tests: []string{"."}}, goTest: goTest{passed: 4}}
	unit := outcome{suite: suite{name: "unit", what: "first", full: time.Minute, tests: []string{"."}}, goTest: goTest{passed: 5}}
	for range 2 { // the second time over what was written
		if err := r.write([]outcome{sim, unit}); err != nil {
			t.Fatal(err)
		}
		wantRows(t, r, "| lint | old | 1.0 | 2 | - | FAILED | full | 0123456 | 2026-01-31 | m |\n", "| unit | first | 0.0 | 1 | 5 | ok | full | ", "| sim | new | 0.0 | 1 | 4 | ok | full | ")
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want int
	}{
		{"list", []string{"-list"}, 0},
		{"unknown suite", []string{"nothing"}, 2},
		{"unknown flag", []string{"-nothing"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if got := run(context.Background(), tt.args, &out, &errs); got != tt.want {
				t.Errorf("exit code: got %d, want %d (%s)", got, tt.want, &errs)
			}
		})
	}
}

// TestEveryPackageIsInOneSuite: a package under test/ that no suite runs would
// never be noticed.
func TestEveryPackageIsInOneSuite(t *testing.T) {
	t.Parallel()
	root, err := services.Root()
	if err != nil {
		t.Fatal(err)
	}
	suites := map[string]int{}
	for _, s := range table() {
		for _, arg := range s.tests {
			suites[path.Clean(arg)]++
		}
	}
	tagged := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(root, "test"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(b), "//go:build services") || strings.HasPrefix(string(b), "//go:build binsize") || strings.HasPrefix(string(b), "//go:build model") ||
			strings.HasPrefix(string(b), "//go:build synctests") {
			tagged[filepath.ToSlash(dir)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !tagged["test/harness"] {
		t.Error("test/harness was not seen: this test looks in the wrong place")
	}
	for dir := range tagged {
		if got := suites[dir]; got != 1 {
			t.Errorf("suites that run %s: got %d, want 1 (see table.go)", dir, got)
		}
	}
}
