package httpsink

import (
	"maps"
	"slices"
	"strings"
)

// validName reports whether s is a token (RFC 9110, section 5.6.2), as names of
// headers are.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// validValue reports whether a header carries s unchanged (RFC 9110, section
// 5.5): no control characters, no blanks at the ends, which a receiver cuts.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return s == strings.Trim(s, " \t")
}

// validKey is stricter, since two keys that a partner could confuse are one
// lost call: not empty, and printable ASCII only.
func validKey(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && validValue(s)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
