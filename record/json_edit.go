package record

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Path is where a field is: its name at the top level, then the names inside.
type Path []string

// ParsePath reads "a" or "a.b.c". A dot or backslash that belongs to a name is
// written with a backslash before it.
func ParsePath(s string) (Path, error) {
	var (
		path Path
		name strings.Builder
	)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i == len(s) || s[i] != '.' && s[i] != '\\' {
				return nil, fmt.Errorf(`field %q: a backslash must stand before a dot or a backslash`, s)
			}
			name.WriteByte(s[i])
		case '.':
			path = append(path, name.String())
			name.Reset()
		default:
			name.WriteByte(c)
		}
	}
	path = append(path, name.String())
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("field %q: not UTF-8", s)
	}
	for _, n := range path {
		if n == "" {
			return nil, fmt.Errorf("field %q: a name is empty", s)
		}
	}
	return path, nil
}

// String gives the path in the form that ParsePath reads.
func (p Path) String() string {
	if len(p) == 1 && !strings.ContainsAny(p[0], `.\`) {
		return p[0]
	}
	esc := strings.NewReplacer(`\`, `\\`, `.`, `\.`)
	names := make([]string, len(p))
	for i, n := range p {
		names[i] = esc.Replace(n)
	}
	return strings.Join(names, ".")
}

// Set replaces the value of a field, or adds it at the end of its object;
// objects on the way that do not exist are made. value is valid JSON; the Doc
// keeps it until the next Reset. A field on the way that is not an object is an
// error, and nothing is changed. value has no white space around it.
func (d *Doc) Set(path Path, value []byte) error {
	i := d.Find(path[0])
	if len(path) > 1 {
		var inner []byte
		if i >= 0 {
			inner = d.Value(i)
		}
		v, err := d.setInside(inner, path, value)
		if err != nil {
			return err
		}
		value = v
	}
	d.edited = true
	if i >= 0 {
		d.give(&d.members[i], value)
		return nil
	}
	from := len(d.names)
	d.names = append(d.names, path[0]...)
	d.members = append(d.members, member{name: from, nameEnd: len(d.names), arena: true, given: len(d.given), state: added})
	d.given = append(d.given, value)
	return nil
}

// give replaces the value of a member.
func (d *Doc) give(m *member, value []byte) {
	if m.state == original {
		m.state, m.given, d.altered = replaced, len(d.given), true
		d.given = append(d.given, value)
		return
	}
	d.given[m.given] = value
}

// setInside gives the object outer with the rest of path set; nil is no object.
func (d *Doc) setInside(outer []byte, path Path, value []byte) ([]byte, error) {
	in := d.inside()
	if outer != nil {
		if outer[0] != '{' {
			return nil, fmt.Errorf("field %s is a JSON %s, not an object: nothing can be set in it",
				path[:1], kindName(jsontext.Value(outer).Kind()))
		}
		in.index(outer)
	}
	if err := in.Set(path[1:], value); err != nil {
		return nil, fmt.Errorf("in %s: %w", path[:1], err)
	}
	return in.Append(nil), nil
}

func (d *Doc) inside() *Doc {
	if d.scratch == nil {
		d.scratch = &Doc{}
	}
	d.scratch.clear()
	return d.scratch
}

// Remove takes a field away and reports whether it was there.
func (d *Doc) Remove(path Path) bool {
	i := d.Find(path[0])
	if i < 0 {
		return false
	}
	m := &d.members[i]
	if len(path) == 1 {
		d.altered = d.altered || m.state == original
		m.state = removed
		d.edited = true
		return true
	}
	value := d.value(m)
	if value[0] != '{' {
		return false
	}
	in := d.inside()
	in.index(value)
	if !in.Remove(path[1:]) {
		return false
	}
	d.give(m, in.Append(nil))
	d.edited = true
	return true
}

// Edited reports whether anything was set or removed since Reset.
func (d *Doc) Edited() bool { return d.edited }

// Append appends the document with its changes to dst.
func (d *Doc) Append(dst []byte) []byte {
	if d.raw != nil && !d.edited {
		return append(dst, d.raw...)
	}
	last := d.lastOriginal()
	if last >= 0 && !d.altered {
		return d.appendAdded(dst, d.members[last].valEnd, d.members[last+1:])
	}
	if d.raw == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, d.raw[:d.body]...)
	}
	var tail []byte // white space before the closing brace
	first := true
	for i := range d.members {
		m := &d.members[i]
		if m.state == removed {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		switch {
		case m.state == added:
			dst = append(appendName(dst, d.name(m)), ':')
			dst = append(dst, d.value(m)...)
			continue
		case i == last:
			tail = d.raw[m.valEnd:m.cellEnd]
			dst = append(dst, d.raw[m.cell:m.val]...)
			dst = append(dst, d.value(m)...)
		default:
			dst = append(dst, d.raw[m.cell:m.val]...)
			dst = append(dst, d.value(m)...)
			dst = append(dst, d.raw[m.valEnd:m.cellEnd]...)
		}
	}
	dst = append(dst, tail...)
	if d.raw == nil {
		return append(dst, '}')
	}
	return append(dst, d.raw[d.end:]...)
}

// appendAdded is Append where nothing that came with the bytes was changed: end
// is that of its last value.
func (d *Doc) appendAdded(dst []byte, end int, more []member) []byte {
	dst = append(dst, d.raw[:end]...)
	for i := range more {
		if m := &more[i]; m.state != removed {
			dst = append(dst, ',')
			dst = append(appendName(dst, d.name(m)), ':')
			dst = append(dst, d.value(m)...)
		}
	}
	return append(dst, d.raw[end:]...)
}

// appendName appends a field's name in quotes.
func appendName(dst, name []byte) []byte {
	for _, c := range name {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			dst, _ = jsontext.AppendQuote(dst, name)
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"')
}

// lastOriginal is the index of the last field that came with the bytes and is
// still there, or -1.
func (d *Doc) lastOriginal() int {
	for i := len(d.members) - 1; i >= 0; i-- {
		if m := &d.members[i]; m.state != removed && m.state != added {
			return i
		}
	}
	return -1
}

// Size is about how many bytes Append gives.
func (d *Doc) Size() int {
	n := len(d.raw) + 2
	for i := range d.members {
		m := &d.members[i]
		switch m.state {
		case added:
			n += m.nameEnd - m.name + len(d.value(m)) + 4
		case replaced:
			n += len(d.value(m)) - (m.valEnd - m.val)
		}
	}
	return n
}
