package cel

import (
	"bytes"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"exactly/record"
)

// fieldNode reads a field of the record by its plain name, without cel-go's
// way through candidate names and adapters, which costs more than the decoding.
// Whatever is not that simple goes the long way.
type fieldNode struct {
	interpreter.InterpretableAttribute
	attr interpreter.NamespacedAttribute
	name string
}

// decorateField gives n back if it is no field.
func decorateField(n interpreter.InterpretableAttribute) interpreter.InterpretableV2 {
	attr, ok := n.Attr().(interpreter.NamespacedAttribute)
	if !ok || len(attr.CandidateVariableNames()) != 1 || len(attr.Qualifiers()) > 0 {
		return n
	}
	name := attr.CandidateVariableNames()[0]
	if isVariable(name) {
		return n
	}
	return &fieldNode{InterpretableAttribute: n, attr: attr, name: name}
}

// isVariable reports whether a name means something else than a field.
func isVariable(name string) bool {
	if _, ok := variables()[name]; ok {
		return true
	}
	if _, ok := epochVariables()[name]; ok {
		return true
	}
	_, ok := eachVariables()[name]
	return ok
}

// Exec implements interpreter.InterpretableV2. Inside of a comprehension, whose
// variables may hide the field, the scope is another; qualifiers are added after
// the node was made.
func (f *fieldNode) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v, ok := frame.Scope().(*Vars)
	if !ok || frame.CostTracker() != nil || len(f.attr.Qualifiers()) > 0 {
		return f.InterpretableAttribute.Exec(frame)
	}
	if _, err := v.Doc(); err != nil {
		return f.InterpretableAttribute.Exec(frame)
	}
	val, ok := v.field(f.name)
	if !ok || types.IsError(val) {
		return f.InterpretableAttribute.Exec(frame) // puts the place to it
	}
	return val
}

// Eval implements interpreter.Interpretable.
func (f *fieldNode) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, f.Exec)
}

// plainField is the name of the field if that is all that the expression is,
// and if it may hold any string.
func (s *scan) plainField(e ast.Expr) string {
	if e.Kind() != ast.IdentKind {
		return ""
	}
	name := e.AsIdent()
	if !s.bare[name] {
		return ""
	}
	if t, declared := s.env.opts.Fields[name]; declared && t != TypeAny && t != TypeString {
		return ""
	}
	return name
}

// Text gives the string that the expression is, as a part of the record's
// bytes, if it is nothing but the name of a field that holds a string without
// escapes. false says only that it has to be evaluated.
func (x *Expr) Text(v *Vars) ([]byte, bool) {
	if x.plain == "" {
		return nil, false
	}
	raw, ok := x.raw(v)
	if !ok || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return nil, false
	}
	return raw[1 : len(raw)-1 : len(raw)-1], true
}

// raw gives the field that the expression names, as JSON.
func (x *Expr) raw(v *Vars) ([]byte, bool) {
	if r := v.rec; x.checked && !v.parsed && r != nil && len(r.Value) > 0 {
		return record.Lookup(r.Value, x.plain)
	}
	doc, err := v.Doc()
	if err != nil {
		return nil, false
	}
	i := doc.Find(x.plain)
	if i < 0 {
		return nil, false
	}
	return doc.Value(i), true
}
