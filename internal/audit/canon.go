package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// hash is the first 16 bytes of a SHA-256: among a billion records the chance
// that any two are mixed up is below one in 10^20.
type hash [16]byte

func sum(b []byte) hash {
	s := sha256.Sum256(b)
	return hash(s[:16])
}

// canon brings values into one form, so that equal values are equal bytes.
type canon struct {
	loose bool
	only  map[string]bool // top-level fields to keep; nil: all
	skip  map[string]bool // top-level fields to leave out; "*": all
	times map[string]bool // top-level fields that hold a time
}

func newCanon(s Shape, skip []string) *canon {
	c := &canon{loose: s.Loose, skip: set(skip), times: set(s.Times)}
	if s.Fields != nil {
		c.only = set(s.Fields)
	}
	return c
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

type field struct {
	name  string
	value jsontext.Value
}

// value appends the form of a record's value. What is no JSON object is taken
// as it is, and so is nil, which is not the same as empty.
func (c *canon) value(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "tombstone"...)
	}
	fs, err := fields(v)
	if err != nil {
		return append(append(dst, "raw:"...), v...)
	}
	return c.object(append(dst, "json:"...), fs, true)
}

// fields reads the members of one JSON object, sorted by name. Names are as
// decoded; values are kept as they stand.
func fields(v []byte) ([]field, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return nil, fmt.Errorf("not a JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var fs []field
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := t.String()
		val, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{name, val.Clone()})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one JSON value")
	}
	slices.SortStableFunc(fs, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	return fs, nil
}

func (c *canon) object(dst []byte, fs []field, top bool) []byte {
	dst = append(dst, '{')
	for _, f := range fs {
		if top && (c.skip[f.name] || c.skip["*"] || c.only != nil && !c.only[f.name]) {
			continue
		}
		if c.loose && f.value.Kind() == 'n' {
			continue
		}
		dst = strconv.AppendQuote(dst, f.name)
		dst = append(dst, ':')
		if top && c.times[f.name] && f.value.Kind() == '0' {
			dst = append(append(dst, "time:"...), number(string(f.value))...)
		} else {
			dst = c.any(dst, f.value)
		}
		dst = append(dst, ',')
	}
	return append(dst, '}')
}

// any appends the form of a JSON value.
func (c *canon) any(dst []byte, v jsontext.Value) []byte {
	switch v.Kind() {
	case '{':
		fs, err := fields(v)
		if err != nil {
			return append(dst, v...)
		}
		return c.object(dst, fs, false)
	case '[':
		return c.list(dst, v)
	case '"':
		s, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return append(dst, v...)
		}
		return c.text(dst, string(s))
	case '0':
		if c.loose {
			return append(dst, number(string(v))...)
		}
	case 't', 'f':
		if c.loose {
			return append(dst, map[jsontext.Kind]byte{'t': '1', 'f': '0'}[v.Kind()])
		}
	}
	return append(dst, v...)
}

func (c *canon) list(dst []byte, v jsontext.Value) []byte {
	d := jsontext.NewDecoder(bytes.NewBuffer(v))
	if _, err := d.ReadToken(); err != nil {
		return append(dst, v...)
	}
	dst = append(dst, '[')
	for d.PeekKind() != ']' {
		item, err := d.ReadValue()
		if err != nil {
			return append(dst, v...)
		}
		dst = append(c.any(dst, item), ',')
	}
	return append(dst, ']')
}

func (c *canon) text(dst []byte, s string) []byte {
	if c.loose {
		v := jsontext.Value(s)
		switch {
		case s == "":
		case strings.ContainsRune("-0123456789", rune(s[0])) && v.IsValid():
			return append(dst, number(s)...)
		case (s[0] == '{' || s[0] == '[') && v.IsValid():
			return c.any(dst, v)
		}
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return append(append(dst, "time:"...), number(strconv.FormatInt(t.UnixMilli(), 10))...)
		}
	}
	return strconv.AppendQuote(dst, s)
}

// number gives the one form of a JSON number: an integer of up to 40 digits
// exactly, whatever its notation, and anything else as the nearest double,
// which is what a column of fractions keeps.
func number(s string) string {
	if i, ok := new(big.Int).SetString(s, 10); ok && len(s) <= 40 {
		return i.String()
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	if f == float64(int64(f)) && f < 1<<53 && f > -1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// FieldsID makes an identity of the named top-level fields of a JSON value. A
// field that is not there counts as null.
func FieldsID(v []byte, names []string) ([]byte, error) {
	fs, err := fields(v)
	if err != nil {
		return nil, fmt.Errorf("identity from fields %s: %w", strings.Join(names, ", "), err)
	}
	c := canon{loose: true}
	var id []byte
	for _, name := range names {
		i, ok := slices.BinarySearchFunc(fs, name, func(f field, n string) int { return cmp.Compare(f.name, n) })
		if ok {
			id = c.any(id, fs[i].value)
		}
		id = append(id, 0)
	}
	return id, nil
}
