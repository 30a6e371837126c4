package parquet

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

var (
	errNotNumber = errors.New("not a number")
	errInexact   = errors.New("it has more digits behind the point than the scale, and is not rounded")
	errPrecision = errors.New("it has more digits than the precision")
)

// unscaled gives number x 10^scale for a JSON number (RFC 8259), exactly.
func unscaled(number string, precision, scale int) (*big.Int, error) {
	digits, exp, negative, err := splitNumber(number)
	if err != nil {
		return nil, err
	}
	if digits == "" {
		return new(big.Int), nil
	}
	shift := exp + scale
	if shift < 0 {
		cut := len(digits) + shift
		if cut < 0 || strings.Trim(digits[cut:], "0") != "" {
			return nil, errInexact
		}
		digits, shift = digits[:cut], 0
	}
	if len(digits)+shift > precision {
		return nil, errPrecision
	}
	n, ok := new(big.Int).SetString(digits+strings.Repeat("0", shift), 10)
	if !ok {
		return nil, errNotNumber
	}
	if negative {
		n.Neg(n)
	}
	return n, nil
}

// splitNumber gives the digits without leading zeros ("" for zero) and the
// power of ten that they are to be multiplied with.
func splitNumber(s string) (digits string, exp int, negative bool, err error) {
	s, negative = strings.CutPrefix(s, "-")
	mantissa, e := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, e = s[:i], s[i+1:]
		if e = strings.TrimPrefix(e, "+"); !allDigits(strings.TrimPrefix(e, "-")) {
			return "", 0, false, errNotNumber
		}
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !allDigits(whole) || point && !allDigits(fraction) || len(whole) > 1 && whole[0] == '0' {
		return "", 0, false, errNotNumber
	}
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "", 0, negative, nil
	}
	if e != "" {
		if exp, err = strconv.Atoi(e); err != nil || exp > 1<<20 || exp < -1<<20 {
			if e[0] == '-' {
				return "", 0, false, errInexact
			}
			return "", 0, false, errPrecision
		}
	}
	return digits, exp - len(fraction), negative, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// decimalBytes is how many bytes hold every number of so many digits in two's
// complement.
func decimalBytes(precision int) int {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return limit.BitLen()/8 + 1 // one bit for the sign
}

// twosComplement gives n in so many bytes, the highest first.
func twosComplement(n *big.Int, size int) []byte {
	b := make([]byte, size)
	if n.Sign() >= 0 {
		return n.FillBytes(b)
	}
	limit := new(big.Int).Lsh(big.NewInt(1), uint(size)*8)
	return limit.Add(limit, n).FillBytes(b)
}

func fromTwosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n
}

// appendScaled appends n / 10^scale as a JSON number with that many digits
// behind the point.
func appendScaled(dst []byte, n *big.Int, scale int) []byte {
	if n.Sign() < 0 {
		dst = append(dst, '-')
		n = new(big.Int).Neg(n)
	}
	digits := n.String()
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(dst, '.')
		dst = append(dst, digits[len(digits)-scale:]...)
	}
	return dst
}
