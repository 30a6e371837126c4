package cel

import (
	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/stdlib"
	"cel.dev/cel-go/common/types/ref"
)

// The arithmetic and ordering operators of the standard library are bound to
// the type of their left operand, which cannot know decimals on the right. They
// are declared anew here, with the standard overloads and those of decimals,
// and their errors carry codes.

var arithOps = map[string]byte{
	operators.Add: '+', operators.Subtract: '-', operators.Multiply: '*',
	operators.Divide: '/', operators.Modulo: '%',
}

var orderOps = map[string]func(cmp int) bool{
	operators.Less:          func(c int) bool { return c < 0 },
	operators.LessEquals:    func(c int) bool { return c <= 0 },
	operators.Greater:       func(c int) bool { return c > 0 },
	operators.GreaterEquals: func(c int) bool { return c >= 0 },
}

// standardLibrary is CEL's own, without what is declared anew.
func standardLibrary() celgo.EnvOption {
	subset := env.NewLibrarySubset()
	for name := range arithOps {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	for name := range orderOps {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	for _, name := range []string{operators.Negate, operators.Equals, operators.NotEquals, operators.In} {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	return celgo.StdLib(celgo.StdLibSubset(subset))
}

// numberOperators declares the operators with decimals.
func numberOperators() []celgo.EnvOption {
	var opts []celgo.EnvOption
	for _, fn := range stdlib.Functions() {
		op, isArith := arithOps[fn.Name()]
		keep, isOrder := orderOps[fn.Name()]
		var bind celgo.FunctionOpt
		result := decimalType
		switch {
		case isArith:
			bind = celgo.SingletonBinaryBinding(func(l, r ref.Val) ref.Val { return arith(op, l, r) })
		case isOrder:
			result = celgo.BoolType
			bind = celgo.SingletonBinaryBinding(func(l, r ref.Val) ref.Val { return order(keep, l, r) })
		case fn.Name() == operators.Negate:
			opts = append(opts, celgo.Function(fn.Name(), append(declared(fn),
				celgo.Overload("negate_decimal", []*celgo.Type{decimalType}, decimalType),
				celgo.SingletonUnaryBinding(negate))...))
			continue
		default:
			continue
		}
		fo := declared(fn)
		for _, pair := range [][2]*celgo.Type{
			{decimalType, decimalType},
			{decimalType, celgo.IntType},
			{celgo.IntType, decimalType},
			{decimalType, celgo.UintType},
			{celgo.UintType, decimalType},
		} {
			id := fn.Name() + pair[0].TypeName() + "_" + pair[1].TypeName()
			fo = append(fo, celgo.Overload(id, pair[:], result))
		}
		opts = append(opts, celgo.Function(fn.Name(), append(fo, bind)...))
	}
	return opts
}

// equality takes any two types, since numbers of different types are compared
// by value; checkEqualities refuses what can never be equal. What runs is
// equal, which decorate plans.
func equality(name string) celgo.EnvOption {
	args := []*celgo.Type{celgo.TypeParamType("A"), celgo.TypeParamType("B")}
	return celgo.Function(name, celgo.Overload(name, args, celgo.BoolType),
		celgo.SingletonBinaryBinding(equal))
}

// membership takes any types, as equality does.
func membership() celgo.EnvOption {
	a, b, c := celgo.TypeParamType("A"), celgo.TypeParamType("B"), celgo.TypeParamType("C")
	return celgo.Function(operators.In,
		celgo.Overload(overloads.InList, []*celgo.Type{a, celgo.ListType(b)}, celgo.BoolType),
		celgo.Overload(overloads.InMap, []*celgo.Type{a, celgo.MapType(b, c)}, celgo.BoolType),
		celgo.SingletonBinaryBinding(contains))
}

func declared(fn *decls.FunctionDecl) []celgo.FunctionOpt {
	var opts []celgo.FunctionOpt
	for _, o := range fn.OverloadDecls() {
		opts = append(opts, celgo.Overload(o.ID(), o.ArgTypes(), o.ResultType()))
	}
	return opts
}
