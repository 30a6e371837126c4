package lint

import (
	"path"
	"strings"
	"testing"
)

// TestEveryPackageHasADoc: doc.go says what a package does, what it does not,
// and who calls it.
func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	docs := map[string]*file{}
	packages := map[string]bool{}
	for _, f := range tree(t) {
		switch {
		case f.ast == nil:
		case path.Base(f.path) == "doc.go":
			docs[f.pkg()] = f
			packages[f.pkg()] = true
		case !strings.Contains(f.path, "/testdata/"):
			packages[f.pkg()] = true
		}
	}
	for pkg := range packages {
		if problem := docProblem(pkg, docs[pkg]); problem != "" {
			t.Errorf("%s: %s", pkg, problem)
		}
	}
}

func docProblem(pkg string, doc *file) string {
	if doc == nil {
		return "no doc.go"
	}
	want := "Package " + doc.ast.Name.Name + " "
	if doc.ast.Name.Name == "main" {
		want = "Command " + path.Base(pkg) + " "
	}
	if doc.ast.Doc == nil || !strings.HasPrefix(doc.ast.Doc.Text(), want) {
		return "the comment of doc.go does not start with " + want
	}
	return ""
}

func TestDocProblemOnSamples(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       bool
	}{
		{"right", "// Package a does.\npackage a", false},
		{"command", "// Command x does.\npackage main", false},
		{"no comment", "package a", true},
		{"another comment", "// Does.\npackage a", true},
	}
	for _, tt := range tests {
		f, err := parse("x/doc.go", tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := docProblem(f.pkg(), f); (got != "") != tt.want {
			t.Errorf("%s: got %q, want a problem: %t", tt.name, got, tt.want)
		}
	}
	if docProblem("x", nil) == "" {
		t.Error("no doc.go: got no problem")
	}
}
