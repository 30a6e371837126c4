package sqlite

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"exactly/internal/decimal"
	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// jsonValue is what SQLite gets for a field. Integers stay exact within 64
// bits, which is all that SQLite has. Numbers with a fraction or an exponent go
// in as their text: a TEXT or untyped column keeps them to the digit, a NUMERIC
// or REAL one makes a double of them, as its type asks for. Objects and arrays
// are JSON text, bools 1 and 0.
func jsonValue(raw []byte, a affinity) (driver.Value, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case 't':
		return int64(1), nil
	case 'f':
		return int64(0), nil
	case '{', '[':
		return string(raw), nil
	case '"':
		return unquote(raw)
	}
	return jsonNumber(raw, a)
}

func unquote(raw []byte) (driver.Value, error) {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return nil, sink.Poison(cel.CodeNotJSON, fmt.Errorf("read a string: %w", err))
	}
	return string(s), nil
}

func jsonNumber(raw []byte, a affinity) (driver.Value, error) {
	text := string(raw)
	if bytes.ContainsAny(raw, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		switch {
		case !a.numeric():
		case err != nil:
			return nil, sink.Poison(cel.CodeIntegerRange, fmt.Errorf("the number %.40s is too large for the column, whose numbers are doubles", text))
		case !kept(text, f):
			return nil, sink.Poison(cel.CodeIntegerRange, fmt.Errorf("the number %.40s would lose digits in the column, whose numbers are doubles; a TEXT column keeps it", text))
		}
		return text, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil:
		return n, nil
	case a.numeric(): // it would become a double and lose digits
		return nil, sink.Poison(cel.CodeIntegerRange, fmt.Errorf("the integer %.40s does not fit into 64 bits; a TEXT column keeps it", text))
	}
	return text, nil
}

// kept reports whether a numeric column gives a number back, of which SQLite
// makes a double.
func kept(text string, f float64) bool {
	d, ok := decimal.Parse(text)
	return ok && d.Doubled(f)
}

// exprValue evaluates an expression for a column; an absent optional is NULL.
func exprValue(x *cel.Expr, v *cel.Vars, a affinity) (driver.Value, error) {
	res, ok, err := x.Any(v)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, nil
	}
	if b, ok := res.Value().([]byte); ok {
		return bytes.Clone(b), nil // a BLOB; in JSON it would be base64
	}
	raw, err := cel.AppendJSON(nil, res)
	if err != nil {
		return nil, err
	}
	return jsonValue(raw, a)
}

// deleteKey finds the values of the key columns in the Kafka key of a
// tombstone: a JSON object that holds them by name, a JSON array that holds
// them in the order of the columns, or, for one column, a JSON string or the
// key as it is.
func deleteKey(key []byte, cols []column) ([]driver.Value, error) {
	if len(key) == 0 {
		return nil, sink.Poison(codeKey, fmt.Errorf("a delete without a key"))
	}
	var doc record.Doc
	if doc.Reset(key) == nil {
		if vs, err := keyFromObject(&doc, cols); err != nil || vs != nil {
			return vs, err
		}
	}
	if key[0] == '[' && jsontext.Value(key).IsValid() {
		var vs []driver.Value
		for e := range record.Elements(key) {
			if len(vs) < len(cols) {
				v, err := jsonValue(e, cols[len(vs)].affinity)
				if err != nil {
					return nil, err
				}
				vs = append(vs, v)
			}
		}
		if len(vs) == len(cols) {
			return vs, nil
		}
	}
	if len(cols) > 1 {
		return nil, sink.Poison(codeKey, fmt.Errorf("a delete whose key is neither a JSON object nor an array with the %d key columns", len(cols)))
	}
	if key[0] == '"' && jsontext.Value(key).IsValid() {
		v, err := unquote(key)
		return []driver.Value{v}, err
	}
	if !utf8.Valid(key) {
		return []driver.Value{bytes.Clone(key)}, nil
	}
	return []driver.Value{string(key)}, nil
}

// keyFromObject gives nil, where the object is not one of the key columns and
// there is only one: then the key is that column's value as it stands.
func keyFromObject(doc *record.Doc, cols []column) ([]driver.Value, error) {
	var vs []driver.Value
	for _, c := range cols {
		raw, ok := doc.Get(c.name)
		if !ok {
			return nil, nil
		}
		v, err := jsonValue(raw, c.affinity)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}
