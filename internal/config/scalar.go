package config

import (
	"cmp"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// scalar fills v from one value.
func (l *loader) scalar(s *setting, n *node, v reflect.Value, path string) {
	t, ok := l.text(s, n, path)
	if !ok {
		return
	}
	if t.value == "" && s.required {
		l.fail(codeRequired, n.pos, path, "is required and empty"+t.via(), exampleOf(s))
		return
	}
	if n.quoted && len(t.vars) == 0 && s.kind != kindText && s.kind != kindDuration && s.kind != kindSize {
		l.fail(codeType, n.pos, path, "needs "+s.noun()+", and "+quote(t.value)+" is text", "remove the quotes")
		return
	}
	if cause := s.store(v, t.value); cause != "" {
		l.badValue(s, n, path, t, cause)
		return
	}
	if cause, remedy := s.inRange(v); cause != "" {
		l.fail(codeRange, n.pos, path, l.shown(s, t)+" "+cause, remedy)
		return
	}
	l.vetText(s, n, t, path)
}

// vetText checks what only text has: enum, pattern, expressions, secrets.
func (l *loader) vetText(s *setting, n *node, t text, path string) {
	switch {
	case s.secret && t.value != "" && (len(t.vars) == 0 || t.plain):
		l.warn(codePlaintext, n.pos, path, "the secret stands in the pipeline file", s.elsewhere())
	case s.enum != nil && !contains(s.enum, t.value) && s.kind == kindText:
		if t.value == "" && !s.required && !s.hasDef {
			return
		}
		l.fail(codeEnum, n.pos, path, "there is no "+s.name+" "+quote(t.value)+t.via(), meant(t.value, s.enum, "one of"))
	case s.pattern != nil && !s.pattern.MatchString(t.value):
		l.fail(codeName, n.pos, path, quote(t.value)+t.via()+" is not allowed", "it must match "+patternText(s))
	case s.expr != "" && strings.TrimSpace(t.value) == "":
		l.fail(codeExpression, n.pos, path, "the expression is empty", exampleOf(s))
	case s.expr != "":
		l.exprs = append(l.exprs, expression{path: path, want: s.expr, text: t, node: n})
	}
}

// elsewhere says where a secret may come from.
func (s *setting) elsewhere() string {
	const env = "take it from the environment with ${NAME}"
	switch s.file {
	case "":
		return env
	case s.name + "_file":
		return env + ", or give a file with " + s.file
	}
	return env + ", or leave the password out of it and give a file with " + s.file
}

// text gives the value of a scalar with variables replaced.
func (l *loader) text(s *setting, n *node, path string) (text, bool) {
	if n.kind != scalarNode {
		l.wrongType(n, path, s.noun(), exampleOf(s))
		return text{}, false
	}
	t, e := l.expand(n, path)
	if e != nil {
		l.errs = append(l.errs, e)
		return text{}, false
	}
	if len(t.vars) > 0 {
		l.origins[path] = origin{from: fromEnvironment, line: n.pos.line, why: strings.Join(t.vars, ", ")}
	}
	return t, true
}

func exampleOf(s *setting) string {
	if s.example == "" {
		return ""
	}
	return "for example " + s.name + ": " + s.example
}

func patternText(s *setting) string {
	return strings.TrimSuffix(strings.TrimPrefix(s.pattern.String(), "^(?:"), ")$")
}

// shown is a value as a message may show it.
func (l *loader) shown(s *setting, t text) string {
	if s.secret {
		return "the secret"
	}
	return quote(t.value) + t.via()
}

func (l *loader) badValue(s *setting, n *node, path string, t text, cause string) {
	remedy := ""
	switch s.kind {
	case kindDuration:
		remedy = "write " + s.noun()
		if cause == "the unit is missing" {
			remedy = "with a unit: " + t.value + "ms, " + t.value + "s or " + t.value + "m"
		}
	case kindBool:
		if near := boolLike(t.value); near != "" {
			remedy = "write " + near
		}
	case kindSize:
		remedy = "write " + s.noun()
	}
	code := codeType
	if s.kind == kindDuration || s.kind == kindSize {
		code = codeUnit
	}
	l.fail(code, n.pos, path, "needs "+s.noun()+", not "+l.shown(s, t)+": "+cause, remedy)
}

func boolLike(s string) string {
	switch strings.ToLower(s) {
	case "yes", "on", "1", "y", "t":
		return "true"
	case "no", "off", "0", "n", "f":
		return "false"
	}
	return ""
}

// store parses text into v by the kind of s; the answer says what is wrong.
func (s *setting) store(v reflect.Value, text string) (cause string) {
	switch s.kind {
	case kindText:
		v.SetString(text)
	case kindBool:
		if text != "true" && text != "false" {
			return "it is neither true nor false"
		}
		v.SetBool(text == "true")
	case kindInt:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			if _, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, ".eEinIN_xX") {
				return "it is too large"
			}
			return "only digits are allowed"
		}
		v.SetInt(n)
	case kindFloat:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return "it is not a number"
		}
		v.SetFloat(x)
	case kindDuration:
		d, err := parseDuration(text)
		if err != nil {
			return err.Error()
		}
		v.SetInt(int64(d))
	case kindSize:
		n, err := parseSize(text)
		if err != nil {
			return err.Error()
		}
		v.SetInt(n)
	}
	return ""
}

// inRange compares v with min and max. Time spans and sizes are never negative.
func (s *setting) inRange(v reflect.Value) (cause, remedy string) {
	var x float64
	switch s.kind {
	case kindInt, kindDuration, kindSize:
		x = float64(v.Int())
	case kindFloat:
		x = v.Float()
	default:
		return "", ""
	}
	bounds := "at least " + s.min
	if s.max != "" {
		bounds = cmp.Or(s.min, "0") + " to " + s.max
	}
	if s.min != "" {
		if lo, _ := s.number(s.min); x < lo {
			return "is too small", "allowed: " + bounds
		}
	}
	if s.max != "" {
		if hi, _ := s.number(s.max); x > hi {
			return "is too large", "allowed: " + bounds
		}
	}
	return "", ""
}

// format writes a scalar as a pipeline file would.
func (s *setting) format(v reflect.Value) string {
	switch s.kind {
	case kindBool:
		return strconv.FormatBool(v.Bool())
	case kindInt:
		return strconv.FormatInt(v.Int(), 10)
	case kindFloat:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case kindDuration:
		return formatDuration(time.Duration(v.Int()))
	case kindSize:
		return formatSize(v.Int())
	}
	return v.String()
}
