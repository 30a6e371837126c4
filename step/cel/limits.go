package cel

import (
	"strings"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxText bounds the strings and bytes that an operation builds: a record must
// not be able to eat the memory of the worker.
const maxText = 16 << 20

func tooLong() ref.Val {
	return failure(CodeExpression, "the result is longer than %d MiB", maxText>>20)
}

// costs counts the bytes that a call reads and writes, so that the cost limit
// bounds them too; cel-go does that only where it knows the types beforehand.
type costs struct{}

// CallCost implements cost.ActualCostEstimator.
func (costs) CallCost(_, _ string, args []ref.Val, result ref.Val) *uint64 {
	n := extent(result)
	for _, a := range args {
		n += extent(a)
	}
	n = 1 + n/100
	return &n
}

func extent(v ref.Val) uint64 {
	switch x := v.(type) {
	case types.String:
		return uint64(len(x))
	case types.Bytes:
		return uint64(len(x))
	case *mapping:
		return 0 // not opened just for this
	case traits.Sizer:
		if n, ok := x.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 0
}

// boundedStrings are functions of the strings extension whose results can be
// far longer than what they are given, with a bound.
func boundedStrings() []celgo.EnvOption {
	str, num, list := celgo.StringType, celgo.IntType, celgo.ListType(celgo.StringType)
	return []celgo.EnvOption{
		celgo.Function("replace",
			celgo.MemberOverload("string_replace_string_string", []*celgo.Type{str, str, str}, str,
				celgo.FunctionBinding(func(a ...ref.Val) ref.Val { return replace(a[0], a[1], a[2], types.Int(-1)) })),
			celgo.MemberOverload("string_replace_string_string_int", []*celgo.Type{str, str, str, num}, str,
				celgo.FunctionBinding(func(a ...ref.Val) ref.Val { return replace(a[0], a[1], a[2], a[3]) }))),
		celgo.Function("join",
			celgo.MemberOverload("list_join", []*celgo.Type{list}, str,
				celgo.UnaryBinding(func(l ref.Val) ref.Val { return join(l, types.String("")) })),
			celgo.MemberOverload("list_join_string", []*celgo.Type{list, str}, str, celgo.BinaryBinding(join))),
	}
}

func replace(text, old, with, times ref.Val) ref.Val {
	s, o, w := string(text.(types.String)), string(old.(types.String)), string(with.(types.String))
	n := strings.Count(s, o)
	if t := times.(types.Int); t >= 0 && int64(t) < int64(n) {
		n = int(t)
	}
	if len(s)+n*(len(w)-len(o)) > maxText {
		return tooLong()
	}
	return types.String(strings.Replace(s, o, w, n))
}

func join(l, sep ref.Val) ref.Val {
	var b strings.Builder
	first := true
	for it := l.(traits.Lister).Iterator(); it.HasNext() == types.True; first = false {
		v := it.Next()
		s, ok := v.(types.String)
		if !ok {
			if types.IsError(v) {
				return v
			}
			return failure(CodeWrongType, "join needs strings, not a %s", typeName(v))
		}
		if !first {
			b.WriteString(string(sep.(types.String)))
		}
		b.WriteString(string(s))
		if b.Len() > maxText {
			return tooLong()
		}
	}
	return types.String(b.String())
}
