package parquet

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

const maxFloat = math.MaxFloat64

// form is how a column's values are written as JSON.
type form int

const (
	formPlain   form = iota // by the physical type; bytes in base64
	formText                // a string
	formJSON                // as it is
	formDecimal             // a number with scale digits behind the point
)

func formOf(t parquet.Type) (form, int) {
	l := t.LogicalType()
	if l == nil {
		return formPlain, 0
	}
	switch v := l.Value.(type) {
	case *format.StringType, *format.EnumType:
		return formText, 0
	case *format.JsonType:
		return formJSON, 0
	case *format.DecimalType:
		return formDecimal, int(v.Scale)
	}
	return formPlain, 0
}

// append appends v as JSON.
func (l *leaf) append(dst []byte, v parquet.Value) ([]byte, error) {
	if v.IsNull() {
		return append(dst, "null"...), nil
	}
	switch l.form {
	case formText:
		return jsontext.AppendQuote(dst, v.ByteArray())
	case formJSON:
		return append(dst, v.ByteArray()...), nil
	case formDecimal:
		n, err := integer(v)
		if err != nil {
			return nil, err
		}
		return appendScaled(dst, n, l.scale), nil
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(dst, v.Boolean()), nil
	case parquet.Int32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.AppendInt(dst, v.Int64(), 10), nil
	case parquet.Float:
		return appendFloat(dst, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(dst, v.Double(), 64)
	case parquet.ByteArray, parquet.FixedLenByteArray:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.ByteArray())
		return append(dst, '"'), nil
	}
	return nil, fmt.Errorf("values of kind %s are not read", v.Kind())
}

func integer(v parquet.Value) (*big.Int, error) {
	switch v.Kind() {
	case parquet.Int32:
		return big.NewInt(int64(v.Int32())), nil
	case parquet.Int64:
		return big.NewInt(v.Int64()), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return fromTwosComplement(v.ByteArray()), nil
	}
	return nil, fmt.Errorf("a decimal of kind %s", v.Kind())
}
