package step

import (
	"errors"
	"fmt"
	"maps"

	"exactly/record"
	"exactly/step/cel"
)

// compiler carries what the steps so far make of the record.
type compiler struct {
	format Format
	env    *cel.Env            // with the epoch, fields as they are now
	fields map[string]cel.Type // nil: not declared
	taint  taint
	prog   *Program
}

// Compile checks the steps and makes them ready to run. The error is a
// *CompileError if a step is wrong.
func Compile(specs []Spec, opts Options) (*Program, error) {
	if opts.Format == "" {
		opts.Format = JSON
	}
	if opts.Format != JSON && opts.Format != Raw {
		return nil, fmt.Errorf("compile steps: unknown format %q; there are json and raw", opts.Format)
	}
	fields, err := parseFields(opts.Fields)
	if err != nil {
		return nil, err
	}
	co := cel.Options{Fields: fields, Raw: opts.Format == Raw, Epoch: true}
	env, err := cel.NewEnv(co)
	if err != nil {
		return nil, fmt.Errorf("compile steps: %w", err)
	}
	co.Epoch, co.Checked = false, opts.Format == JSON
	after, err := cel.NewEnv(co)
	if err != nil {
		return nil, fmt.Errorf("compile steps: %w", err)
	}
	c := &compiler{format: opts.Format, env: env, fields: fields, prog: &Program{format: opts.Format, segments: make([]segment, 1)}}
	for i, s := range specs {
		if s.Name == "" {
			s.Name = fmt.Sprintf("steps[%d]", i)
		}
		if err := c.add(s); err != nil {
			return nil, err
		}
	}
	c.prog.after = after.WithFields(c.fields)
	c.prog.fields = c.taint.list()
	return c.prog, nil
}

func parseFields(declared map[string]string) (map[string]cel.Type, error) {
	if declared == nil {
		return nil, nil
	}
	fields := make(map[string]cel.Type, len(declared))
	for name, s := range declared {
		t, err := cel.ParseType(s)
		if err != nil {
			return nil, fmt.Errorf("declare field %s: %w", name, err)
		}
		fields[name] = t
	}
	return fields, nil
}

func (c *compiler) add(s Spec) error {
	if err := c.checkShape(s); err != nil {
		return err
	}
	seg := &c.prog.segments[len(c.prog.segments)-1]
	switch {
	case s.Where != "", s.Drop != "":
		field, src := "where", s.Where
		if s.Drop != "" {
			field, src = "drop", s.Drop
		}
		x, err := c.expr(s, field, src, cel.TypeBool)
		if err != nil {
			return err
		}
		c.noteFate(x)
		seg.steps = append(seg.steps, compiled{test: x, keep: field == "where"})
	case s.Set != nil:
		set, err := c.set(s)
		if err != nil {
			return err
		}
		seg.steps = append(seg.steps, compiled{set: set})
	case s.Unset != nil:
		paths, err := c.unset(s)
		if err != nil {
			return err
		}
		seg.steps = append(seg.steps, compiled{unset: paths})
	default:
		x, err := c.expr(s, "flat_map", s.FlatMap, cel.TypeList)
		if err != nil {
			return err
		}
		c.noteFate(x)
		seg.split = x
		c.taint.split(c.taint.reads(x.x))
		c.fields = nil // an element has fields of its own
		c.env = c.env.WithFields(nil)
		c.prog.segments = append(c.prog.segments, segment{})
	}
	return nil
}

func (c *compiler) noteFate(x *expression) {
	if c.taint.reads(x.x) {
		c.prog.fates = append(c.prog.fates, x.place)
	}
}

// checkShape checks that a step is of one kind, which the format allows.
func (c *compiler) checkShape(s Spec) error {
	var kinds []string
	for _, k := range []struct {
		name  string
		given bool
	}{
		{"where", s.Where != ""},
		{"drop", s.Drop != ""},
		{"set", s.Set != nil},
		{"unset", s.Unset != nil},
		{"flat_map", s.FlatMap != ""},
	} {
		if k.given {
			kinds = append(kinds, k.name)
		}
	}
	const all = "where, drop, set, unset and flat_map"
	switch {
	case len(kinds) == 0:
		return &CompileError{Step: s.Name, Msg: "the step does nothing", Suggestion: "give it one of " + all}
	case len(kinds) > 1:
		return &CompileError{Step: s.Name, Field: kinds[1], Msg: fmt.Sprintf("a step has one of %s, but this has %v", all, kinds), Suggestion: "make it several steps"}
	case c.format == Raw && kinds[0] != "where" && kinds[0] != "drop":
		return &CompileError{Step: s.Name, Field: kinds[0], Msg: "with source.format raw, values are passed through as they are", Suggestion: "use format json, or only where and drop"}
	}
	return nil
}

func (c *compiler) expr(s Spec, field, src string, want cel.Type) (*expression, error) {
	x, err := c.env.Compile(src, want)
	if err != nil {
		return nil, compileError(s.Name, field, err)
	}
	return &expression{place: s.Name + "." + field, x: x}, nil
}

func compileError(step, field string, err error) error {
	var ce *cel.CompileError
	if !errors.As(err, &ce) {
		return &CompileError{Step: step, Field: field, Msg: err.Error()}
	}
	return &CompileError{Step: step, Field: field, Line: ce.Line, Col: ce.Col, Msg: ce.Msg, Suggestion: ce.Suggestion}
}

func (c *compiler) set(s Spec) ([]assignment, error) {
	var set []assignment
	tainted := make(map[string]bool)
	for _, a := range s.Set {
		field := "set." + a.Field
		path, err := record.ParsePath(a.Field)
		if err != nil {
			return nil, &CompileError{Step: s.Name, Field: field, Msg: err.Error()}
		}
		x, err := c.expr(s, field, a.Expr, cel.TypeAny)
		if err != nil {
			return nil, err
		}
		if _, twice := tainted[path.String()]; twice {
			return nil, &CompileError{Step: s.Name, Field: field, Msg: "the field is set twice in one step"}
		}
		tainted[path.String()] = c.taint.reads(x.x)
		set = append(set, assignment{expression: *x, path: path})
	}
	if len(set) == 0 {
		return nil, &CompileError{Step: s.Name, Field: "set", Msg: "the step sets nothing"}
	}
	fields := maps.Clone(c.fields)
	for _, a := range set {
		c.taint.set(a.path, tainted[a.path.String()])
		switch {
		case fields == nil:
		case len(a.path) == 1:
			fields[a.path[0]] = a.x.Type()
		default:
			fields[a.path[0]] = cel.TypeMap
		}
	}
	c.declare(fields)
	return set, nil
}

func (c *compiler) unset(s Spec) ([]record.Path, error) {
	var paths []record.Path
	fields := maps.Clone(c.fields)
	for _, f := range s.Unset {
		path, err := record.ParsePath(f)
		if err != nil {
			return nil, &CompileError{Step: s.Name, Field: "unset." + f, Msg: err.Error()}
		}
		paths = append(paths, path)
		c.taint.set(path, false)
		if len(path) == 1 {
			delete(fields, path[0])
		}
	}
	if len(paths) == 0 {
		return nil, &CompileError{Step: s.Name, Field: "unset", Msg: "the step removes nothing"}
	}
	c.declare(fields)
	return paths, nil
}

func (c *compiler) declare(fields map[string]cel.Type) {
	c.fields = fields
	c.env = c.env.WithFields(fields)
}
