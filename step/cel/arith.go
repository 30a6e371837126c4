package cel

import (
	"math/big"
	"math/bits"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

func arith(op byte, l, r ref.Val) ref.Val {
	if x, ok := l.(types.Int); ok {
		if y, ok := r.(types.Int); ok {
			return arithInt(op, int64(x), int64(y))
		}
	}
	_, lDec := l.(*Decimal)
	_, rDec := r.(*Decimal)
	x, lNum := asDecimal(l)
	y, rNum := asDecimal(r)
	switch {
	case lNum && rNum && (lDec || rDec):
		return x.arith(op, y)
	case lNum && rNum:
		return arithBig(op, l, r)
	}
	return arithOther(op, l, r)
}

// arithInt computes in 64 bit and takes overflow for an error.
func arithInt(op byte, x, y int64) ref.Val {
	z, ok := int64(0), true
	switch op {
	case '+':
		z = x + y
		ok = (z > x) == (y > 0)
	case '-':
		z = x - y
		ok = (z < x) == (y > 0)
	case '*':
		hi, lo := bits.Mul64(magnitude(x), magnitude(y))
		neg := (x < 0) != (y < 0)
		z = int64(lo)
		if neg {
			z = -z
		}
		ok = hi == 0 && (lo < 1<<63 || neg && lo == 1<<63)
	default:
		if y == 0 {
			return failure(CodeExpression, "division of %d by zero", x)
		}
		if op == '%' {
			if y == -1 { // the smallest int would trap
				return types.Int(0)
			}
			return types.Int(x % y)
		}
		ok = y != -1 || x != -x || x == 0
		if ok {
			z = x / y
		}
	}
	if !ok {
		return failure(CodeIntegerRange, "%d %c %d does not fit into an int (64 bit)", x, op, y)
	}
	return types.Int(z)
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// arithBig computes with uints, alone or beside ints. Between two uints the
// result is a uint, else the first of int and uint that holds it.
func arithBig(op byte, l, r ref.Val) ref.Val {
	x, y, z := bigOf(l), bigOf(r), new(big.Int)
	switch op {
	case '+':
		z.Add(x, y)
	case '-':
		z.Sub(x, y)
	case '*':
		z.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return failure(CodeExpression, "division of %v by zero", x)
		}
		if op == '/' {
			z.Quo(x, y)
		} else {
			z.Rem(x, y)
		}
	}
	_, lUint := l.(types.Uint)
	_, rUint := r.(types.Uint)
	switch {
	case z.IsInt64() && !(lUint && rUint):
		return types.Int(z.Int64())
	case z.IsUint64():
		return types.Uint(z.Uint64())
	}
	return failure(CodeIntegerRange, "%v %c %v does not fit into 64 bit", x, op, y)
}

func bigOf(v ref.Val) *big.Int {
	if u, ok := v.(types.Uint); ok {
		return new(big.Int).SetUint64(uint64(u))
	}
	return big.NewInt(int64(v.(types.Int)))
}

// arithOther is what the standard library does: doubles, strings, bytes,
// lists, times.
func arithOther(op byte, l, r ref.Val) ref.Val {
	lt, rt := l.Type(), r.Type()
	times := (lt == types.TimestampType || lt == types.DurationType) &&
		(rt == types.TimestampType || rt == types.DurationType)
	if lt != rt && !times && !(isList(l) && isList(r)) {
		return mismatch(op, l, r)
	}
	switch op {
	case '+':
		if lt != types.ListType && extent(l)+extent(r) > maxText {
			return tooLong()
		}
		if a, ok := l.(traits.Adder); ok {
			return a.Add(r)
		}
	case '-':
		if s, ok := l.(traits.Subtractor); ok {
			return s.Subtract(r)
		}
	case '*':
		if m, ok := l.(traits.Multiplier); ok {
			return m.Multiply(r)
		}
	case '/':
		if d, ok := l.(traits.Divider); ok {
			return d.Divide(r)
		}
	}
	return mismatch(op, l, r)
}

func mismatch(op byte, l, r ref.Val) ref.Val {
	hint := ""
	if l.Type() == types.DoubleType || r.Type() == types.DoubleType {
		hint = "; decimal(x) makes a double exact"
	}
	return failure(CodeWrongType, "%s %c %s is not defined%s", typeName(l), op, typeName(r), hint)
}

func typeName(v ref.Val) string {
	switch t := v.Type(); t {
	case types.TimestampType:
		return "time"
	case types.DurationType:
		return "duration"
	case types.NullType:
		return "null"
	default:
		return t.TypeName()
	}
}

func isList(v ref.Val) bool {
	_, ok := v.(traits.Lister)
	return ok
}

func order(keep func(int) bool, l, r ref.Val) ref.Val {
	if x, ok := l.(types.Int); ok {
		if y, ok := r.(types.Int); ok {
			switch {
			case x < y:
				return types.Bool(keep(-1))
			case x > y:
				return types.Bool(keep(1))
			}
			return types.Bool(keep(0))
		}
	}
	if x, ok := asDecimal(l); ok {
		if y, ok := asDecimal(r); ok {
			return types.Bool(keep(x.d.Cmp(&y.d)))
		}
	}
	c, ok := l.(traits.Comparer)
	if !ok || l.Type() != r.Type() && !doubles(l, r) {
		return failure(CodeWrongType, "%s and %s have no order between them", typeName(l), typeName(r))
	}
	res := c.Compare(r)
	if n, ok := res.(types.Int); ok {
		return types.Bool(keep(int(n)))
	}
	return res
}

// doubles reports whether a double stands beside an integer.
func doubles(l, r ref.Val) bool {
	number := func(v ref.Val) bool {
		return v.Type() == types.DoubleType || v.Type() == types.IntType || v.Type() == types.UintType
	}
	return number(l) && number(r)
}

func negate(v ref.Val) ref.Val {
	switch x := v.(type) {
	case types.Int:
		return arithInt('-', 0, int64(x))
	case *Decimal:
		var z Decimal
		z.d.Neg(&x.d)
		return &z
	case types.Double:
		return -x
	}
	return failure(CodeWrongType, "-%s is not defined", typeName(v))
}

// equal is == with numbers compared by value, whatever their types.
func equal(l, r ref.Val) ref.Val {
	if _, ok := r.(*Decimal); ok {
		if _, null := l.(types.Null); !null {
			return r.Equal(l)
		}
	}
	return types.Equal(l, r)
}
