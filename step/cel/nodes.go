package cel

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// decorate replaces what cel-go plans for ==, != and in, which compare by the
// left operand's idea of equality, and for fields; it computes decimal constants
// once.
func decorate(n interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if attr, ok := n.(interpreter.InterpretableAttribute); ok {
		return decorateField(attr), nil
	}
	call, ok := n.(interpreter.InterpretableCall)
	if !ok {
		return n, nil
	}
	args := call.Args()
	switch call.Function() {
	case operators.Equals, operators.NotEquals:
		return &compare{call: call, l: args[0], r: args[1], op: equal, not: call.Function() == operators.NotEquals}, nil
	case operators.In:
		return &compare{call: call, l: args[0], r: args[1], op: memberOf(args[1])}, nil
	case "decimal":
		c, ok := args[0].(interpreter.InterpretableConst)
		if !ok {
			return n, nil
		}
		v := toDecimal(c.Value())
		if err, failed := v.(*types.Err); failed {
			return nil, &constError{id: call.ID(), err: err}
		}
		return interpreter.NewConstValue(call.ID(), v), nil
	}
	return n, nil
}

// constError is a constant that cannot be computed.
type constError struct {
	id  int64
	err error
}

func (e *constError) Error() string { return e.err.Error() }
func (e *constError) Unwrap() error { return e.err }

// compare is a test of two values.
type compare struct {
	call interpreter.InterpretableCall
	l, r interpreter.InterpretableV2
	op   func(l, r ref.Val) ref.Val
	not  bool
}

// ID implements interpreter.Interpretable.
func (c *compare) ID() int64 { return c.call.ID() }

// Exec implements interpreter.InterpretableV2.
func (c *compare) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	l := c.l.Exec(frame)
	if types.IsUnknownOrError(l) {
		return l
	}
	r := c.r.Exec(frame)
	if types.IsUnknownOrError(r) {
		return r
	}
	res := c.op(l, r)
	if b, ok := res.(types.Bool); ok && c.not {
		res = !b
	}
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.call.ID(), c.call, l, r, res)
	}
	return res
}

// Eval implements interpreter.Interpretable.
func (c *compare) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// memberOf is the in operator. A list of strings that never changes, as in
// status in ["a", "b"], becomes a set.
func memberOf(right interpreter.InterpretableV2) func(l, r ref.Val) ref.Val {
	c, ok := right.(interpreter.InterpretableConst)
	if !ok {
		return contains
	}
	list, ok := c.Value().(traits.Lister)
	if !ok {
		return contains
	}
	set := map[string]bool{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		s, ok := it.Next().(types.String)
		if !ok {
			return contains
		}
		set[string(s)] = true
	}
	return func(l, _ ref.Val) ref.Val {
		s, ok := l.(types.String)
		return types.Bool(ok && set[string(s)])
	}
}

func contains(l, r ref.Val) ref.Val {
	switch c := r.(type) {
	case traits.Mapper:
		_, found := c.Find(l)
		return types.Bool(found)
	case traits.Lister:
		for it := c.Iterator(); it.HasNext() == types.True; {
			if equal(l, it.Next()) == types.True {
				return types.True
			}
		}
		return types.False
	}
	return failure(CodeWrongType, "in needs a list or a map on its right, not a %s", typeName(r))
}
