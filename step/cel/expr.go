package cel

import (
	"errors"
	"slices"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"exactly/record"
)

// Expr is a compiled expression. It is safe for concurrent use, with a Vars
// per goroutine.
type Expr struct {
	src    string
	prog   celgo.Program
	types  map[string]Type
	result Type
	want   Type
	fields []string
	whole  bool
	epoch  bool
	costly bool   // runs under the cost limit
	plain  string // see Text; "": it is something else

	checked bool // see Options
}

// String gives the source text.
func (x *Expr) String() string { return x.src }

// UsesEpoch reports whether the result may depend on the epoch variables
// directly.
func (x *Expr) UsesEpoch() bool { return x.epoch }

// Fields lists the top-level fields that the expression may read by name,
// sorted. See also UsesValue.
func (x *Expr) Fields() []string { return slices.Clone(x.fields) }

// UsesValue reports whether the expression may read any field: it uses value as
// a whole or with a computed name.
func (x *Expr) UsesValue() bool { return x.whole }

// Type is the type of the result as far as it is known, else TypeAny.
func (x *Expr) Type() Type { return x.result }

// Any evaluates. An optional is unwrapped; ok is false if it is absent. The
// result may refer to v and the record, and is good until v is reset or its
// document edited. Errors of this and the other evaluations are *EvalError.
func (x *Expr) Any(v *Vars) (res ref.Val, ok bool, err error) {
	v.types = x.types
	vars, err := v.activation(x.costly)
	if err != nil {
		return nil, false, evalError(err)
	}
	res, _, err = x.prog.Eval(vars)
	if err != nil {
		return nil, false, evalError(err)
	}
	for {
		opt, isOpt := res.(*types.Optional)
		if !isOpt {
			return res, true, nil
		}
		if !opt.HasValue() {
			return nil, false, nil
		}
		res = opt.GetValue()
	}
}

func evalError(err error) error {
	var ee *EvalError
	if errors.As(err, &ee) {
		return ee
	}
	var stopped interpreter.EvalCancelledError
	if errors.As(err, &stopped) && stopped.Cause == interpreter.CostLimitExceeded {
		return &EvalError{Code: CodeExpression, Err: errors.New("the expression does too much work on this record")}
	}
	return &EvalError{Code: CodeExpression, Err: err}
}

// present is Any for results that must be there.
func (x *Expr) present(v *Vars) (ref.Val, error) {
	res, ok, err := x.Any(v)
	if err == nil && !ok {
		err = evalErrorf(CodeWrongType, "the expression gives nothing, where a %s is needed", x.want)
	}
	return res, err
}

func (x *Expr) mismatch(want Type, got ref.Val) error {
	return evalErrorf(CodeWrongType, "the expression gives a %s, where a %s is needed", typeName(got), want)
}

// Bool evaluates to a bool.
func (x *Expr) Bool(v *Vars) (bool, error) {
	res, err := x.present(v)
	if err != nil {
		return false, err
	}
	if b, ok := res.(types.Bool); ok {
		return bool(b), nil
	}
	return false, x.mismatch(TypeBool, res)
}

// StringValue evaluates to a string.
func (x *Expr) StringValue(v *Vars) (string, error) {
	res, err := x.present(v)
	if err != nil {
		return "", err
	}
	if s, ok := res.(types.String); ok {
		return string(s), nil
	}
	return "", x.mismatch(TypeString, res)
}

// Int evaluates to an int. A uint that fits will do.
func (x *Expr) Int(v *Vars) (int64, error) {
	res, err := x.present(v)
	if err != nil {
		return 0, err
	}
	switch n := res.(type) {
	case types.Int:
		return int64(n), nil
	case types.Uint:
		if i := int64(n); i >= 0 {
			return i, nil
		}
		return 0, evalErrorf(CodeIntegerRange, "%d does not fit into an int (64 bit)", uint64(n))
	}
	return 0, x.mismatch(TypeInt, res)
}

// Bytes evaluates to bytes; a string gives its UTF-8. The caller owns the
// result.
func (x *Expr) Bytes(v *Vars) ([]byte, error) {
	res, err := x.present(v)
	if err != nil {
		return nil, err
	}
	switch b := res.(type) {
	case types.Bytes:
		return slices.Clone(b), nil
	case types.String:
		return []byte(b), nil
	}
	return nil, x.mismatch(TypeBytes, res)
}

// List evaluates to a list and gives its elements as JSON. Elements of the
// record are parts of its bytes and keep them exactly: never write to them.
func (x *Expr) List(v *Vars) ([][]byte, error) {
	res, err := x.present(v)
	if err != nil {
		return nil, err
	}
	list, ok := res.(traits.Lister)
	if !ok {
		return nil, x.mismatch(TypeList, res)
	}
	var elems [][]byte
	if a, ok := res.(*array); ok {
		for e := range record.Elements(a.raw) {
			elems = append(elems, e)
		}
		return elems, nil
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		b, err := AppendJSON(nil, it.Next())
		if err != nil {
			return nil, evalError(err)
		}
		elems = append(elems, b)
	}
	return elems, nil
}

// AppendJSON evaluates and appends the result as JSON to dst. ok is false, and
// nothing appended, if the result is an absent optional.
func (x *Expr) AppendJSON(dst []byte, v *Vars) (_ []byte, ok bool, err error) {
	res, ok, err := x.Any(v)
	if err != nil || !ok {
		return dst, false, err
	}
	out, err := AppendJSON(dst, res)
	if err != nil {
		return dst, false, evalError(err)
	}
	return out, true, nil
}
