package record

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// What is here reads JSON that is known to be valid, so it looks for ends only.

// index fills in the members of raw, a valid JSON object.
func (d *Doc) index(raw []byte) {
	d.raw = raw
	pos := skipSpace(raw, 0) + 1
	d.body = pos
	for {
		m := member{cell: pos}
		pos = skipSpace(raw, pos)
		if raw[pos] == '}' { // only of an empty object
			break
		}
		start := pos
		pos = skipString(raw, pos)
		m.name, m.nameEnd = start+1, pos-1
		if quoted := raw[start:pos]; bytes.IndexByte(quoted, '\\') >= 0 {
			m.name, m.arena = len(d.names), true
			d.names, _ = jsontext.AppendUnquote(d.names, quoted) // valid: no error
			m.nameEnd = len(d.names)
		}
		pos = skipSpace(raw, pos) + 1 // the colon
		m.val = skipSpace(raw, pos)
		m.valEnd = skipValue(raw, m.val)
		pos = skipSpace(raw, m.valEnd)
		m.cellEnd = pos
		d.members = append(d.members, m)
		if raw[pos] == '}' {
			break
		}
		pos++ // the comma
	}
	d.end = pos
}

// unquoteName unescapes a quoted name, into the arena if it has escapes.
func unquoteName(arena *[]byte, quoted []byte) []byte {
	for _, c := range quoted {
		if c != '\\' {
			continue
		}
		from := len(*arena)
		*arena, _ = jsontext.AppendUnquote(*arena, quoted) // valid: no error
		return (*arena)[from:]
	}
	return quoted[1 : len(quoted)-1]
}

func skipSpace(b []byte, pos int) int {
	for pos < len(b) && (b[pos] == ' ' || b[pos] == '\n' || b[pos] == '\r' || b[pos] == '\t') {
		pos++
	}
	return pos
}

func skipString(b []byte, pos int) int {
	for pos++; b[pos] != '"'; pos++ {
		if b[pos] == '\\' {
			pos++
		}
	}
	return pos + 1
}

func skipValue(b []byte, pos int) int {
	switch b[pos] {
	case '"':
		return skipString(b, pos)
	case '{', '[':
		return skipNested(b, pos)
	}
	for pos < len(b) {
		switch b[pos] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return pos
		}
		pos++
	}
	return pos
}

func skipNested(b []byte, pos int) int {
	depth := 0
	for {
		switch b[pos] {
		case '"':
			pos = skipString(b, pos)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return pos + 1
			}
		}
		pos++
	}
}

// Lookup gives the raw JSON of a nested field of value, which must be valid
// JSON, such as Doc and Elements give. An empty path gives value itself.
func Lookup(value []byte, path ...string) ([]byte, bool) {
	for _, name := range path {
		var found bool
		if value, found = lookup(value, name); !found {
			return nil, false
		}
	}
	return value, true
}

func lookup(value []byte, name string) ([]byte, bool) {
	pos := skipSpace(value, 0)
	if pos >= len(value) || value[pos] != '{' {
		return nil, false
	}
	var arena []byte
	for pos = skipSpace(value, pos+1); value[pos] != '}'; {
		end := skipString(value, pos)
		found := string(unquoteName(&arena, value[pos:end])) == name
		start := skipSpace(value, skipSpace(value, end)+1)
		if pos = skipValue(value, start); found {
			return value[start:pos:pos], true
		}
		if pos = skipSpace(value, pos); value[pos] == ',' {
			pos = skipSpace(value, pos+1)
		}
	}
	return nil, false
}

// Members ranges over the fields of a valid JSON object, in order, with their
// raw JSON. It yields nothing for another kind of value.
func Members(value []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		pos := skipSpace(value, 0)
		if pos >= len(value) || value[pos] != '{' {
			return
		}
		var arena []byte
		for pos = skipSpace(value, pos+1); value[pos] != '}'; {
			end := skipString(value, pos)
			name := unquoteName(&arena, value[pos:end])
			start := skipSpace(value, skipSpace(value, end)+1)
			pos = skipValue(value, start)
			if !yield(string(name), value[start:pos:pos]) {
				return
			}
			if pos = skipSpace(value, pos); value[pos] == ',' {
				pos = skipSpace(value, pos+1)
			}
		}
	}
}

// Elements ranges over the elements of a valid JSON array, in order. It yields
// nothing for another kind of value.
func Elements(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		pos := skipSpace(value, 0)
		if pos >= len(value) || value[pos] != '[' {
			return
		}
		for pos = skipSpace(value, pos+1); value[pos] != ']'; {
			start := pos
			pos = skipValue(value, start)
			if !yield(value[start:pos:pos]) {
				return
			}
			if pos = skipSpace(value, pos); value[pos] == ',' {
				pos = skipSpace(value, pos+1)
			}
		}
	}
}
