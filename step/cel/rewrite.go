package cel

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// What is here changes parsed expressions, and checks what cel-go's checker
// leaves open because of it.

var fraction = regexp.MustCompile(`^-?[0-9]*(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// literal makes 0.029 the decimal that is written there.
func (s *scan) literal(e ast.Expr) {
	d, ok := e.AsLiteral().(types.Double)
	if !ok {
		return
	}
	text := strconv.FormatFloat(float64(d), 'g', -1, 64)
	if r, ok := s.info.GetOffsetRange(e.ID()); ok && r.Start >= 0 && int(r.Stop) <= len(s.src) && r.Start < r.Stop {
		if t := string(s.src[r.Start:r.Stop]); fraction.MatchString(t) {
			text = t
		}
	}
	f := ast.NewExprFactory()
	e.SetKindCase(f.NewCall(e.ID(), "decimal", f.NewLiteral(s.newID(e), types.String(text))))
}

// orderRange has the range of a comprehension walked in a fixed order.
func (s *scan) orderRange(e ast.Expr) {
	c := e.AsComprehension()
	if c.IterRange().Kind() == ast.ListKind {
		return
	}
	f := ast.NewExprFactory()
	rng := f.NewCall(s.newID(c.IterRange()), orderedFunc, f.CopyExpr(c.IterRange()))
	e.SetKindCase(f.NewComprehensionTwoVar(e.ID(), rng, c.IterVar(), c.IterVar2(), c.AccuVar(),
		c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()))
}

// conditions has operands that are read from the record checked to be bools, so
// that their errors carry a code.
func (s *scan) conditions(args []ast.Expr) {
	f := ast.NewExprFactory()
	for _, a := range args {
		switch {
		case a.Kind() == ast.IdentKind && !strings.HasPrefix(a.AsIdent(), "@"):
		case a.Kind() == ast.SelectKind && !a.AsSelect().IsTestOnly():
		case a.Kind() == ast.CallKind && a.AsCall().FunctionName() == operators.Index:
		default:
			continue
		}
		inner := f.NewUnspecifiedExpr(s.newID(a))
		inner.SetKindCase(f.CopyExpr(a))
		a.SetKindCase(f.NewCall(a.ID(), conditionFunc, inner))
	}
}

// newID gives an id for a made-up part of the expression, at the place of one
// that was written.
func (s *scan) newID(at ast.Expr) int64 {
	s.next++
	if r, ok := s.info.GetOffsetRange(at.ID()); ok {
		s.info.SetOffsetRange(s.next, r)
	}
	return s.next
}

// checkEqualities finds comparisons of types that can never be equal.
func (s *scan) checkEqualities(checked *ast.AST) error {
	ast.PostOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		c := e.AsCall()
		name := c.FunctionName()
		if name != operators.Equals && name != operators.NotEquals && name != operators.In {
			return
		}
		l, r := checked.GetType(c.Args()[0].ID()), checked.GetType(c.Args()[1].ID())
		if name == operators.In {
			if len(r.Parameters()) == 0 {
				return
			}
			r = r.Parameters()[0]
		}
		if !comparable(l, r) {
			s.fail(e, fmt.Sprintf("a %s never equals a %s", celgo.FormatCELType(l), celgo.FormatCELType(r)), "")
		}
	}))
	if s.err != nil {
		return s.err
	}
	return nil
}

func comparable(l, r *types.Type) bool {
	exact := func(t *types.Type) bool {
		n := typeOf(t)
		return n == TypeInt || n == TypeUint || n == TypeDecimal
	}
	null := l.Kind() == types.NullTypeKind || r.Kind() == types.NullTypeKind
	return null || exact(l) && exact(r) || l.IsAssignableType(r) || r.IsAssignableType(l) ||
		l.Kind() == types.TypeParamKind || r.Kind() == types.TypeParamKind
}
