package config

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text is the value of a scalar behind its variables.
type text struct {
	value string
	vars  []string // variables and files that it came from: ${NAME}, without defaults
	plain bool     // part of it, a default of a variable, stands in the file
	spans []span   // of value that were replaced, in order
}

// span maps a replaced part of the value back to what was written.
type span struct {
	from, to   int // in runes of the value
	wasFrom    int // in runes of what was written
	wasThrough int
}

// via gives " (from ${NAME})" for messages.
func (t text) via() string {
	if len(t.vars) == 0 {
		return ""
	}
	return " (from " + strings.Join(t.vars, ", ") + ")"
}

// written maps a rune of the value to the rune of what was written; inside a
// replaced part, to its beginning.
func (t text) written(rune int) int {
	shift := 0
	for _, s := range t.spans {
		if rune < s.from {
			break
		}
		if rune < s.to {
			return s.wasFrom
		}
		shift = s.wasThrough - s.to
	}
	return rune + shift
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME}, ${NAME:-default} and ${file:/path}; $${ stands for a
// literal ${.
func (l *loader) expand(n *node, path string) (text, *Error) {
	if !strings.Contains(n.text, "${") {
		return text{value: n.text}, nil
	}
	var t text
	var out strings.Builder
	rest, outRunes, inRunes := n.text, 0, 0
	emit := func(s string) {
		out.WriteString(s)
		outRunes += utf8.RuneCountInString(s)
	}
	for rest != "" {
		i := strings.Index(rest, "${")
		if i < 0 {
			emit(rest)
			break
		}
		literal := i > 0 && rest[i-1] == '$'
		plain := rest[:i]
		if literal {
			plain = rest[:i-1]
		}
		emit(plain)
		inRunes += utf8.RuneCountInString(rest[:i])
		if literal {
			t.spans = append(t.spans, span{outRunes, outRunes + 2, inRunes - 1, inRunes + 2})
			emit("${")
			rest, inRunes = rest[i+2:], inRunes+2
			continue
		}
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			return t, l.src.fault(codeVariable, l.place(n, inRunes, 2), path, "${ is never closed", "close it with }, or write $${ for a literal ${")
		}
		written := rest[i : i+end+1]
		at := inRunes
		value, e := l.variable(written, path, func() pos { return l.place(n, at, utf8.RuneCountInString(written)) })
		if e != nil {
			return t, e
		}
		width := utf8.RuneCountInString(written)
		t.spans = append(t.spans, span{outRunes, outRunes + utf8.RuneCountInString(value), inRunes, inRunes + width})
		emit(value)
		name, _, hasDefault := strings.Cut(strings.TrimSuffix(written, "}"), ":-")
		t.vars, t.plain = append(t.vars, name+"}"), t.plain || hasDefault
		rest, inRunes = rest[i+end+1:], inRunes+width
	}
	t.value = out.String()
	return t, nil
}

// variable gives the value of ${…}.
func (l *loader) variable(written, path string, place func() pos) (string, *Error) {
	inner := written[2 : len(written)-1]
	if name, ok := strings.CutPrefix(inner, "file:"); ok {
		return l.fileText(name, path, place)
	}
	name, def, hasDef := strings.Cut(inner, ":-")
	if !variableName.MatchString(name) {
		return "", l.src.fault(codeVariable, place(), path, quote(written)+" names no variable",
			"write ${NAME}, ${NAME:-default} or ${file:/path}; $${ stands for a literal ${")
	}
	value, ok := l.env(name)
	switch {
	case hasDef && value == "":
		return def, nil
	case !ok:
		return "", l.src.fault(codeVariable, place(), path, "the environment has no variable "+name,
			"set it before the start, or give a default: ${"+name+":-…}")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return "", l.src.fault(codeVariable, place(), path, "the variable "+name+" is not UTF-8 text", "set it to text")
	}
	return value, nil
}

// maxFileText bounds a file that ${file:…} includes.
const maxFileText = 64 << 10

func (l *loader) fileText(name, path string, place func() pos) (string, *Error) {
	info, err := os.Stat(name)
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a file")
	case info.Size() > maxFileText:
		err = errors.New("it has more than " + strconv.Itoa(maxFileText) + " bytes")
	default:
		data, err = os.ReadFile(name)
	}
	if err == nil && !utf8.Valid(data) {
		err = errors.New("it is not UTF-8 text")
	}
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", l.src.fault(codeFile, place(), path, "cannot read the file "+quote(name)+": "+err.Error(), "is the path right, and can this user read it?")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}
