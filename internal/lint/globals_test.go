package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/packages"
)

// shared are the variables of packages that may change, with the reason.
func shared() map[string]string {
	return map[string]string{
		"exactly/step/cel.exact":            "a context of apd: its methods take a pointer and change nothing",
		"exactly/internal/services.current": "TestMain sets it up, and a test has nothing to carry it but its *testing.T",
	}
}

// TestNoGlobalState finds variables of packages that are written after they
// were declared, or whose type is there to be changed.
func TestNoGlobalState(t *testing.T) {
	t.Parallel()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := packages.Load(&packages.Config{
		Dir:  dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Errorf("load %s: %v", p.PkgPath, e)
		}
		for _, g := range globals(p.Syntax, p.TypesInfo, p.Types) {
			name := p.PkgPath + "." + g.name
			if shared()[name] == "" {
				pos := p.Fset.Position(g.pos)
				t.Errorf("%s:%d: %s %s", filepath.Base(pos.Filename), pos.Line, name, g.why)
			}
			used[name] = true
		}
	}
	for name := range shared() {
		if !used[name] {
			t.Errorf("the exception for %s is not needed", name)
		}
	}
}

type global struct {
	name, why string
	pos       token.Pos
}

// globals returns the variables of the package that can change. What it sees:
// types of sync and sync/atomic, channels, assignments, and methods with a
// pointer receiver on the variable itself.
func globals(files []*ast.File, info *types.Info, pkg *types.Package) (found []global) {
	for _, name := range pkg.Scope().Names() {
		if v, ok := pkg.Scope().Lookup(name).(*types.Var); ok && isForSharing(v.Type()) {
			found = append(found, global{v.Name(), "is there to be shared: " + v.Type().String(), v.Pos()})
		}
	}
	written := func(x ast.Expr, why string) {
		id := base(x)
		if id == nil {
			return
		}
		if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == pkg.Scope() {
			found = append(found, global{v.Name(), why, id.Pos()})
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, x := range n.Lhs {
					written(x, "is assigned")
				}
			case *ast.IncDecStmt:
				written(n.X, "is counted")
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					written(n.X, "has its address taken")
				}
			case *ast.CallExpr:
				if changes(n, info) {
					written(n.Args[0], "is changed by a built-in function")
				}
			case *ast.SelectorExpr:
				if s := info.Selections[n]; s != nil && s.Kind() == types.MethodVal && takesAddress(s) {
					written(n.X, "is changed by its method "+n.Sel.Name)
				}
			}
			return true
		})
	}
	return found
}

// isForSharing reports whether values of the type only make sense when several
// goroutines change them. A sync.OnceValue is a function, and none of these.
func isForSharing(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if _, ok := t.Underlying().(*types.Chan); ok {
		return true
	}
	n, ok := t.(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return false
	}
	p := n.Obj().Pkg().Path()
	return p == "sync" || p == "sync/atomic"
}

// changes reports whether c is a built-in that changes its first argument.
func changes(c *ast.CallExpr, info *types.Info) bool {
	id, ok := c.Fun.(*ast.Ident)
	if !ok || len(c.Args) == 0 {
		return false
	}
	b, ok := info.Uses[id].(*types.Builtin)
	return ok && (b.Name() == "delete" || b.Name() == "clear" || b.Name() == "copy")
}

// takesAddress reports whether the method gets a pointer to an operand that is
// no pointer itself.
func takesAddress(s *types.Selection) bool {
	recv := s.Obj().(*types.Func).Signature().Recv()
	if recv == nil {
		return false
	}
	_, wants := recv.Type().(*types.Pointer)
	_, has := s.Recv().(*types.Pointer)
	return wants && !has && !s.Indirect()
}

// base is the variable that an expression reaches into: x of x.f[i].
func base(x ast.Expr) *ast.Ident {
	for {
		switch e := x.(type) {
		case *ast.Ident:
			return e
		case *ast.SelectorExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		default:
			return nil
		}
	}
}

func TestGlobalsOnSamples(t *testing.T) {
	t.Parallel()
	const methods = "\ntype T struct{ n int }\nfunc (t *T) Set() {}\nfunc (t T) Get() {}\n"
	tests := []struct{ name, text, want string }{
		{"assigned", "var x int\nfunc f() { x = 1 }", "x"},
		{"assigned in a field", "var x T\nfunc f() { x.n = 1 }" + methods, "x"},
		{"assigned in a map", "var x = map[int]int{}\nfunc f() { x[1] = 1 }", "x"},
		{"deleted", "var x = map[int]int{}\nfunc f() { delete(x, 1) }", "x"},
		{"counted", "var x int\nfunc f() { x++ }", "x"},
		{"address", "var x int\nfunc f() *int { return &x }", "x"},
		{"method", "var x T\nfunc f() { x.Set() }" + methods, "x"},
		{"channel", "var x = make(chan int)", "x"},
		{"only read", "var x = map[int]int{1: 1}\nfunc f() int { return x[1] }", ""},
		{"value method", "var x T\nfunc f() { x.Get() }" + methods, ""},
		{"local", "var x int\nfunc f() { x := 0; x++; _ = x }", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := parse("a.go", "package a\n"+tt.text)
			if err != nil {
				t.Fatal(err)
			}
			info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
			pkg, err := (&types.Config{}).Check("a", f.fset, []*ast.File{f.ast}, info)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, g := range globals([]*ast.File{f.ast}, info, pkg) {
				got = g.name
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if !isForSharing(types.NewPointer(types.NewNamed(types.NewTypeName(0, types.NewPackage("sync", "sync"), "Mutex", nil), types.NewStruct(nil, nil), nil))) {
		t.Error("a pointer to a sync.Mutex: got not for sharing")
	}
	if isForSharing(types.NewSignatureType(nil, nil, nil, nil, nil, false)) {
		t.Error("a function: got for sharing")
	}
}
