package postgres

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// jsonValue is the text that PostgreSQL reads as the value of a field; nil is
// NULL. Numbers keep every digit.
func jsonValue(raw []byte, c *column) ([]byte, error) {
	if raw[0] == 'n' {
		return nil, nil
	}
	if c.kind == kindJSON {
		return raw, nil
	}
	switch raw[0] {
	case 't', 'f', '{':
		return raw, nil
	case '[':
		if c.kind == kindArray {
			return arrayText(nil, raw, c)
		}
		return raw, nil
	case '"':
		v, err := unquote(raw)
		if err != nil || c.kind != kindNumeric {
			return v, err
		}
		return v, fits(v, c)
	}
	return jsonNumber(raw, c)
}

func unquote(raw []byte) ([]byte, error) {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return nil, sink.Poison(cel.CodeNotJSON, fmt.Errorf("read a string: %w", err))
	}
	return s, nil
}

// maxExponent bounds what a number may be written out to.
const maxExponent = 400

func jsonNumber(raw []byte, c *column) ([]byte, error) {
	return number(raw, c.kind, c)
}

// number writes one out for an integer, and sees to it that a numeric keeps it.
func number(raw []byte, k kind, c *column) ([]byte, error) {
	switch {
	case k == kindNumeric:
		return raw, fits(raw, c)
	case k != kindInteger || !bytes.ContainsAny(raw, ".eE"):
		return raw, nil
	}
	n, err := rational(raw)
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, sink.Poison(cel.CodeNotJSON, fmt.Errorf("the number %.40s cannot be read", raw))
	case !n.IsInt():
		return nil, sink.Poison(codeValue, fmt.Errorf("the number %.40s is no integer", raw))
	}
	return n.Num().Append(nil, 10), nil
}

// rational reads a number; nil, where it is none.
func rational(raw []byte) (*big.Rat, error) {
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		if e, err := strconv.Atoi(string(raw[i+1:])); err != nil || e > maxExponent || e < -maxExponent {
			return nil, sink.Poison(codeValue, fmt.Errorf("the number %.40s is out of range", raw))
		}
	}
	n, _ := new(big.Rat).SetString(string(raw))
	return n, nil
}

// fits refuses a number that the column would round: numeric(p,s) does so without a
// word. What is no number is for the server to judge (NaN, and nonsense).
func fits(raw []byte, c *column) error {
	if c.scale == anyScale || c.scale >= 0 && !bytes.ContainsAny(raw, ".eE") {
		return nil
	}
	var n *big.Rat
	plain := plainNumber(raw)
	if i := integer(plain); i != nil {
		n = new(big.Rat).SetInt(i)
	} else {
		if len(plain) == 0 || len(bytes.Trim(plain, "+-.0123456789eE")) > 0 {
			return nil
		}
		var err error
		if n, err = rational(plain); err != nil || n == nil {
			return err
		}
	}
	// s digits behind the point: 10^s times the number is an integer.
	if ten := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(c.scale, -c.scale))), nil)); c.scale > 0 {
		n.Mul(n, ten)
	} else if c.scale < 0 {
		n.Quo(n, ten)
	}
	if !n.IsInt() {
		return sink.Poison(codeValue, fmt.Errorf("the number %.40s has more than the %d digits behind the point that the column keeps; round it in a step, or widen the column", raw, c.scale))
	}
	return nil
}

// plainNumber is a number without what PostgreSQL takes beside its digits: blanks, and
// from version 16 on _ between them (manual, 4.1.2.6).
func plainNumber(v []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimSpace(v), []byte("_"), nil)
}

// integer reads one as PostgreSQL 16 does, which knows 0x10, 0o20 and 0b10000, and takes
// 010 for ten; nil, where it is none.
func integer(plain []byte) *big.Int {
	digits := bytes.TrimLeft(plain, "+-")
	base := 10
	if len(digits) > 2 && digits[0] == '0' {
		base = map[byte]int{'x': 16, 'o': 8, 'b': 2}[digits[1]|0x20]
		if base > 0 {
			digits = digits[2:]
		} else {
			base = 10
		}
	}
	n, ok := new(big.Int).SetString(string(digits), base)
	if !ok || len(digits) > maxExponent {
		return nil
	}
	if plain[0] == '-' {
		n.Neg(n)
	}
	return n
}

// arrayText writes a JSON array the way PostgreSQL reads arrays (section 8.15).
// Elements that are objects go in as JSON text, and all of them where that is what
// the elements are.
func arrayText(dst, raw []byte, c *column) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for e := range record.Elements(raw) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		switch {
		case e[0] == 'n':
			dst = append(dst, "NULL"...)
			continue
		case c.elem == kindJSON:
		case e[0] == '[':
			var err error
			if dst, err = arrayText(dst, e, c); err != nil {
				return nil, err
			}
			continue
		default:
			var err error
			if e, err = element(e, c); err != nil {
				return nil, err
			}
		}
		dst = appendElement(dst, e)
	}
	return append(dst, '}'), nil
}

func element(e []byte, c *column) ([]byte, error) {
	switch e[0] {
	case '"':
		s, err := unquote(e)
		if err == nil && c.elem == kindNumeric {
			err = fits(s, c)
		}
		return s, err
	case 't', 'f', '{':
		return e, nil
	}
	return number(e, c.elem, c)
}

func appendElement(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, b := range s {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}

// exprValue evaluates an expression; an absent optional is NULL.
func exprValue(x *cel.Expr, v *cel.Vars, c *column) ([]byte, error) {
	res, ok, err := x.Any(v)
	if err != nil || !ok {
		return nil, err
	}
	if b, ok := res.Value().([]byte); ok && c.kind == kindBytes {
		return bytea(b), nil // in JSON it would be base64
	}
	raw, err := cel.AppendJSON(nil, res)
	if err != nil {
		return nil, err
	}
	return jsonValue(raw, c)
}

// bytea writes bytes in the hex format (section 8.4.1).
func bytea(b []byte) []byte { return hex.AppendEncode([]byte(`\x`), b) }

// canonical gives the same text for values that the column takes for the same.
// Only for exact columns.
func canonical(v []byte, c *column) []byte {
	switch c.kind {
	case kindUUID:
		out := make([]byte, 0, 32)
		for _, b := range bytes.ToLower(v) {
			if b != '-' && b != '{' && b != '}' {
				out = append(out, b)
			}
		}
		return out
	case kindInteger:
		if n := integer(plainNumber(v)); n != nil {
			return n.Append(nil, 10)
		}
	}
	return v
}

// deleteKey finds the values of the key columns in the Kafka key of a
// tombstone: a JSON object that holds them by name, a JSON array that holds
// them in the order of the columns, or, for one column, a JSON string or the
// key as it is.
func deleteKey(key []byte, cols []*column) ([][]byte, error) {
	if len(key) == 0 {
		return nil, sink.Poison(codeKey, errors.New("a delete without a key"))
	}
	vs, err := keyParts(key, cols)
	if err != nil || vs == nil && len(cols) > 1 {
		return nil, errors.Join(err, missingKey(err, len(cols)))
	}
	switch {
	case vs != nil:
	case key[0] == '"' && jsontext.Value(key).IsValid():
		v, err := unquote(key)
		if err != nil {
			return nil, err
		}
		vs = [][]byte{v}
	case cols[0].kind == kindBytes:
		vs = [][]byte{bytea(key)}
	default:
		vs = [][]byte{key}
	}
	for i, v := range vs {
		if v == nil {
			return nil, sink.Poison(codeKey, fmt.Errorf("a delete whose key has null for the column %s", cols[i].name))
		}
		if cols[i].kind == kindNumeric {
			if err := fits(v, cols[i]); err != nil {
				return nil, err
			}
		}
	}
	return vs, nil
}

func missingKey(err error, n int) error {
	if err != nil {
		return nil
	}
	return sink.Poison(codeKey, fmt.Errorf("a delete whose key is neither a JSON object nor an array with the %d key columns", n))
}

// keyParts reads a key that is an object or array with all key columns; nil,
// where it is not.
func keyParts(key []byte, cols []*column) ([][]byte, error) {
	var raws [][]byte
	var doc record.Doc
	switch {
	case doc.Reset(key) == nil:
		for _, c := range cols {
			raw, ok := doc.Get(c.name)
			if !ok {
				return nil, nil
			}
			raws = append(raws, raw)
		}
	case key[0] == '[' && jsontext.Value(key).IsValid():
		for e := range record.Elements(key) {
			raws = append(raws, e)
		}
	}
	if len(raws) != len(cols) {
		return nil, nil
	}
	vs := make([][]byte, len(cols))
	for i, raw := range raws {
		var err error
		if vs[i], err = jsonValue(raw, cols[i]); err != nil {
			return nil, err
		}
	}
	return vs, nil
}
