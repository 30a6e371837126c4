package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Value is one effective setting and why it is what it is.
type Value struct {
	Path  string `json:"path"`
	Value string `json:"value"` // as a pipeline file would say it; secrets: (set) or (not set)
	// From is default, file, environment or derived.
	From string `json:"from"`
	// Why is for people: the place in the file, the variables, or the reason of
	// the default.
	Why string `json:"why"`
}

// Explain lists every effective setting in the order of the reference, with
// where it came from.
func (f *File) Explain() []Value {
	b, err := describe(reflect.TypeFor[File]())
	if err != nil {
		return nil // the tags of File are checked by every Parse
	}
	e := explainer{f: f}
	e.block(b, reflect.ValueOf(f).Elem(), "")
	return e.out
}

type explainer struct {
	f   *File
	out []Value
}

func (e *explainer) add(s *setting, path, value string) {
	if s.secret {
		value = secretText(value)
	}
	o := e.f.origins[path]
	e.out = append(e.out, Value{Path: path, Value: value, From: o.from.String(), Why: o.text(e.f.Name)})
}

func secretText(value string) string {
	if value == "" {
		return "(not set)"
	}
	return "(set)"
}

func (e *explainer) block(b *block, v reflect.Value, path string) {
	for _, s := range b.settings {
		e.setting(s, v.Field(s.index), join(path, s.name))
	}
	for _, d := range e.f.derived {
		if i := strings.LastIndexByte(d.Path, '.'); d.Path[:i] == path {
			e.out = append(e.out, d)
		}
	}
}

func (e *explainer) setting(s *setting, v reflect.Value, path string) {
	switch s.kind {
	case kindBlock:
		e.block(s.block, v, path)
	case kindOptional:
		if v.IsNil() {
			e.add(s, path, "")
			return
		}
		e.block(s.block, v.Elem(), path)
	case kindBlocks:
		e.list(s, v, path)
	case kindTexts:
		e.add(s, path, flowList(v))
	case kindTextMap:
		e.add(s, path, flowMap(v))
	case kindAssigns:
		e.assigns(s, v.Interface().([]Assign), path)
	case kindSinks:
		e.sinks(v.Interface().([]Sink), path)
	default:
		e.add(s, path, redacted(s.format(v)))
	}
}

func (e *explainer) list(s *setting, v reflect.Value, path string) {
	if v.Len() == 0 {
		e.add(s, path, "")
	}
	for i := range v.Len() {
		at := path + "[" + strconv.Itoa(i) + "]"
		for _, in := range s.block.settings {
			if field := v.Index(i).Field(in.index); !s.oneOf || !field.IsZero() {
				e.setting(in, field, join(at, in.name))
			}
		}
	}
}

func (e *explainer) assigns(s *setting, as []Assign, path string) {
	for _, a := range as {
		e.add(s, join(path, a.Field), a.Expr)
	}
}

func (e *explainer) sinks(sinks []Sink, path string) {
	for _, s := range sinks {
		at := join(path, s.Name)
		if s.Where != "" {
			e.add(sinkWhere(), join(at, "where"), s.Where)
		}
		if b := e.f.kinds[s.Kind]; b != nil {
			e.block(b, reflect.ValueOf(s.Settings).Elem(), join(at, s.Kind))
		}
	}
}

func flowList(v reflect.Value) string {
	if v.Len() == 0 {
		return ""
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = redacted(v.Index(i).String())
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func flowMap(v reflect.Value) string {
	if v.Len() == 0 {
		return ""
	}
	m := map[string]string{}
	for it := v.MapRange(); it.Next(); {
		m[it.Key().String()] = redacted(it.Value().String())
	}
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+": "+m[k])
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// redacted hides the password of a URL, and what its query says: tokens are
// often there.
func redacted(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil {
		return "(an address that cannot be read)"
	}
	if u.User == nil && u.RawQuery == "" {
		return s
	}
	if u.RawQuery != "" {
		pairs := strings.Split(u.RawQuery, "&")
		for i, pair := range pairs {
			name, _, _ := strings.Cut(pair, "=")
			pairs[i] = name + "=xxxxx"
		}
		u.RawQuery = strings.Join(pairs, "&")
	}
	return u.Redacted()
}

// String names the pipeline and the file, and no setting: some are secret.
func (f *File) String() string {
	return fmt.Sprintf("pipeline %s (%s)", f.Pipeline, f.Name)
}
