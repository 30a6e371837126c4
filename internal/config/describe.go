package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type kind int

const (
	kindText kind = iota
	kindBool
	kindInt
	kindFloat
	kindDuration
	kindSize
	kindTexts    // []string
	kindTextMap  // map[string]string
	kindBlock    // a struct
	kindOptional // a pointer to a struct
	kindBlocks   // []struct
	kindAssigns  // []Assign, ordered
	kindSinks    // []Sink
)

// noun says what a setting of a kind takes, for errors.
func (s *setting) noun() string {
	switch s.kind {
	case kindBool:
		return "true or false"
	case kindInt:
		return "a whole number"
	case kindFloat:
		return "a number"
	case kindDuration:
		return "a time span such as 100ms, 5m or 7d"
	case kindSize:
		return "a size such as 64KB, 16MiB or 4096"
	case kindTexts:
		return "a list of texts"
	case kindBlocks:
		return "a list"
	case kindTextMap, kindBlock, kindOptional, kindAssigns, kindSinks:
		return "a mapping"
	}
	if s.expr != "" {
		return "an expression"
	}
	return "text"
}

// setting is the one description of a setting, read from its field's tags.
type setting struct {
	name     string
	index    int // of the field in its struct
	kind     kind
	typ      reflect.Type
	doc      string
	def      string
	hasDef   bool
	why      string // why the default is what it is
	example  string
	expr     string // what an expression evaluates to; "": not an expression
	enum     []string
	min, max string
	pattern  *regexp.Regexp
	required bool
	secret   bool
	file     string // of a secret: the setting beside it that takes it from a file, or the password in it; "": none
	oneOf    bool   // entries of kindBlocks have exactly one setting each
	block    *block // of kindBlock, kindOptional, kindBlocks
}

// block is a mapping with known settings.
type block struct {
	typ      reflect.Type
	settings []*setting
}

func (b *block) find(name string) *setting {
	for _, s := range b.settings {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (b *block) names() []string {
	out := make([]string, len(b.settings))
	for i, s := range b.settings {
		out[i] = s.name
	}
	return out
}

// secrets adds the names of all secret settings in b.
func (b *block) secrets(into map[string]bool) {
	for _, s := range b.settings {
		if s.secret && s.kind != kindTextMap {
			into[s.name] = true
		}
		if s.block != nil {
			s.block.secrets(into)
		}
	}
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	assignsType  = reflect.TypeFor[[]Assign]()
	sinksType    = reflect.TypeFor[[]Sink]()
)

// describe reads the tags of a struct. Its errors are for who wrote the struct.
func describe(t reflect.Type) (*block, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	b := &block{typ: t}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || name == "-" || name == "" {
			continue
		}
		s, err := describeField(f, name)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		s.index = i
		b.settings = append(b.settings, s)
	}
	b.files()
	return b, nil
}

// files finds the settings that take secrets from files.
func (b *block) files() {
	for _, s := range b.settings {
		for _, file := range []string{s.name + "_file", passwordFile} {
			if s.secret && s.kind == kindText && b.find(file) != nil {
				s.file = file
				break
			}
		}
	}
}

// passwordFile is also for secrets that have a password in them, such as a dsn.
const passwordFile = "password_file"

func describeField(f reflect.StructField, name string) (*setting, error) {
	s := &setting{
		name: name, typ: f.Type, doc: f.Tag.Get("doc"), why: f.Tag.Get("why"),
		example: f.Tag.Get("example"), expr: f.Tag.Get("expr"), min: f.Tag.Get("min"), max: f.Tag.Get("max"),
		required: f.Tag.Get("required") == "true", secret: f.Tag.Get("secret") == "true",
		oneOf: f.Tag.Get("one_of") == "true",
	}
	s.def, s.hasDef = f.Tag.Lookup("default")
	if e := f.Tag.Get("enum"); e != "" {
		s.enum = strings.Split(e, "|")
	}
	if p := f.Tag.Get("pattern"); p != "" {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, fmt.Errorf("pattern: %w", err)
		}
		s.pattern = re
	}
	if s.doc == "" {
		return nil, fmt.Errorf("setting %q has no doc", name)
	}
	if err := s.classify(f); err != nil {
		return nil, err
	}
	return s, s.checkTags()
}

func (s *setting) classify(f reflect.StructField) (err error) {
	t := f.Type
	switch {
	case t == durationType:
		s.kind = kindDuration
	case t == assignsType:
		s.kind = kindAssigns
	case t == sinksType:
		s.kind = kindSinks
	case f.Tag.Get("unit") == "bytes" && t.Kind() == reflect.Int64:
		s.kind = kindSize
	case t.Kind() == reflect.String:
		s.kind = kindText
	case t.Kind() == reflect.Bool:
		s.kind = kindBool
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		s.kind = kindInt
	case t.Kind() == reflect.Float64:
		s.kind = kindFloat
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		s.kind = kindTexts
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		s.kind = kindTextMap
	case t.Kind() == reflect.Struct:
		s.kind = kindBlock
		s.block, err = describe(t)
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		s.kind = kindOptional
		s.block, err = describe(t.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		s.kind = kindBlocks
		s.block, err = describe(t.Elem())
	default:
		err = fmt.Errorf("settings of type %s are not supported", t)
	}
	return err
}

// checkTags finds tags that could not work: they are read here once, so that a
// mistake in a struct shows in the first test and not at a user's.
func (s *setting) checkTags() error {
	switch s.expr {
	case "", "string", "bool", "int", "bytes", "any", "list":
	default:
		return fmt.Errorf("expr: there is no type %q", s.expr)
	}
	if s.unknownDefaultKind() {
		return fmt.Errorf("default: not for %s", s.typ)
	}
	for _, text := range []string{s.def, s.min, s.max} {
		if text == "" {
			continue
		}
		if s.kind != kindTexts {
			if _, err := s.number(text); err != nil {
				return fmt.Errorf("%q: %w", text, err)
			}
		}
	}
	if s.hasDef && s.enum != nil && s.def != "" && !contains(s.enum, s.def) {
		return fmt.Errorf("default %q is not in the enum", s.def)
	}
	return nil
}

func (s *setting) unknownDefaultKind() bool {
	return s.hasDef && s.kind > kindTexts
}

// number reads a value of an ordered kind for comparison with min and max; 0
// for other kinds.
func (s *setting) number(text string) (float64, error) {
	switch s.kind {
	case kindInt, kindFloat:
		return strconv.ParseFloat(text, 64)
	case kindDuration:
		d, err := parseDuration(text)
		return float64(d), err
	case kindSize:
		n, err := parseSize(text)
		return float64(n), err
	case kindBool:
		_, err := strconv.ParseBool(text)
		return 0, err
	}
	return 0, nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
