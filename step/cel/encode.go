package cel

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends a result as JSON: decimals with all their digits, doubles
// in the shortest form that reads back the same, bytes in base64 (RFC 4648,
// section 4), times in RFC 3339 with milliseconds in UTC, durations in seconds
// ("1.5s"), maps that an expression built with sorted keys. JSON of the record
// that is passed on keeps its bytes. An absent optional is null.
func AppendJSON(dst []byte, v ref.Val) ([]byte, error) {
	switch x := v.(type) {
	case types.Null:
		return append(dst, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(dst, bool(x)), nil
	case types.Int:
		return strconv.AppendInt(dst, int64(x), 10), nil
	case types.Uint:
		return strconv.AppendUint(dst, uint64(x), 10), nil
	case types.Double:
		return appendDouble(dst, float64(x))
	case *Decimal:
		return x.appendTo(dst), nil
	case types.String:
		return appendString(dst, string(x))
	case types.Bytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, x)
		return append(dst, '"'), nil
	case types.Timestamp:
		return appendTime(dst, x.Time), nil
	case types.Duration:
		dst = append(dst, '"')
		dst = strconv.AppendFloat(dst, x.Seconds(), 'f', -1, 64)
		return append(dst, 's', '"'), nil
	case *types.Optional:
		if !x.HasValue() {
			return append(dst, "null"...), nil
		}
		return AppendJSON(dst, x.GetValue())
	}
	return appendContainer(dst, v)
}

func appendContainer(dst []byte, v ref.Val) ([]byte, error) {
	switch x := v.(type) {
	case *array:
		return append(dst, x.raw...), nil
	case *mapping:
		return x.appendJSON(dst)
	case traits.Mapper:
		return appendMap(dst, x)
	case traits.Lister:
		return appendList(dst, x)
	}
	return nil, evalErrorf(CodeWrongType, "a %s has no form in JSON", typeName(v))
}

func appendList(dst []byte, l traits.Lister) (_ []byte, err error) {
	dst = append(dst, '[')
	first := true
	for it := l.Iterator(); it.HasNext() == types.True; first = false {
		if !first {
			dst = append(dst, ',')
		}
		if dst, err = AppendJSON(dst, it.Next()); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendMap(dst []byte, m traits.Mapper) (_ []byte, err error) {
	dst = append(dst, '{')
	last := ""
	for i, k := range sortedKeys(m) {
		name := keyText(k)
		if i > 0 {
			if name == last {
				return nil, evalErrorf(CodeExpression, "two keys of a map are both %q in JSON", name)
			}
			dst = append(dst, ',')
		}
		last = name
		if dst, err = appendString(dst, name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = AppendJSON(dst, m.Get(k)); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendString(dst []byte, s string) ([]byte, error) {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return nil, evalErrorf(CodeExpression, "a string is not UTF-8: %w", err)
	}
	return out, nil
}

func appendDouble(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, evalErrorf(CodeExpression, "%v has no form in JSON", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), nil
}

// appendTime writes RFC 3339 in UTC with milliseconds, always of the same
// length. (By hand, since it is on the way of every record: a third of what
// time.AppendFormat takes.)
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, sec := t.Clock()
	dst = append(dst, '"')
	dst = appendDigits(dst, year, 1000)
	dst = append(dst, '-')
	dst = appendDigits(dst, int(month), 10)
	dst = append(dst, '-')
	dst = appendDigits(dst, day, 10)
	dst = append(dst, 'T')
	dst = appendDigits(dst, hour, 10)
	dst = append(dst, ':')
	dst = appendDigits(dst, minute, 10)
	dst = append(dst, ':')
	dst = appendDigits(dst, sec, 10)
	dst = append(dst, '.')
	dst = appendDigits(dst, t.Nanosecond()/1e6, 100)
	return append(dst, 'Z', '"')
}

// appendDigits writes n with the digits from unit downwards.
func appendDigits(dst []byte, n, unit int) []byte {
	for ; unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(n/unit%10))
	}
	return dst
}
