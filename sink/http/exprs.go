package httpsink

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"cel.dev/cel-go/common/types"

	"exactly/sink"
	"exactly/step/cel"
)

// Deps is what the sink is given beside its settings.
type Deps struct {
	Log *slog.Logger // nil: the owner's, else slog.Default
	Env *cel.Env     // that expressions are compiled in; nil: one without declared fields
}

// textExpr computes a text from a record.
type textExpr func(*cel.Vars) (string, error)

// exprs are the compiled expressions; nil where none is set.
type exprs struct {
	key, path, deletePath textExpr
	headers               []headerExpr
}

type headerExpr struct {
	name  string
	value textExpr
}

// compile checks every expression. Its errors name the setting.
func compile(c *Config, d Deps) (exprs, error) {
	env := d.Env
	if env == nil {
		var err error
		if env, err = cel.NewEnv(cel.Options{}); err != nil {
			return exprs{}, err
		}
	}
	var out exprs
	deletePath := ""
	if c.Delete != nil {
		if deletePath = c.Delete.Path; deletePath == "" {
			return exprs{}, errors.New("delete.path: is required")
		}
	}
	for _, w := range []struct {
		setting, src string
		to           *textExpr
	}{
		{"idempotency_key", c.IdempotencyKey, &out.key},
		{"path", c.Path, &out.path},
		{"delete.path", deletePath, &out.deletePath},
	} {
		if w.src == "" {
			continue
		}
		var err error
		if *w.to, err = compileText(env, w.setting, w.src); err != nil {
			return exprs{}, err
		}
	}
	for _, name := range sortedKeys(c.HeaderExprs) {
		value, err := compileText(env, "header_exprs."+name, c.HeaderExprs[name])
		if err != nil {
			return exprs{}, err
		}
		out.headers = append(out.headers, headerExpr{name: name, value: value})
	}
	return out, nil
}

func compileText(env *cel.Env, setting, src string) (textExpr, error) {
	x, err := env.Compile(src, cel.TypeAny)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if x.UsesEpoch() { // invariant I: a replay may put the record into another epoch
		return nil, fmt.Errorf("%s: epoch cannot be used here, since every attempt must send the same", setting)
	}
	return func(v *cel.Vars) (string, error) { return evaluate(x, v, setting) }, nil
}

// evaluate gives the text of a string, a number or a bool; anything else is
// poison, and so is a failure.
func evaluate(x *cel.Expr, v *cel.Vars, setting string) (string, error) {
	val, ok, err := x.Any(v)
	switch {
	case err != nil:
		code := cel.CodeExpression
		var ee *cel.EvalError
		if errors.As(err, &ee) {
			code = ee.Code
		}
		return "", sink.Poison(code, fmt.Errorf("%s: %w", setting, err))
	case !ok:
		return "", sink.Poison(cel.CodeWrongType, fmt.Errorf("%s: gives nothing, where a text is needed", setting))
	}
	switch val := val.(type) {
	case types.String:
		return string(val), nil
	case types.Int:
		return strconv.FormatInt(int64(val), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(val), 10), nil
	case types.Bool:
		return strconv.FormatBool(bool(val)), nil
	case *cel.Decimal:
		return val.String(), nil
	}
	return "", sink.Poison(cel.CodeWrongType, fmt.Errorf("%s: gives a %s, where a text is needed", setting, val.Type().TypeName()))
}
