package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Error is one thing that is wrong with a pipeline file, for people.
type Error struct {
	Code   string `json:"code"`             // stable, see Codes
	File   string `json:"file"`             // as it was given to Load or Parse
	Line   int    `json:"line,omitempty"`   // from 1; 0: the file as a whole
	Column int    `json:"column,omitempty"` // in characters, from 1
	Path   string `json:"path,omitempty"`   // of the setting, e.g. "sinks.records.sqlite.key"
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`

	excerpt string
}

// Error prints place, cause, code, the line of the file with a caret, and the
// remedy. Secrets in the line are hidden.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column))
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Cause + " [" + e.Code + "]")
	b.WriteString(e.excerpt)
	if e.Remedy != "" {
		b.WriteString("\n  " + strings.ReplaceAll(e.Remedy, "\n", "\n  "))
	}
	return b.String()
}

// Errors are all errors of one file, in the order of the file; never empty.
type Errors []*Error

// shown bounds how many errors Errors.Error prints.
const shown = 20

// Error prints each error, at most twenty, and how many there are.
func (es Errors) Error() string {
	parts := make([]string, 0, len(es)+1)
	for _, e := range es[:min(len(es), shown)] {
		parts = append(parts, e.Error())
	}
	if n := len(es) - shown; n > 0 {
		parts = append(parts, fmt.Sprintf("… and %d more", n))
	}
	return strings.Join(parts, "\n\n")
}

// Unwrap gives the errors one by one.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// List gives the errors of a file that err holds, in its order; nil, if err
// comes from elsewhere.
func List(err error) []*Error {
	var es Errors
	if errors.As(err, &es) {
		return es
	}
	var e *Error
	if errors.As(err, &e) {
		return []*Error{e}
	}
	return nil
}

func (es Errors) sorted() Errors {
	slices.SortStableFunc(es, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return es
}

// pos is a place in a file; the zero pos is the file as a whole.
type pos struct {
	line, col int // from 1, characters
	width     int // characters that the caret underlines; at least 1 is drawn
}

// source is the text of a file, for excerpts.
type source struct {
	name    string
	lines   []string
	secrets map[string]bool // names of settings whose values excerpts hide
	hidden  map[int]int     // lines whose text from a column (from 0) on excerpts hide
	// cache is the line asked for last: one line may hold thousands of errors.
	cache atomic.Pointer[runeLine]
}

type runeLine struct {
	line  int
	runes []rune // never changed
}

// alwaysSecret are names that hold secrets wherever they stand.
var alwaysSecret = []string{"password", "token", "secret", "authorization", "Authorization", "api_key", "dsn"}

// runes gives the characters of a line (from 1), which the caller must not
// change.
func (s *source) runes(line int) []rune {
	c := s.cache.Load()
	if c == nil || c.line != line {
		c = &runeLine{line, []rune(s.lines[line-1])}
		s.cache.Store(c)
	}
	return c.runes
}

func newSource(name, text string) *source {
	s := &source{name: name, lines: strings.Split(text, "\n"), secrets: map[string]bool{}, hidden: map[int]int{}}
	for _, name := range alwaysSecret {
		s.secrets[name] = true
	}
	return s
}

func (s *source) fault(code string, p pos, path, cause, remedy string) *Error {
	if p.line > len(s.lines) { // the YAML library's places are not always exact
		p = pos{line: len(s.lines), col: 1}
	}
	return &Error{
		Code: code, File: s.name, Line: p.line, Column: p.col,
		Path: path, Cause: cause, Remedy: remedy, excerpt: s.excerpt(p),
	}
}

// maxExcerpt bounds the characters of a line that an excerpt shows.
const maxExcerpt = 120

// excerpt gives "\n  12 |   line\n     |   ^^^", or "" where there is no line.
func (s *source) excerpt(p pos) string {
	if p.line < 1 || p.line > len(s.lines) || p.col < 1 {
		return ""
	}
	line := slices.Clone(s.runes(p.line))
	col := min(p.col-1, len(line))
	hide := s.secretAt(line)
	if at, ok := s.hidden[p.line]; ok && (hide < 0 || at < hide) {
		hide = min(at, len(line))
	}
	start := 0
	if col > maxExcerpt*3/4 {
		start = col - maxExcerpt/2
	}
	width := max(p.width, 1)
	if hide >= 0 && col >= hide {
		col, width, start = hide, 1, min(start, hide)
	}
	if hide >= 0 {
		line = append(slices.Clone(line[:hide]), []rune("(hidden)")...)
	}
	end := min(len(line), start+maxExcerpt)
	text := string(line[start:end])
	width = max(1, min(width, end-col))

	number := strconv.Itoa(p.line)
	gutter := strings.Repeat(" ", len(number))
	var pad strings.Builder
	for _, r := range line[start:min(col, len(line))] {
		if r == '\t' {
			pad.WriteRune('\t')
		} else {
			pad.WriteRune(' ')
		}
	}
	return fmt.Sprintf("\n  %s | %s\n  %s | %s%s", number, printable(text), gutter, pad.String(), strings.Repeat("^", width))
}

// fromElsewhere is a value that is a variable and nothing else.
var fromElsewhere = regexp.MustCompile(`^"?\$\{(file:[^}:]*|[A-Za-z0-9_]+)\}"?[ }]*$`)

// secretAt gives the column (from 0) behind "name:" of the first secret in a
// line, or -1.
func (s *source) secretAt(line []rune) int {
	text := string(line)
	best := -1
	for name := range s.secrets {
		for from := 0; ; {
			i := strings.Index(text[from:], name)
			if i < 0 {
				break
			}
			i += from
			from = i + len(name)
			rest := strings.TrimLeft(text[from:], `"' `)
			boundary := i == 0 || strings.ContainsRune(` {,"'`, rune(text[i-1]))
			if !boundary || !strings.HasPrefix(rest, ":") {
				continue
			}
			value := strings.TrimLeft(rest[1:], " ")
			if value == "" || fromElsewhere.MatchString(value) {
				continue
			}
			if at := len([]rune(text[:len(text)-len(value)])); best < 0 || at < best {
				best = at
			}
		}
	}
	for _, at := range append(s.misspelt(text), userinfo(text)...) {
		if at = len([]rune(text[:at])); best < 0 || at < best {
			best = at
		}
	}
	return best
}

// settingAt finds names that are followed by a value on the same line.
var settingAt = regexp.MustCompile(`([A-Za-z_]{4,})["']?\s*:\s+(\S)`)

// misspelt gives where the values of names begin that are nearly the name of a
// secret: a typing error must not show what it was about.
func (s *source) misspelt(text string) []int {
	var out []int
	for _, m := range settingAt.FindAllStringSubmatchIndex(text, -1) {
		name, value := text[m[2]:m[3]], m[4]
		for secret := range s.secrets {
			if len(secret) >= 5 && distance(fold(name), fold(secret)) <= 2 && !fromElsewhere.MatchString(text[value:]) {
				out = append(out, value)
				break
			}
		}
	}
	return out
}

var urlWithUser = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/@\s"']+@`)

// userinfo gives where the user and password of a URL begin.
func userinfo(text string) []int {
	var out []int
	for _, m := range urlWithUser.FindAllStringIndex(text, -1) {
		out = append(out, m[0]+strings.Index(text[m[0]:m[1]], "://")+len("://"))
	}
	return out
}

// printable keeps control characters from reaching a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
}
