package cel

import (
	"encoding/base64"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"
)

// decode turns valid JSON into a value. Objects and arrays stay raw until they
// are looked into.
func decode(raw []byte) ref.Val {
	switch raw[0] {
	case 'n':
		return types.NullValue
	case 't':
		return types.True
	case 'f':
		return types.False
	case '"':
		return types.String(decodeString(raw))
	case '{':
		return newObject(raw)
	case '[':
		return newArray(raw)
	}
	return decodeNumber(raw)
}

func decodeString(raw []byte) string {
	for _, c := range raw {
		if c == '\\' {
			b, _ := jsontext.AppendUnquote(nil, raw) // valid: no error
			return string(b)
		}
	}
	return string(raw[1 : len(raw)-1])
}

// decodeNumber gives an int, a uint where only that holds the number, or a
// decimal where there is a fraction or an exponent.
func decodeNumber(raw []byte) ref.Val {
	if n, ok := smallInt(raw); ok {
		return types.Int(n)
	}
	s := string(raw)
	for i := range len(s) {
		switch s[i] {
		case '.', 'e', 'E':
			return decimalOf(NewDecimal(s))
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return types.Int(n)
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return types.Uint(n)
	}
	return failure(CodeIntegerRange, "the integer %s does not fit into 64 bit", clip(s))
}

// smallInt reads integers of up to 18 digits, nearly all there are.
func smallInt(raw []byte) (int64, bool) {
	digits, neg := raw, false
	if raw[0] == '-' {
		digits, neg = raw[1:], true
	}
	if len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// decodeAs is decode for a declared field.
func decodeAs(name string, t Type, raw []byte) ref.Val {
	v := decode(raw)
	if t == TypeAny {
		return v
	}
	if isInteger(raw) && (t == TypeDecimal || t == TypeInt || t == TypeUint) {
		return integerAs(name, t, raw, v)
	}
	if types.IsError(v) {
		return v
	}
	switch s, isString := v.(types.String); {
	case t == TypeBytes && isString:
		b, err := base64.StdEncoding.DecodeString(string(s))
		if err == nil {
			return types.Bytes(b)
		}
		return failure(CodeWrongType, "field %s is declared as bytes, but is not base64: %w", name, err)
	case t == TypeTime && isString:
		at, err := time.Parse(time.RFC3339Nano, string(s))
		if err == nil {
			return types.Timestamp{Time: at.UTC()}
		}
		return failure(CodeWrongType, "field %s is declared as time, but is not in RFC 3339: %s", name, clip(string(raw)))
	case typeName(v) == string(t) && t != TypeBytes && t != TypeTime:
		return v
	}
	return failure(CodeWrongType, "field %s is declared as %s, but is a %s: %s", name, t, typeName(v), clip(string(raw)))
}

func integerAs(name string, t Type, raw []byte, v ref.Val) ref.Val {
	switch t {
	case TypeDecimal:
		if d, ok := asDecimal(v); ok {
			return d
		}
		return decimalOf(NewDecimal(string(raw)))
	case TypeUint:
		if n, ok := v.(types.Int); ok && n >= 0 {
			return types.Uint(n)
		}
		if _, ok := v.(types.Uint); ok {
			return v
		}
	case TypeInt:
		if _, ok := v.(types.Int); ok {
			return v
		}
	}
	return failure(CodeIntegerRange, "field %s is declared as %s, which does not hold %s", name, t, clip(string(raw)))
}

func isInteger(raw []byte) bool {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return false
	}
	for _, c := range raw[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// clip shortens what is shown in errors.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
