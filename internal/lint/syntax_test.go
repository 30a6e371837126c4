package lint

import (
	"go/ast"
	"go/token"
	"strings"
)

// call finds calls of a function of a package under its own name.
func call(pkg, name string) func(*file) []string {
	return func(f *file) (found []string) {
		each(f, func(c *ast.CallExpr) {
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == name && isIdent(s.X, pkg) {
				found = append(found, f.at(c.Pos()))
			}
		})
		return found
	}
}

// skips finds the skip methods of package testing. Skip alone is a usual name,
// so there the usual names of the receiver decide.
func skips(f *file) (found []string) {
	each(f, func(c *ast.CallExpr) {
		s, ok := c.Fun.(*ast.SelectorExpr)
		if !ok {
			return
		}
		known := isIdent(s.X, "t") || isIdent(s.X, "b") || isIdent(s.X, "f") || isIdent(s.X, "tb")
		if s.Sel.Name == "SkipNow" || s.Sel.Name == "Skipf" || s.Sel.Name == "Skip" && known {
			found = append(found, f.at(c.Pos()))
		}
	})
	return found
}

// errorText finds calls that look into the text of an error, and comparisons.
func errorText(f *file) (found []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !(isIdent(s.X, "strings") || strings.HasPrefix(s.Sel.Name, "Match") || strings.HasPrefix(s.Sel.Name, "Find")) {
				return true
			}
			for _, arg := range n.Args {
				if isErrorCall(arg) {
					found = append(found, f.at(n.Pos()))
				}
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isErrorCall(n.X) && isText(n.Y) || isText(n.X) && isErrorCall(n.Y)) {
				found = append(found, f.at(n.Pos()))
			}
		}
		return true
	})
	return found
}

// isErrorCall reports whether x is "….Error()".
func isErrorCall(x ast.Expr) bool {
	c, ok := x.(*ast.CallExpr)
	if !ok || len(c.Args) > 0 {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Error"
}

// isText reports whether x is a text to compare with: a literal that is not
// empty, or the text of another error.
func isText(x ast.Expr) bool {
	lit, ok := x.(*ast.BasicLit)
	return ok && len(lit.Value) > len(`""`) || isErrorCall(x)
}

// contexts finds contexts in structs, and in a parameter that is not the first.
func contexts(f *file) (found []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			for i, p := range n.Params.List {
				if i > 0 && isContext(p.Type) {
					found = append(found, f.at(p.Pos()))
				}
			}
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if isContext(field.Type) {
					found = append(found, f.at(field.Pos()))
				}
			}
		}
		return true
	})
	return found
}

func isContext(x ast.Expr) bool {
	s, ok := x.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Context" && isIdent(s.X, "context")
}

// usual are methods that mean the same everywhere.
func usual(method string) bool {
	switch method {
	case "Error", "Unwrap", "Is", "As", "String":
		return true
	}
	return false
}

// undocumented finds exported names without a comment. The comment of a group
// counts for all of its constants or variables, and so does that of their type
// if it stands in the same file. Methods of interfaces and fields are left to
// the eye of the reader.
func undocumented(f *file) (found []string) {
	if f.ast.Name.Name == "main" {
		return nil
	}
	types := documentedTypes(f)
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			public := d.Recv == nil || ast.IsExported(receiver(d)) && !usual(d.Name.Name)
			if d.Name.IsExported() && d.Doc == nil && public {
				found = append(found, f.at(d.Pos())+": "+d.Name.Name)
			}
		case *ast.GenDecl:
			typ := "" // of constants that repeat the one above (iota)
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					typ = repeated(v, typ)
				}
				if id := undocumentedName(s); id != nil && d.Doc == nil && !types[typ] {
					found = append(found, f.at(id.Pos())+": "+id.Name)
				}
			}
		}
	}
	return found
}

// documentedTypes are the types of a file that have a comment.
func documentedTypes(f *file) map[string]bool {
	types := map[string]bool{}
	for _, d := range f.ast.Decls {
		if d, ok := d.(*ast.GenDecl); ok {
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && (d.Doc != nil || s.Doc != nil) {
					types[s.Name.Name] = true
				}
			}
		}
	}
	return types
}

// repeated is the name of the type of a constant: a constant without a value
// has that of the one above.
func repeated(s *ast.ValueSpec, above string) string {
	if id, ok := s.Type.(*ast.Ident); ok {
		return id.Name
	}
	if s.Type == nil && s.Values == nil {
		return above
	}
	return ""
}

// undocumentedName is an exported name of s if s has no comment of its own.
func undocumentedName(s ast.Spec) *ast.Ident {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() && s.Doc == nil && s.Comment == nil {
				return id
			}
		}
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
			return s.Name
		}
	}
	return nil
}

// receiver is the name of the type of a method.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func isIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// each calls do for every call expression of f.
func each(f *file, do func(*ast.CallExpr)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			do(c)
		}
		return true
	})
}
