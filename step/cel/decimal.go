package cel

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/cockroachdb/apd/v3"
)

// Decimals are exact within these bounds, and errors beyond them: numbers like
// 1e999999 must not eat memory.
const (
	maxDigits   = 1000
	maxExponent = 1000
)

// Decimal is an exact decimal number as a value of expressions. It keeps its
// scale: 1.10 stays 1.10.
type Decimal struct{ d apd.Decimal }

// exact computes without rounding; BaseContext is not to be changed.
var exact = apd.BaseContext

// NewDecimal reads a number in JSON's notation.
func NewDecimal(s string) (*Decimal, error) {
	var x Decimal
	if _, _, err := x.d.SetString(s); err != nil || x.d.Form != apd.Finite {
		return nil, evalErrorf(CodeExpression, "%q is not a decimal number", s)
	}
	return x.checked()
}

func (x *Decimal) checked() (*Decimal, error) {
	digits := x.d.NumDigits()
	if digits > maxDigits || x.d.Exponent > maxExponent || x.d.Exponent < -maxExponent {
		return nil, evalErrorf(CodeExpression, "a decimal of %d digits with exponent %d is beyond what is computed with (%d, ±%d)",
			digits, x.d.Exponent, maxDigits, maxExponent)
	}
	return x, nil
}

func decimalOf(x *Decimal, err error) ref.Val {
	if err == nil {
		x, err = x.checked()
	}
	if err != nil {
		return types.WrapErr(err)
	}
	return x
}

// asDecimal widens the exact numbers: int, uint and decimal.
func asDecimal(v ref.Val) (*Decimal, bool) {
	switch n := v.(type) {
	case *Decimal:
		return n, true
	case types.Int:
		var x Decimal
		x.d.SetInt64(int64(n))
		return &x, true
	case types.Uint:
		var x Decimal
		x.d.Coeff.SetUint64(uint64(n))
		return &x, true
	}
	return nil, false
}

// arith computes x op y.
func (x *Decimal) arith(op byte, y *Decimal) ref.Val {
	var (
		z   Decimal
		err error
	)
	switch op {
	case '+':
		_, err = exact.Add(&z.d, &x.d, &y.d)
	case '-':
		_, err = exact.Sub(&z.d, &x.d, &y.d)
	case '*':
		_, err = exact.Mul(&z.d, &x.d, &y.d)
	case '/', '%':
		if y.d.IsZero() {
			return failure(CodeExpression, "division of %s by zero", x)
		}
		c := apd.BaseContext.WithPrecision(uint32(max(34, x.d.NumDigits())))
		c.Rounding = apd.RoundHalfEven
		if op == '/' {
			return x.quo(c, y)
		}
		c.Precision = 4 * maxDigits // of the quotient, which is thrown away
		_, err = c.Rem(&z.d, &x.d, &y.d)
	}
	if err != nil {
		err = evalErrorf(CodeExpression, "%s %c %s: %w", x, op, y, err)
	}
	return decimalOf(&z, err)
}

// quo divides. An exact quotient has as few digits behind the point as it needs,
// but at least those of x without those of y, as in IEEE 754.
func (x *Decimal) quo(c *apd.Context, y *Decimal) ref.Val {
	var z Decimal
	cond, err := c.Quo(&z.d, &x.d, &y.d)
	if err != nil {
		return failure(CodeExpression, "%s / %s: %w", x, y, err)
	}
	if !cond.Inexact() {
		ideal := x.d.Exponent - y.d.Exponent
		z.d.Reduce(&z.d)
		if z.d.Exponent > ideal && int64(z.d.Exponent-ideal) < maxDigits {
			if _, err := exact.WithPrecision(4*maxDigits).Quantize(&z.d, &z.d, ideal); err != nil {
				return failure(CodeExpression, "%s / %s: %w", x, y, err)
			}
		}
	}
	return decimalOf(&z, nil)
}

var roundModes = map[string]apd.Rounder{
	"half_even": apd.RoundHalfEven,
	"half_up":   apd.RoundHalfUp,
	"half_down": apd.RoundHalfDown,
	"up":        apd.RoundUp,
	"down":      apd.RoundDown,
	"ceiling":   apd.RoundCeiling,
	"floor":     apd.RoundFloor,
}

// round gives x with exactly so many digits behind the point.
func (x *Decimal) round(places int64, mode string) ref.Val {
	rounder, ok := roundModes[mode]
	if !ok {
		return failure(CodeExpression, "round: unknown mode %q; there are half_even, half_up, half_down, up, down, ceiling, floor", mode)
	}
	if places < -maxExponent || places > maxExponent {
		return failure(CodeExpression, "round: %d places are beyond ±%d", places, maxExponent)
	}
	c := apd.BaseContext.WithPrecision(4 * maxDigits)
	c.Rounding = rounder
	var z Decimal
	if _, err := c.Quantize(&z.d, &x.d, int32(-places)); err != nil {
		return failure(CodeExpression, "round %s: %w", x, err)
	}
	return decimalOf(&z, nil)
}

// integer gives x as a whole number, or why it is none.
func (x *Decimal) integer() (*big.Int, error) {
	var r apd.Decimal
	r.Reduce(&x.d)
	if r.Exponent < 0 {
		return nil, evalErrorf(CodeWrongType, "%s is not a whole number; round(x, 0) makes it one", x)
	}
	n := r.Coeff.MathBigInt()
	n = new(big.Int).Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(r.Exponent)), nil))
	if r.Negative {
		n.Neg(n)
	}
	return n, nil
}

func (x *Decimal) toInt() ref.Val {
	n, err := x.integer()
	switch {
	case err != nil:
		return types.WrapErr(err)
	case !n.IsInt64():
		return failure(CodeIntegerRange, "%s does not fit into an int (64 bit)", x)
	}
	return types.Int(n.Int64())
}

func (x *Decimal) toUint() ref.Val {
	n, err := x.integer()
	switch {
	case err != nil:
		return types.WrapErr(err)
	case !n.IsUint64():
		return failure(CodeIntegerRange, "%s does not fit into a uint (64 bit)", x)
	}
	return types.Uint(n.Uint64())
}

func decimalFromDouble(f float64) ref.Val {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return failure(CodeExpression, "%v is not a decimal number", f)
	}
	return decimalOf(NewDecimal(strconv.FormatFloat(f, 'g', -1, 64)))
}

// appendTo appends the number in JSON's notation: plain, unless that would be
// mostly zeros.
func (x *Decimal) appendTo(dst []byte) []byte {
	if x.d.Exponent > 20 || x.d.Exponent < -100 {
		return x.d.Append(dst, 'E')
	}
	return x.d.Append(dst, 'f')
}

// String gives the number in JSON's notation.
func (x *Decimal) String() string { return string(x.appendTo(nil)) }

// ConvertToNative gives an *apd.Decimal or a string.
func (x *Decimal) ConvertToNative(t reflect.Type) (any, error) {
	switch {
	case t == reflect.TypeFor[*apd.Decimal]():
		return new(apd.Decimal).Set(&x.d), nil
	case t.Kind() == reflect.String:
		return reflect.ValueOf(x.String()).Convert(t).Interface(), nil
	}
	return nil, fmt.Errorf("a decimal cannot become a %v", t)
}

// ConvertToType converts to the number types and string.
func (x *Decimal) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case decimalType:
		return x
	case types.IntType:
		return x.toInt()
	case types.UintType:
		return x.toUint()
	case types.StringType:
		return types.String(x.String())
	case types.DoubleType:
		f, err := strconv.ParseFloat(x.String(), 64)
		if err != nil {
			return failure(CodeExpression, "%s does not fit into a double", x)
		}
		return types.Double(f)
	case types.TypeType:
		return decimalType
	}
	return failure(CodeWrongType, "a decimal cannot become a %s", t.TypeName())
}

// Equal compares with any number, by value: 1.0 equals 1.
func (x *Decimal) Equal(other ref.Val) ref.Val {
	if y, ok := asDecimal(other); ok {
		return types.Bool(x.d.Cmp(&y.d) == 0)
	}
	return types.False
}

// Type is decimal.
func (x *Decimal) Type() ref.Type { return decimalType }

// Value gives the *apd.Decimal, which must not be changed.
func (x *Decimal) Value() any { return &x.d }

// IsZeroValue reports whether x is 0.
func (x *Decimal) IsZeroValue() bool { return x.d.IsZero() }
