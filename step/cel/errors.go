package cel

import (
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Codes of errors that one record causes, as a dead letter carries them.
const (
	CodeNotJSON      = "not_json"      // the value is not strict JSON in UTF-8
	CodeDuplicateKey = "duplicate_key" // an object names a field twice
	CodeEmptyValue   = "empty_value"   // the value has no bytes
	CodeWrongType    = "wrong_type"    // a value is of another type than the expression needs
	CodeIntegerRange = "integer_range" // an integer does not fit into 64 bits
	CodeExpression   = "expression"    // anything else: a missing field, a division by zero, …
)

// EvalError is why an expression, or the JSON under it, failed on a record.
type EvalError struct {
	Code string // one of the Code constants
	Err  error
}

func (e *EvalError) Error() string { return e.Err.Error() }
func (e *EvalError) Unwrap() error { return e.Err }

func evalErrorf(code, format string, args ...any) *EvalError {
	return &EvalError{Code: code, Err: fmt.Errorf(format, args...)}
}

// failure is an EvalError as a value of an expression.
func failure(code, format string, args ...any) ref.Val {
	return types.WrapErr(evalErrorf(code, format, args...))
}

// CompileError is what is wrong with an expression, and where.
type CompileError struct {
	Line, Col  int    // inside the expression, from 1; columns count code points
	Msg        string // what is wrong
	Suggestion string // the remedy, empty if none is known
}

func (e *CompileError) Error() string {
	s := fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Msg)
	if e.Suggestion != "" {
		s += "; " + e.Suggestion
	}
	return s
}
