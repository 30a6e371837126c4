package cel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Options say what expressions may see.
type Options struct {
	// Fields are the declared fields of the record. nil: not declared, every
	// name is a field of any type. Otherwise other names are errors, and the
	// declared types are checked when expressions are compiled and when they
	// read a field.
	Fields map[string]Type
	Raw    bool // the value is not JSON: no fields and no value
	Epoch  bool // the epoch variables may be used
	Each   bool // the expression is of one element of a list, see Vars.SetItem: each.item and each.index may be used
	// Checked says that every value is known to be a JSON object, as the steps
	// leave it: what only names a field then reads no further than to there.
	Checked bool
	// CostLimit bounds the work of one evaluation, in operations. 0: 1 million, about a tenth of a second.
	CostLimit uint64
}

const defaultCostLimit = 1_000_000

// Env compiles expressions. It is safe for concurrent use.
type Env struct {
	opts      Options
	env       *celgo.Env
	variables map[string]*celgo.Type
	functions map[string]bool
}

// NewEnv makes an environment. It takes milliseconds: make few.
func NewEnv(o Options) (*Env, error) {
	if o.CostLimit == 0 {
		o.CostLimit = defaultCostLimit
	}
	for name, t := range o.Fields {
		if _, ok := celTypes[t]; !ok {
			return nil, fmt.Errorf("declare field %s: unknown type %q", name, t)
		}
	}
	e := &Env{opts: o, variables: variables(), functions: map[string]bool{}}
	if o.Epoch {
		maps.Copy(e.variables, epochVariables())
	}
	if o.Each {
		maps.Copy(e.variables, eachVariables())
	}
	if o.Raw {
		delete(e.variables, varValue)
	}
	opts := library()
	for name, t := range e.variables {
		opts = append(opts, celgo.Variable(name, t))
	}
	env, err := celgo.NewCustomEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("set up the expression language: %w", err)
	}
	e.env = env
	for name := range env.Functions() {
		e.functions[name] = true
	}
	return e, nil
}

// WithFields is e with other declared fields; nil: not declared.
func (e *Env) WithFields(fields map[string]Type) *Env {
	other := *e
	other.opts.Fields = fields
	return &other
}

// WithEach is e with the variables of an element, see Options.
func (e *Env) WithEach() (*Env, error) {
	o := e.opts
	o.Each = true
	return NewEnv(o)
}

// Compile checks an expression and makes it ready to run. want is the type that
// it must have; what is known only from a record is checked there. The error is
// a *CompileError.
func (e *Env) Compile(src string, want Type) (*Expr, error) {
	if strings.TrimSpace(src) == "" {
		return nil, &CompileError{Line: 1, Col: 1, Msg: "the expression is empty"}
	}
	parsed, issues := e.env.Parse(src)
	if issues.Err() != nil {
		return nil, issueError(issues, src)
	}
	s := &scan{env: e, info: parsed.NativeRep().SourceInfo(), src: []rune(src), next: ast.MaxID(parsed.NativeRep())}
	s.visit(parsed.NativeRep().Expr(), nil)
	if s.err != nil {
		return nil, s.err
	}
	env, err := e.env.Extend(s.declarations()...)
	if err != nil {
		return nil, &CompileError{Line: 1, Col: 1, Msg: err.Error()}
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, issueError(issues, src)
	}
	if err := s.checkEqualities(checked.NativeRep()); err != nil {
		return nil, err
	}
	if err := checkResult(checked.OutputType(), want); err != nil {
		return nil, err
	}
	opts := []celgo.ProgramOption{celgo.CustomDecoratorV2(decorate), celgo.EvalOptions(celgo.OptOptimize)}
	if s.costly {
		opts = append(opts, celgo.CostTracking(costs{}), celgo.CostLimit(e.opts.CostLimit))
	}
	prog, err := env.Program(checked, opts...)
	if err != nil {
		return nil, s.planError(err)
	}
	return &Expr{
		src: src, prog: prog, types: e.opts.Fields, result: typeOf(checked.OutputType()), want: want,
		fields: slices.Sorted(maps.Keys(s.fields)), whole: s.whole, epoch: s.epoch, costly: s.costly,
		plain: s.plainField(parsed.NativeRep().Expr()), checked: e.opts.Checked,
	}, nil
}

// declarations are those of the fields that the expression reads by name.
func (s *scan) declarations() []celgo.EnvOption {
	var opts []celgo.EnvOption
	for name := range s.bare {
		t := celgo.DynType
		if d, ok := s.env.opts.Fields[name]; ok {
			t = celTypes[d]
		}
		opts = append(opts, celgo.Variable(name, t))
	}
	return opts
}

// checkResult compares the type of an expression with the wanted one, where
// both are known.
func checkResult(out *celgo.Type, want Type) error {
	got := typeOf(out)
	null := out.Kind() == types.NullTypeKind
	switch {
	case want == TypeAny || got == want:
		return nil
	case got == TypeAny && !null && out.Kind() != types.DurationKind:
		return nil
	case want == TypeBytes && got == TypeString, want == TypeInt && got == TypeUint:
		return nil
	}
	err := &CompileError{Line: 1, Col: 1, Msg: fmt.Sprintf("the expression must give %s, but gives %s", want, celgo.FormatCELType(out))}
	switch {
	case want == TypeString && got != TypeList && got != TypeMap && !null:
		err.Suggestion = "string(…) makes it one"
	case want == TypeInt && (got == TypeString || got == TypeDecimal):
		err.Suggestion = "int(…) makes it one"
	case want == TypeBool && (got == TypeInt || got == TypeDecimal):
		err.Suggestion = "compare it with something, as in x > 0"
	}
	return err
}

// operatorNames are the operators as people write them.
var operatorNames = strings.NewReplacer(
	"'"+operators.Conditional+"'", "? :", "'"+operators.Index+"'", "[ ]",
	"'_+_'", "+", "'_-_'", "-", "'_*_'", "*", "'_/_'", "/", "'_%_'", "%", "'-_'", "-",
	"'_==_'", "==", "'_!=_'", "!=", "'_<_'", "<", "'_<=_'", "<=", "'_>_'", ">", "'_>=_'", ">=",
	"'_&&_'", "&&", "'_||_'", "||", "'!_'", "!", "'@in'", "in", "'@condition'", "a condition", " (in container '')", "",
)

// issueError turns the first of cel-go's complaints into ours.
func issueError(issues *celgo.Issues, src string) error {
	first := issues.Errors()[0]
	err := &CompileError{Line: first.Location.Line(), Col: first.Location.Column() + 1, Msg: operatorNames.Replace(first.Message)}
	if err.Line < 1 || err.Col < 1 {
		err.Line, err.Col = 1, 1
	}
	if strings.Contains(first.Message, "'<EOF>'") {
		err.Msg = "the expression ends too early"
	}
	if word := wordAt(src, err.Line, err.Col); reserved[word] {
		err.Suggestion = fmt.Sprintf("%s is a reserved word; a field of that name is value[%q]", word, word)
	}
	return err
}

// reserved are the words that CEL keeps for itself.
var reserved = map[string]bool{
	"as": true, "break": true, "const": true, "continue": true, "else": true, "for": true, "function": true,
	"if": true, "import": true, "let": true, "loop": true, "package": true, "namespace": true, "return": true,
	"var": true, "void": true, "while": true,
}

// wordAt is the identifier that starts at a place, or that ends before it.
func wordAt(src string, line, col int) string {
	lines := strings.Split(src, "\n")
	if line > len(lines) {
		return ""
	}
	r := []rune(lines[line-1])
	from := min(col-1, len(r))
	letter := func(c rune) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	to := from
	for to < len(r) && letter(r[to]) {
		to++
	}
	return string(r[from:to])
}

// planError is what is wrong with a constant, such as decimal("x").
func (s *scan) planError(err error) error {
	var at *constError
	if errors.As(err, &at) {
		return s.errorAt(at.id, at.err.Error(), "")
	}
	var failed *types.Err
	if errors.As(err, &failed) && failed.NodeID() != 0 {
		return s.errorAt(failed.NodeID(), failed.Error(), "")
	}
	return &CompileError{Line: 1, Col: 1, Msg: err.Error()}
}
