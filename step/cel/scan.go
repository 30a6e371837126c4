package cel

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// scan walks a parsed expression before cel-go checks it. It finds out which
// fields and variables are read, reports unknown names, and rewrites two
// things: numbers with a fraction become decimals, and the ranges of
// comprehensions are put in order.
type scan struct {
	env  *Env
	info *ast.SourceInfo
	src  []rune
	next int64 // the highest id in use

	fields map[string]bool // top-level fields read, by whatever way
	bare   map[string]bool // those read by their plain name
	whole  bool            // value is read as a whole, or by a computed name
	epoch  bool
	costly bool // needs a cost limit
	err    *CompileError
}

// bound are the names that comprehensions around the place define.
type bound []string

func (b bound) has(name string) bool { return slices.Contains(b, name) }

func (s *scan) visit(e ast.Expr, b bound) {
	if s.err != nil {
		return
	}
	switch e.Kind() {
	case ast.IdentKind:
		s.ident(e, b)
	case ast.SelectKind:
		s.selection(e, b)
	case ast.CallKind:
		s.call(e, b)
	case ast.LiteralKind:
		s.literal(e)
	case ast.ListKind:
		s.all(e.AsList().Elements(), b)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			s.visit(entry.AsMapEntry().Key(), b)
			s.visit(entry.AsMapEntry().Value(), b)
		}
	case ast.StructKind:
		s.fail(e, fmt.Sprintf("there is no message type %s", e.AsStruct().TypeName()), `a map is written {"name": value}`)
	case ast.ComprehensionKind:
		s.comprehension(e, b)
	}
}

func (s *scan) all(es []ast.Expr, b bound) {
	for _, e := range es {
		s.visit(e, b)
	}
}

// typeNames are identifiers that stand for types, unless a field is declared
// under that name.
var typeNames = []string{"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"}

func (s *scan) ident(e ast.Expr, b bound) {
	name := strings.TrimPrefix(e.AsIdent(), ".")
	if b.has(name) || strings.HasPrefix(name, "@") {
		return
	}
	_, declared := s.env.opts.Fields[name]
	switch {
	case name == varKey || name == varHeaders:
	case name == varValue && !s.env.opts.Raw:
		s.whole = true
	case s.grouped(name):
		s.fail(e, name+" is not a value by itself", s.group(name))
	case slices.Contains(typeNames, name) && !declared:
	default:
		s.field(e, name, true)
	}
}

// grouped names stand before a dot only.
func (s *scan) grouped(name string) bool {
	return name == "source" || name == "epoch" || name == "each" && s.env.opts.Each
}

// group is the advice for those.
func (s *scan) group(name string) string {
	if name == "epoch" && !s.env.opts.Epoch {
		return "the epoch cannot be used here; a field of that name is value.epoch"
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(s.env.variables)) {
		if strings.HasPrefix(v, name+".") {
			parts = append(parts, v)
		}
	}
	hint := "there are " + strings.Join(parts, ", ")
	if !s.env.opts.Raw {
		hint += "; a field of that name is value." + name
	}
	return hint
}

// field notes that a top-level field is read, and by its plain name if bare.
func (s *scan) field(e ast.Expr, name string, bare bool) {
	if s.env.opts.Raw {
		s.fail(e, fmt.Sprintf("there is no field %s: with source.format raw, only key, headers and source can be used", name), "")
		return
	}
	if _, ok := s.env.opts.Fields[name]; !ok && s.env.opts.Fields != nil {
		names := slices.Collect(maps.Keys(s.env.opts.Fields))
		if bare {
			names = append(names, varKey, varHeaders, varValue)
		}
		s.fail(e, fmt.Sprintf("there is no field %s", name), didYouMean(name, names))
		return
	}
	note(&s.fields, name)
	if bare {
		note(&s.bare, name)
	}
}

func note(set *map[string]bool, name string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[name] = true
}

func (s *scan) selection(e ast.Expr, b bound) {
	sel := e.AsSelect()
	root := identName(sel.Operand(), b)
	switch {
	case s.grouped(root):
		full := root + "." + sel.FieldName()
		if _, ok := s.env.variables[full]; !ok || sel.IsTestOnly() {
			s.fail(e, fmt.Sprintf("there is no %s", full), s.group(root))
			return
		}
		s.epoch = s.epoch || root == "epoch"
	case root == varValue && !s.env.opts.Raw:
		s.field(e, sel.FieldName(), false)
	default:
		s.visit(sel.Operand(), b)
	}
}

// identName is the name of an identifier that no comprehension defines, or "".
func identName(e ast.Expr, b bound) string {
	if e.Kind() != ast.IdentKind {
		return ""
	}
	name := strings.TrimPrefix(e.AsIdent(), ".")
	if b.has(name) {
		return ""
	}
	return name
}

// cheap are the calls whose work is bounded by the size of the expression and
// of the record. Everything else runs under the cost limit.
var cheap = map[string]bool{
	operators.Conditional: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true, operators.Index: true, operators.OptIndex: true,
	operators.OptSelect: true, operators.Negate: true,
	"size": true, "contains": true, "startsWith": true, "endsWith": true, "string": true, "int": true, "uint": true,
	"double": true, "decimal": true, "bytes": true, "timestamp": true, "duration": true, "dyn": true, "type": true,
	"round": true, "lowerAscii": true, "upperAscii": true, "trim": true, "substring": true, "orValue": true, "or": true,
	"hasValue": true, "value": true, "optional.of": true, "optional.none": true, "bool": true,
	"base64.encode": true, "base64.decode": true,
}

func (s *scan) call(e ast.Expr, b bound) {
	c := e.AsCall()
	name := c.FunctionName()
	if c.IsMemberFunction() {
		if full := qualified(c.Target(), name); full != "" && s.env.functions[full] {
			name = full
		} else {
			s.visit(c.Target(), b)
		}
	}
	_, isArith := arithOps[name]
	_, isOrder := orderOps[name]
	s.costly = s.costly || !cheap[name] && !isArith && !isOrder
	if !s.env.functions[name] && !strings.ContainsAny(name, "_@") {
		s.fail(e, fmt.Sprintf("there is no function %s", name), didYouMean(name, s.functionNames()))
		if s.err != nil && !c.IsMemberFunction() { // cel-go points to the parenthesis
			s.err.Col = max(1, s.err.Col-len(name))
		}
		return
	}
	if name == overloads.Matches {
		s.pattern(c.Args())
	}
	if field, ok := s.constantKey(c, b); ok {
		s.field(e, field, false)
		return
	}
	s.all(c.Args(), b)
	if s.err != nil {
		return
	}
	switch name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		s.conditions(c.Args())
	case operators.Conditional:
		s.conditions(c.Args()[:1])
	}
}

// pattern checks a regular expression that is written out.
func (s *scan) pattern(args []ast.Expr) {
	last := args[len(args)-1]
	if last.Kind() != ast.LiteralKind {
		return
	}
	if p, ok := last.AsLiteral().(types.String); ok {
		if _, err := regexp.Compile(string(p)); err != nil {
			s.fail(last, err.Error(), "")
		}
	}
}

// constantKey is the field that value["name"], value[?"name"] or value.?name
// reads.
func (s *scan) constantKey(c ast.CallExpr, b bound) (string, bool) {
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
	default:
		return "", false
	}
	if len(c.Args()) != 2 || identName(c.Args()[0], b) != varValue || s.env.opts.Raw || c.Args()[1].Kind() != ast.LiteralKind {
		return "", false
	}
	name, ok := c.Args()[1].AsLiteral().(types.String)
	return string(name), ok
}

func (s *scan) functionNames() []string {
	var names []string
	for name := range s.env.functions {
		if !strings.ContainsAny(name, "_@!-") {
			names = append(names, name)
		}
	}
	return append(names, "has", "all", "exists", "exists_one", "map", "filter")
}

// qualified is the name of a function with a prefix, such as base64.encode.
func qualified(target ast.Expr, name string) string {
	switch target.Kind() {
	case ast.IdentKind:
		return strings.TrimPrefix(target.AsIdent(), ".") + "." + name
	case ast.SelectKind:
		if sel := target.AsSelect(); !sel.IsTestOnly() {
			return qualified(sel.Operand(), sel.FieldName()+"."+name)
		}
	}
	return ""
}

func (s *scan) comprehension(e ast.Expr, b bound) {
	s.costly = true
	c := e.AsComprehension()
	s.visit(c.IterRange(), b)
	s.visit(c.AccuInit(), b)
	accu := append(slices.Clone(b), c.AccuVar())
	s.visit(c.Result(), accu)
	inner := append(slices.Clone(accu), c.IterVar())
	if c.HasIterVar2() {
		inner = append(inner, c.IterVar2())
	}
	s.visit(c.LoopCondition(), inner)
	s.visit(c.LoopStep(), inner)
	if s.err == nil {
		s.orderRange(e)
	}
}

func (s *scan) fail(e ast.Expr, msg, suggestion string) {
	if s.err == nil {
		s.err = s.errorAt(e.ID(), msg, suggestion)
	}
}

func (s *scan) errorAt(id int64, msg, suggestion string) *CompileError {
	loc := s.info.GetStartLocation(id)
	return &CompileError{Line: max(loc.Line(), 1), Col: max(loc.Column(), 0) + 1, Msg: msg, Suggestion: suggestion}
}
