package parquet

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"

	"exactly/sink/object/encode"
)

// wrong is why a field does not fit its column.
type wrong struct {
	code string
	err  error
}

func wrongType(err error) *wrong { return &wrong{encode.CodeWrongType, err} }

var (
	errKind    = errors.New("it is of another JSON type")
	errInteger = errors.New("it is not written as an integer")
	errRange   = errors.New("it is outside of 64 bit")
)

// value gives the column's value for a field's raw JSON, which is valid; false:
// null. raw nil: the field is missing.
func (t Type) value(raw []byte) (parquet.Value, bool, *wrong) {
	kind := jsontext.Value(raw).Kind()
	if raw == nil || kind == 'n' {
		return parquet.Value{}, false, nil
	}
	var v parquet.Value
	var w *wrong
	switch t.Kind {
	case Int64:
		v, w = int64Value(raw, kind)
	case Double:
		v, w = doubleValue(raw, kind)
	case Bool:
		if kind != 't' && kind != 'f' {
			w = wrongType(errKind)
		}
		v = parquet.BooleanValue(kind == 't')
	case String:
		var s []byte
		s, w = text(raw, kind)
		v = parquet.ByteArrayValue(s)
	case Bytes:
		v, w = bytesValue(raw, kind)
	case TimestampMS:
		v, w = timestampValue(raw, kind)
	case Decimal:
		v, w = t.decimalValue(raw, kind)
	case JSON:
		v = parquet.ByteArrayValue(raw)
	}
	return v, w == nil, w
}

func int64Value(raw []byte, kind jsontext.Kind) (parquet.Value, *wrong) {
	if kind != '0' {
		return parquet.Value{}, wrongType(errKind)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return parquet.Value{}, &wrong{encode.CodeIntegerRange, errRange}
	case err != nil:
		return parquet.Value{}, wrongType(errInteger)
	}
	return parquet.Int64Value(n), nil
}

func doubleValue(raw []byte, kind jsontext.Kind) (parquet.Value, *wrong) {
	if kind != '0' {
		return parquet.Value{}, wrongType(errKind)
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return parquet.Value{}, wrongType(errors.New("it is outside of what a double holds"))
	}
	return parquet.DoubleValue(x), nil
}

func text(raw []byte, kind jsontext.Kind) ([]byte, *wrong) {
	if kind != '"' {
		return nil, wrongType(errKind)
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return nil, wrongType(err)
	}
	return s, nil
}

func bytesValue(raw []byte, kind jsontext.Kind) (parquet.Value, *wrong) {
	s, w := text(raw, kind)
	if w != nil {
		return parquet.Value{}, w
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Strict().Decode(b, s)
	if err != nil {
		return parquet.Value{}, wrongType(err)
	}
	return parquet.ByteArrayValue(b[:n]), nil
}

func timestampValue(raw []byte, kind jsontext.Kind) (parquet.Value, *wrong) {
	if kind == '0' {
		return int64Value(raw, kind)
	}
	s, w := text(raw, kind)
	if w != nil {
		return parquet.Value{}, w
	}
	at, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil {
		return parquet.Value{}, wrongType(err)
	}
	return parquet.Int64Value(at.UnixMilli()), nil
}

func (t Type) decimalValue(raw []byte, kind jsontext.Kind) (parquet.Value, *wrong) {
	number := raw
	if kind == '"' {
		s, w := text(raw, kind)
		if w != nil {
			return parquet.Value{}, w
		}
		number = s
	} else if kind != '0' {
		return parquet.Value{}, wrongType(errKind)
	}
	n, err := unscaled(strings.TrimSpace(string(number)), t.Precision, t.Scale)
	if err != nil {
		return parquet.Value{}, wrongType(err)
	}
	switch {
	case t.Precision <= 9:
		return parquet.Int32Value(int32(n.Int64())), nil
	case t.Precision <= 18:
		return parquet.Int64Value(n.Int64()), nil
	}
	return parquet.FixedLenByteArrayValue(twosComplement(n, decimalBytes(t.Precision))), nil
}
