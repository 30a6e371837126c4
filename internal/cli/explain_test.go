package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryCodeIsExplained reads the codes from the packages that define them.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, c := range codes() {
		if explained[c.Code] || c.Title == "" || len(c.Text) < 40 {
			t.Errorf("%s is there twice, or says too little", c.Code)
		}
		explained[c.Code] = true
	}
	for _, file := range []string{"../broker/problem.go", "../../step/cel/errors.go", "../config/codes.go"} {
		defined := codesIn(t, file)
		if len(defined) < 5 {
			t.Errorf("%s defines %d codes; are they elsewhere now?", file, len(defined))
		}
		for _, code := range defined {
			if !explained[code] {
				t.Errorf("%s: %s has no explanation", file, code)
			}
		}
	}
}

// codesIn lists the values of the constants that are named Code… or code….
func codesIn(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "code") || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, value)
		}
		return true
	})
	return out
}
