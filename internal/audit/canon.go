package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"exactly/internal/decimal"
	"exactly/record"
)

// hash is the first 16 bytes of a SHA-256: among a billion records the chance
// that any two are mixed up is below one in 10^20.
type hash [16]byte

func sum(b []byte) hash {
	s := sha256.Sum256(b)
	return hash(s[:16])
}

// canon brings values into one form, so that equal values are equal bytes. It
// is used by one goroutine at a time.
type canon struct {
	loose bool
	only  map[string]bool // top-level fields to keep; nil: all
	skip  map[string]bool // top-level fields to leave out; "*": all
	times map[string]bool // top-level fields that hold a time
	given map[string]bool // with only: those that the source was seen to give; nil: it is read no more

	doc record.Doc
	top []field
}

func newCanon(s Shape, skip []string) *canon {
	c := &canon{loose: s.Loose, skip: set(skip), times: set(s.Times)}
	if s.Fields != nil {
		c.only, c.given = set(s.Fields), map[string]bool{}
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

// field is a member of a JSON object; its value is valid JSON as it stands.
type field struct {
	name  string
	value []byte
}

func byName(a, b field) int { return cmp.Compare(a.name, b.name) }

// value appends the form of a record's value. What is no JSON object is taken
// as it is, and so is nil, which is not the same as empty.
func (c *canon) value(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "tombstone"...)
	}
	if err := c.doc.Reset(v); err != nil {
		return append(append(dst, "raw:"...), v...)
	}
	c.top = c.top[:0]
	for name, value := range c.doc.All() {
		if !c.skip[name] && !c.skip["*"] && (c.only == nil || c.only[name]) {
			c.top = append(c.top, field{name, value})
			if c.given != nil && !c.given[name] {
				c.given[name] = true
			}
		}
	}
	dst = append(dst, "json:"...)
	slices.SortFunc(c.top, byName)
	for _, f := range c.top {
		if c.times[f.name] && isNumber(f.value) {
			dst = append(name(dst, f.name), "time:"+number(string(f.value))...)
			continue
		}
		dst = c.member(dst, f)
	}
	return dst
}

// learned ends the reading of the source: a column that no record gives is not of
// the sink, whatever its default is.
func (c *canon) learned() {
	if c.given != nil {
		c.only, c.given = c.given, nil
	}
}

// member appends name and value, unless they count as absent.
func (c *canon) member(dst []byte, f field) []byte {
	if c.loose && f.value[0] == 'n' {
		return dst
	}
	return c.any(name(dst, f.name), f.value)
}

func name(dst []byte, s string) []byte { return append(text(dst, s), ':') }

// text appends a string with its length, so that no content can look like
// something else.
func text(dst []byte, s string) []byte {
	dst = strconv.AppendInt(append(dst, '"'), int64(len(s)), 10)
	return append(append(dst, ' '), s...)
}

// any appends the form of a JSON value.
func (c *canon) any(dst, v []byte) []byte {
	switch v[0] {
	case '{':
		return c.object(dst, v)
	case '[':
		dst = append(dst, '[')
		for item := range record.Elements(v) {
			dst = append(c.any(dst, item), ',')
		}
		return append(dst, ']')
	case '"':
		return c.text(dst, unquote(v))
	case 't', 'f':
		if c.loose {
			return append(dst, map[byte]byte{'t': '1', 'f': '0'}[v[0]])
		}
	case 'n':
	default:
		if c.loose {
			return append(dst, number(string(v))...)
		}
	}
	return append(dst, v...)
}

func (c *canon) object(dst, v []byte) []byte {
	var fs []field
	for name, value := range record.Members(v) {
		fs = append(fs, field{name, value})
	}
	slices.SortStableFunc(fs, byName)
	dst = append(dst, '{')
	for _, f := range fs {
		dst = append(c.member(dst, f), ',')
	}
	return append(dst, '}')
}

func unquote(v []byte) string {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return string(v)
	}
	return string(s)
}

// text appends the form of a string.
func (c *canon) text(dst []byte, s string) []byte {
	if !c.loose || s == "" {
		return text(dst, s)
	}
	switch {
	case isNumber([]byte(s)):
		return append(dst, number(s)...)
	case (s[0] == '{' || s[0] == '[') && jsontext.Value(s).IsValid():
		return c.any(dst, []byte(strings.TrimSpace(s)))
	case len(s) >= len("2006-01-02T15:04:05Z") && s[4] == '-' && s[10] == 'T':
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return append(dst, "time:"+strconv.FormatInt(t.UnixMilli(), 10)...)
		}
	}
	return text(dst, s)
}

// isNumber reports whether v is a number as JSON writes it.
func isNumber(v []byte) bool {
	if len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return false
	}
	for _, b := range v {
		if (b < '0' || b > '9') && b != '.' && b != '-' && b != '+' && b != 'e' && b != 'E' {
			return false
		}
	}
	return jsontext.Value(v).IsValid()
}

// number gives the one form of a JSON number: an integer of up to 40 digits
// exactly, whatever its notation, and anything else as the nearest double,
// which is what a column of fractions keeps.
func number(s string) string {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.FormatInt(i, 10)
	}
	d, ok := decimal.Parse(s)
	if !ok {
		return s
	}
	if i, ok := d.Integer(40); ok {
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	if i, ok := decimal.OfFloat(f).Integer(40); ok {
		return i
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// FieldsID makes an identity of the named top-level fields of a JSON value. A
// field that is not there counts as null.
func FieldsID(v []byte, names []string) ([]byte, error) {
	var doc record.Doc
	if err := doc.Reset(v); err != nil {
		return nil, fmt.Errorf("identity from fields %s: %w", strings.Join(names, ", "), err)
	}
	c := canon{loose: true}
	var id []byte
	for _, name := range names {
		if raw, ok := doc.Get(name); ok {
			id = c.any(id, raw)
		}
		id = append(id, 0)
	}
	return id, nil
}
