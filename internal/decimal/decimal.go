package decimal

import (
	"math/big"
	"strconv"
	"strings"
)

// Decimal is 0.Digits times ten to the power of Point. Digits begin and end with
// another digit than 0; the number 0 has none.
type Decimal struct {
	Negative bool
	Digits   string
	Point    int64
}

// mostPoint bounds exponents, so that sums of them cannot overflow.
const mostPoint = 1 << 40

// Parse reads a number as JSON writes it; false: it is none, or beyond all use.
func Parse(s string) (d Decimal, ok bool) {
	s, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := s, int64(0)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.ParseInt(s[i+1:], 10, 64)
		if err != nil || n > mostPoint || n < -mostPoint {
			return Decimal{}, false
		}
		mantissa, exponent = s[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Decimal{}, false
	}
	short := strings.TrimLeft(digits, "0")
	if d.Digits = strings.TrimRight(short, "0"); d.Digits == "" {
		return Decimal{}, true
	}
	d.Negative = negative
	d.Point = int64(len(whole)) + exponent - int64(len(digits)-len(short))
	return d, true
}

// Integer gives the number's digits if it is an integer of at most so many.
func (d Decimal) Integer(most int) (string, bool) {
	n := int64(len(d.Digits))
	switch {
	case n == 0:
		return "0", true
	case d.Point < n || d.Point > int64(most):
		return "", false
	}
	s := d.Digits + strings.Repeat("0", int(d.Point-n))
	if d.Negative {
		s = "-" + s
	}
	return s, true
}

// OfFloat is the decimal that a double is shown as: the shortest that no other
// double is nearer to. Not for infinities.
func OfFloat(f float64) Decimal {
	d, _ := Parse(strconv.FormatFloat(f, 'e', -1, 64))
	return d
}

// Doubled reports whether the number is the one that the nearest double is shown
// as, so that a column of doubles gives it back, or the double itself.
func (d Decimal) Doubled(f float64) bool {
	if d == OfFloat(f) {
		return true
	}
	exact, ok := Parse(new(big.Float).SetFloat64(f).Text('e', 1100))
	return ok && d == exact
}
