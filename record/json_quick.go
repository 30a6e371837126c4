package record

import (
	"encoding/binary"
	"unicode/utf8"
)

// quickMembers is up to how many fields are compared one with another to find
// duplicates; a document with more goes the long way.
const quickMembers = 24

// quick validates raw and fills in the members in one pass, for the documents
// that pipelines are mostly made of: flat objects without escapes. false says
// nothing about raw but that it is none of these, or not valid: the strict
// decoder then decides, and words the error. What quick takes, the decoder
// takes too (FuzzQuick), and index finds the same in it.
func (d *Doc) quick(raw []byte) bool {
	pos := skipSpace(raw, 0)
	if pos == len(raw) || raw[pos] != '{' {
		return false
	}
	d.raw, d.body = raw, pos+1
	for cell := d.body; ; cell = pos + 1 {
		d.members = append(d.members, member{cell: cell})
		m := &d.members[len(d.members)-1]
		start := skipSpace(raw, cell)
		pos = quickString(raw, start)
		if pos < 0 {
			return false
		}
		m.name, m.nameEnd = start+1, pos-1
		if !d.fresh() {
			return false
		}
		if pos = skipSpace(raw, pos); pos == len(raw) || raw[pos] != ':' {
			return false
		}
		m.val = skipSpace(raw, pos+1)
		if m.valEnd = quickScalar(raw, m.val); m.valEnd < 0 {
			return false
		}
		pos = skipSpace(raw, m.valEnd)
		m.cellEnd = pos
		if pos == len(raw) {
			return false
		}
		switch raw[pos] {
		case ',':
		case '}':
			d.end = pos
			return skipSpace(raw, pos+1) == len(raw)
		default:
			return false
		}
	}
}

// fresh reports whether no other member has the name of the last one, and there
// are not too many to ask.
func (d *Doc) fresh() bool {
	last := len(d.members) - 1
	if last >= quickMembers {
		return false
	}
	name := d.name(&d.members[last])
	for i := range last {
		if string(d.name(&d.members[i])) == string(name) {
			return false
		}
	}
	return true
}

// quickScalar gives the end of the string, number, bool or null at pos, or -1.
// Whether something allowed follows is for the caller to see.
func quickScalar(b []byte, pos int) int {
	if pos == len(b) {
		return -1
	}
	switch b[pos] {
	case '"':
		return quickString(b, pos)
	case 't':
		return quickWord(b, pos, "true")
	case 'f':
		return quickWord(b, pos, "false")
	case 'n':
		return quickWord(b, pos, "null")
	}
	return quickNumber(b, pos)
}

func quickWord(b []byte, pos int, word string) int {
	end := pos + len(word)
	if end > len(b) || string(b[pos:end]) != word {
		return -1
	}
	return end
}

// quickString gives the end of the string at pos, quotes included, or -1 if
// there is none, or one with an escape or bytes that are not UTF-8.
func quickString(b []byte, pos int) int {
	if pos == len(b) || b[pos] != '"' {
		return -1
	}
	ascii := true
	for i := pos + 1 + plainBytes(b[pos+1:]); i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(b[pos:i]) {
				return -1
			}
			return i + 1
		case c < ' ', c == '\\':
			return -1
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return -1
}

// plainBytes is how many bytes of b, by eights, are ASCII that stands for itself
// inside a string. The arithmetic is that of "Determine if a word has a zero
// byte" in Anderson's Bit Twiddling Hacks: no byte of a word that has a quote, a
// backslash, a control character or a high bit passes.
func plainBytes(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	n := 0
	for ; n+8 <= len(b); n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, escape := x^(ones*'"'), x^(ones*'\\')
		if (x|(quote-ones)|(escape-ones)|(x-ones*' '))&highs != 0 {
			return n
		}
	}
	return n
}

// quickNumber gives the end of the number at pos (RFC 8259, section 6), or -1.
func quickNumber(b []byte, pos int) int {
	if pos < len(b) && b[pos] == '-' {
		pos++
	}
	if pos < len(b) && b[pos] == '0' {
		pos++
	} else if pos = quickDigits(b, pos); pos < 0 {
		return -1
	}
	if pos < len(b) && b[pos] == '.' {
		if pos = quickDigits(b, pos+1); pos < 0 {
			return -1
		}
	}
	if pos < len(b) && (b[pos] == 'e' || b[pos] == 'E') {
		pos++
		if pos < len(b) && (b[pos] == '+' || b[pos] == '-') {
			pos++
		}
		return quickDigits(b, pos)
	}
	return pos
}

// quickDigits gives the end of the digits at pos, or -1 if there are none.
func quickDigits(b []byte, pos int) int {
	from := pos
	for pos < len(b) && b[pos]-'0' <= 9 {
		pos++
	}
	if pos == from {
		return -1
	}
	return pos
}
