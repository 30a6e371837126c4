package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"exactly/sink"
	"exactly/step/cel"
)

// expr is a compiled expression that knows which setting it is.
type expr struct {
	setting string
	x       *cel.Expr
}

// exprs are the compiled expressions; nil where none is set.
type exprs struct {
	topic, key, value, timestamp *expr
	headers                      []headerExpr
}

type headerExpr struct {
	name string
	expr *expr
}

// compile checks every expression. Its errors name the setting.
func compile(c *Config, env *cel.Env) (exprs, error) {
	if env == nil {
		var err error
		if env, err = cel.NewEnv(cel.Options{}); err != nil {
			return exprs{}, err
		}
	}
	var out exprs
	for _, w := range []struct {
		setting, src string
		want         cel.Type
		to           **expr
	}{
		{"topic_expr", c.TopicExpr, cel.TypeString, &out.topic},
		{"key", c.Key, cel.TypeAny, &out.key},
		{"value", c.Value, cel.TypeAny, &out.value},
		{"timestamp", c.Timestamp, cel.TypeAny, &out.timestamp},
	} {
		if w.src == "" {
			continue
		}
		var err error
		if *w.to, err = compileOne(env, w.setting, w.src, w.want); err != nil {
			return exprs{}, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		x, err := compileOne(env, "headers."+name, c.Headers[name], cel.TypeAny)
		if err != nil {
			return exprs{}, err
		}
		out.headers = append(out.headers, headerExpr{name, x})
	}
	return out, nil
}

func compileOne(env *cel.Env, setting, src string, want cel.Type) (*expr, error) {
	x, err := env.Compile(src, want)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if x.UsesEpoch() {
		return nil, fmt.Errorf("%s: epoch cannot be used here; put it into a field with a set step and use that", setting)
	}
	return &expr{setting, x}, nil
}

// any evaluates; nil stands for null and for nothing.
func (e *expr) any(v *cel.Vars) (ref.Val, error) {
	val, ok, err := e.x.Any(v)
	switch {
	case err != nil:
		return nil, e.poison(err)
	case !ok || val == types.NullValue:
		return nil, nil
	}
	return val, nil
}

// poison words the failure of an expression on one record.
func (e *expr) poison(err error) error {
	code := cel.CodeExpression
	var ee *cel.EvalError
	if errors.As(err, &ee) {
		code = ee.Code
	}
	return sink.Poison(code, fmt.Errorf("%s: %w", e.setting, err))
}

func (e *expr) wrong(got ref.Val, want string) error {
	return sink.Poison(cel.CodeWrongType, fmt.Errorf("%s: gives a %s, where %s is needed", e.setting, got.Type().TypeName(), want))
}

// text evaluates to bytes: a string's and bytes' own, numbers and bools in
// their notation. nil stands for null. The result may be a part of the record.
func (e *expr) text(v *cel.Vars) ([]byte, error) {
	if s, ok := e.x.Text(v); ok {
		return s, nil
	}
	val, err := e.any(v)
	if err != nil || val == nil {
		return nil, err
	}
	switch val := val.(type) {
	case types.String:
		return []byte(val), nil
	case types.Bytes:
		return append([]byte{}, val...), nil
	case types.Int:
		return strconv.AppendInt(nil, int64(val), 10), nil
	case types.Uint:
		return strconv.AppendUint(nil, uint64(val), 10), nil
	case types.Bool:
		return strconv.AppendBool(nil, bool(val)), nil
	case *cel.Decimal:
		return []byte(val.String()), nil
	}
	return nil, e.wrong(val, "a string, bytes, number or bool")
}

// bytes evaluates to a message's value: a string and bytes as they are, the
// rest as JSON. Null is an error: it would make the message a delete.
func (e *expr) bytes(v *cel.Vars) ([]byte, error) {
	val, err := e.any(v)
	if err != nil {
		return nil, err
	}
	switch val := val.(type) {
	case nil:
		return nil, e.wrong(types.NullValue, "a value")
	case types.String:
		return []byte(val), nil
	case types.Bytes:
		return append([]byte{}, val...), nil
	}
	out, err := cel.AppendJSON(nil, val)
	if err != nil {
		return nil, e.poison(err)
	}
	return out, nil
}

// millis evaluates to Unix milliseconds.
func (e *expr) millis(v *cel.Vars) (int64, error) {
	val, err := e.any(v)
	if err != nil {
		return 0, err
	}
	ms := int64(-1)
	switch val := val.(type) {
	case nil:
		return 0, e.wrong(types.NullValue, "a time")
	case types.Timestamp:
		ms = val.UnixMilli()
	case types.Int:
		ms = int64(val)
	default:
		return 0, e.wrong(val, "a time, or Unix milliseconds as an int,")
	}
	if ms < 0 { // Kafka takes -1 for "none" and refuses the rest
		return 0, sink.Poison(cel.CodeWrongType, fmt.Errorf("%s: %d is before 1970, which Kafka has no timestamp for", e.setting, ms))
	}
	return ms, nil
}
