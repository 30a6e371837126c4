package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// rule looks at one file and returns what is wrong with it, each finding with
// its place.
type rule struct {
	name  string
	where func(*file) bool
	check func(*file) []string
	bad   []sample // each gives at least one finding
	good  []sample // none does
}

type sample struct{ path, text string }

func goFiles(f *file) bool  { return f.ast != nil }
func goSource(f *file) bool { return f.ast != nil && !f.isTest() }
func goTests(f *file) bool  { return f.ast != nil && f.isTest() }
func everyFile(*file) bool  { return true }

// Words that these rules look for are put together here, or they would find
// themselves.
const (
	openWork  = "TO" + "DO"
	openFix   = "FIX" + "ME"
	workspace = "/wo" + "rk/"
)

func rules() []rule {
	return []rule{
		{
			name: "no init function: what a package needs is passed in", where: goFiles, check: inits,
			bad:  []sample{{"a.go", "package a\nfunc init() {}"}},
			good: []sample{{"a.go", "package a\ntype T int\nfunc (T) init() {}"}},
		},
		{
			name: "no time.Sleep: wait for the event, or for a timer and the context", where: goSource, check: call("time", "Sleep"),
			bad:  []sample{{"a.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }"}},
			good: []sample{{"a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }"}, {"a.go", "package a\nfunc f() { clock.Sleep(1) }"}},
		},
		{
			name: "no skipped test: what cannot run fails", where: goTests, check: skips,
			bad: []sample{
				{"a_test.go", "package a\nfunc TestX(t *testing.T) { t.Skip() }"},
				{"a_test.go", "package a\nfunc f(tb testing.TB) { tb.Skipf(\"x\") }"},
				{"a_test.go", "package a\nfunc f(x *testing.B) { x.SkipNow() }"},
			},
			good: []sample{{"a_test.go", "package a\nfunc f() { dec.Skip() }"}},
		},
		{
			name: "nothing left open", where: everyFile, check: text(`\b(` + openWork + `|` + openFix + `|X` + `XX|HA` + `CK)\b`),
			bad:  []sample{{"a.go", "package a\n// " + openWork + ": more"}, {"a.md", openFix}},
			good: []sample{{"a.md", "a to" + "do list; XXXL"}},
		},
		{
			name: "no path of one machine", where: everyFile, check: text(`(^|[^\w.])(/home/\w|/Users/\w|/ro` + `ot/|` + workspace + `|C:\\Users)`),
			bad:  []sample{{"a.md", "see /home/" + "bob/x"}, {"a.sh", "cd " + workspace + "main"}, {"a.go", "package a\nconst d = \"/root" + "/x\""}},
			good: []sample{{"a.md", "$HOME/x, ./ho" + "me/bob, test" + workspace + "x"}},
		},
		{
			name: "at most 600 lines", where: goFiles, check: length,
			bad:  []sample{{"a.go", "package a\n" + strings.Repeat("\n", 600)}},
			good: []sample{{"a.go", "package a\n" + strings.Repeat("\n", 598)}},
		},
		{
			name: "errors are told apart by errors.Is and errors.As, not by their text", where: goSource, check: errorText,
			bad: []sample{
				{"a.go", "package a\nfunc f() { strings.Contains(err.Error(), \"x\") }"},
				{"a.go", "package a\nfunc f() bool { return err.Error() == \"x\" }"},
				{"a.go", "package a\nfunc f() bool { return re.MatchString(e.Unwrap().Error()) }"},
			},
			good: []sample{{"a.go", "package a\nfunc f() bool { print(err.Error()); strings.Contains(s, \"x\"); return err.Error() == \"\" }"}},
		},
		{
			name: "every exported name is documented", where: goSource, check: undocumented,
			bad: []sample{
				{"a.go", "package a\nfunc F() {}"},
				{"a.go", "package a\ntype T int"},
				{"a.go", "package a\n// T is.\ntype T int\nfunc (T) M() {}"},
				{"a.go", "package a\nconst C = 1"},
				{"a.go", "package a\ntype t int\nconst C t = 1"},
				{"a.go", "package a\n// T is.\ntype T int\nconst (\n\tA T = 1\n\tB = 2\n)"},
			},
			good: []sample{
				{"a.go", "package a\n// F does.\nfunc F() {}\nfunc g() {}\ntype t int\nfunc (t) M() {}"},
				{"a.go", "package a\n// All of them.\nconst (\n\tA = 1\n\tB = 2\n)\nvar (\n\tV int // is one\n)"},
				{"a.go", "package a\n// T is.\ntype T int\nconst (\n\tA T = iota\n\tB\n)\nfunc (T) String() string { return \"\" }"},
				{"main.go", "package main\nfunc F() {}"},
			},
		},
		{
			name: "context first, never stored", where: goSource, check: contexts,
			bad: []sample{
				{"a.go", "package a\nimport \"context\"\nfunc f(n int, ctx context.Context) {}"},
				{"a.go", "package a\nimport \"context\"\ntype t struct { ctx context.Context }"},
			},
			good: []sample{{"a.go", "package a\nimport \"context\"\ntype t struct { f func(context.Context) }\nfunc f(ctx context.Context, n int) {}"}},
		},
		{
			name: "the embedded Kafka is started by internal/embedded, which mends it; examples show users what they can import",
			where: func(f *file) bool {
				return f.ast != nil && f.pkg() != "exactly/internal/embedded" && !strings.HasSuffix(f.path, "example_test.go")
			},
			check: call("kfake", "NewCluster"),
			bad:   []sample{{"a_test.go", "package a\nfunc f() { kfake.NewCluster() }"}},
			good:  []sample{{"a_test.go", "package a\nfunc f() { embedded.Start() }"}},
		},
		{
			name: "a package is one noun", where: goFiles, check: packageName,
			bad:  []sample{{"a.go", "package util"}, {"a.go", "package helpers"}},
			good: []sample{{"a.go", "package journal"}},
		},
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	files := tree(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, f := range files {
				if r.where(f) {
					n++
					for _, finding := range r.check(f) {
						t.Error(finding)
					}
				}
			}
			if n == 0 {
				t.Error("no file was looked at")
			}
		})
	}
}

func TestRulesOnSamples(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		for want, samples := range map[bool][]sample{true: r.bad, false: r.good} {
			if len(samples) == 0 {
				t.Errorf("%s: no sample", r.name)
			}
			for _, s := range samples {
				f, err := parse(s.path, s.text)
				if err != nil {
					t.Fatal(err)
				}
				got := r.where(f) && len(r.check(f)) > 0
				if got != want {
					t.Errorf("%s: found something: %t, want %t, in\n%s", r.name, got, want, s.text)
				}
			}
		}
	}
}

// text finds lines that match.
func text(pattern string) func(*file) []string {
	re := regexp.MustCompile(pattern)
	return func(f *file) (found []string) {
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			if m := re.FindString(line); m != "" {
				found = append(found, fmt.Sprintf("%s:%d: %q", f.path, n, strings.TrimSpace(m)))
			}
		}
		return found
	}
}

func length(f *file) []string {
	if n := f.fset.Position(f.ast.FileEnd).Line; n > 600 {
		return []string{fmt.Sprintf("%s has %d lines", f.path, n)}
	}
	return nil
}

func packageName(f *file) []string {
	switch name := strings.TrimSuffix(f.ast.Name.Name, "_test"); name {
	case "util", "utils", "common", "helper", "helpers", "models", "pkg", "misc":
		return []string{f.at(f.ast.Name.Pos()) + ": " + name}
	}
	return nil
}

func inits(f *file) (found []string) {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, f.at(fn.Pos()))
		}
	}
	return found
}
