package cel

import (
	"strings"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// Names of the variables that do not come from the record's value.
const (
	varKey       = "key"
	varValue     = "value"
	varHeaders   = "headers"
	varTopic     = "source.topic"
	varPartition = "source.partition"
	varOffset    = "source.offset"
	varTimestamp = "source.timestamp"
	varNumber    = "epoch.number"
	varAttempt   = "epoch.attempt"
	varTime      = "epoch.time"
	varItem      = "each.item"
	varIndex     = "each.index"
)

// orderedFunc makes the walk over a comprehension's range the same every time;
// compiling puts it there.
const orderedFunc = "@ordered"

// conditionFunc checks that an operand of a logical operator is a bool; compiling
// puts it there.
const conditionFunc = "@condition"

// variables are those that every environment has.
func variables() map[string]*celgo.Type {
	return map[string]*celgo.Type{
		varKey:       celgo.DynType,
		varValue:     celgo.MapType(celgo.StringType, celgo.DynType),
		varHeaders:   celgo.MapType(celgo.StringType, celgo.DynType),
		varTopic:     celgo.StringType,
		varPartition: celgo.IntType,
		varOffset:    celgo.IntType,
		varTimestamp: celgo.TimestampType,
	}
}

func epochVariables() map[string]*celgo.Type {
	return map[string]*celgo.Type{
		varNumber:  celgo.IntType,
		varAttempt: celgo.IntType,
		varTime:    celgo.TimestampType,
	}
}

func eachVariables() map[string]*celgo.Type {
	return map[string]*celgo.Type{
		varItem:  celgo.DynType,
		varIndex: celgo.IntType,
	}
}

// library is the language: CEL's standard one, optionals, strings, base64,
// cel.bind and comprehensions over two variables, and decimals.
func library() []celgo.EnvOption {
	opts := []celgo.EnvOption{
		standardLibrary(),
		celgo.OptionalTypes(),
		ext.Bindings(),
		ext.Strings(),
		ext.Encoders(),
		ext.TwoVarComprehensions(),
		celgo.Macros(hasMacro()),
		orderedFunction(),
		celgo.Function(conditionFunc, celgo.Overload("condition", []*celgo.Type{celgo.BoolType}, celgo.BoolType),
			celgo.SingletonUnaryBinding(condition)),
	}
	opts = append(opts, boundedStrings()...)
	opts = append(opts, numberOperators()...)
	opts = append(opts, equality(operators.Equals), equality(operators.NotEquals), membership())
	return append(opts, decimalFunctions()...)
}

// hasMacro is has() of CEL, and for has(field) the test whether the record has
// the field.
func hasMacro() celgo.Macro {
	return celgo.GlobalMacro(operators.Has, 1, func(f celgo.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *celgo.Error) {
		switch arg := args[0]; arg.Kind() {
		case ast.SelectKind:
			return f.NewPresenceTest(arg.AsSelect().Operand(), arg.AsSelect().FieldName()), nil
		case ast.IdentKind:
			return f.NewPresenceTest(f.NewIdent(varValue), strings.TrimPrefix(arg.AsIdent(), ".")), nil
		default:
			return nil, f.NewError(arg.ID(), "has() takes a field, as in has(note) or has(customer.name)")
		}
	})
}

func orderedFunction() celgo.EnvOption {
	a, b := celgo.TypeParamType("A"), celgo.TypeParamType("B")
	list, mp := celgo.ListType(a), celgo.MapType(a, b)
	return celgo.Function(orderedFunc,
		celgo.Overload("ordered_list", []*celgo.Type{list}, list),
		celgo.Overload("ordered_map", []*celgo.Type{mp}, mp),
		celgo.SingletonUnaryBinding(ordered))
}

func condition(v ref.Val) ref.Val {
	if _, ok := v.(types.Bool); ok {
		return v
	}
	return failure(CodeWrongType, "a condition must be a bool, not a %s", typeName(v))
}

func decimalFunctions() []celgo.EnvOption {
	one := func(t *celgo.Type) []*celgo.Type { return []*celgo.Type{t} }
	conv := func(name string, to *celgo.Type) celgo.EnvOption {
		return celgo.Function(name, celgo.Overload("decimal_to_"+name, one(decimalType), to,
			celgo.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(to) })))
	}
	round := func(id string, t *celgo.Type) []celgo.FunctionOpt {
		return []celgo.FunctionOpt{
			celgo.Overload("round_"+id, []*celgo.Type{t, celgo.IntType}, decimalType),
			celgo.Overload("round_mode_"+id, []*celgo.Type{t, celgo.IntType, celgo.StringType}, decimalType),
		}
	}
	rounds := append(round("decimal", decimalType), round("int", celgo.IntType)...)
	rounds = append(rounds, round("uint", celgo.UintType)...)
	return []celgo.EnvOption{
		celgo.Function("decimal",
			celgo.Overload("string_to_decimal", one(celgo.StringType), decimalType),
			celgo.Overload("int_to_decimal", one(celgo.IntType), decimalType),
			celgo.Overload("uint_to_decimal", one(celgo.UintType), decimalType),
			celgo.Overload("double_to_decimal", one(celgo.DoubleType), decimalType),
			celgo.Overload("decimal_to_decimal", one(decimalType), decimalType),
			celgo.SingletonUnaryBinding(toDecimal)),
		conv("int", celgo.IntType), conv("uint", celgo.UintType),
		conv("string", celgo.StringType), conv("double", celgo.DoubleType),
		celgo.Function("round", append(rounds, celgo.SingletonFunctionBinding(round3))...),
	}
}

func toDecimal(v ref.Val) ref.Val {
	switch x := v.(type) {
	case types.String:
		return decimalOf(NewDecimal(string(x)))
	case types.Double:
		return decimalFromDouble(float64(x))
	}
	if d, ok := asDecimal(v); ok {
		return d
	}
	return failure(CodeWrongType, "a %s cannot become a decimal", typeName(v))
}

// round3 rounds half to even unless a third argument says how.
func round3(args ...ref.Val) ref.Val {
	x, ok := asDecimal(args[0])
	places, ok2 := args[1].(types.Int)
	if !ok || !ok2 {
		return failure(CodeWrongType, "round(%s, %s) is not defined; round takes a number and an int", typeName(args[0]), typeName(args[1]))
	}
	mode := "half_even"
	if len(args) == 3 {
		s, ok := args[2].(types.String)
		if !ok {
			return failure(CodeWrongType, "the mode of round is a string, not a %s", typeName(args[2]))
		}
		mode = string(s)
	}
	return x.round(int64(places), mode)
}
