package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"exactly/step"
	"exactly/step/cel"
)

// Program gives the compiled steps; Program().Env() is the environment that
// the expressions of the sinks were checked in.
func (f *File) Program() *step.Program { return f.program }

// StepSpecs gives the steps as the step package takes them.
func (f *File) StepSpecs() []step.Spec {
	out := make([]step.Spec, len(f.Steps))
	for i, s := range f.Steps {
		out[i] = step.Spec{Where: s.Where, Drop: s.Drop, Unset: s.Unset, FlatMap: s.FlatMap}
		for _, a := range s.Set {
			out[i].Set = append(out[i].Set, step.Assign(a))
		}
	}
	return out
}

// compile compiles every expression, so that its errors point into the file.
func (l *loader) compile(f *File) {
	if !l.clean("source.fields", "source.format") {
		return
	}
	env := l.compileSteps(f)
	if env == nil {
		return
	}
	var each *cel.Env
	for _, x := range l.exprs {
		if strings.HasPrefix(x.path, "steps[") {
			continue
		}
		in := env
		if l.ofElement(x) {
			if each == nil {
				var err error
				if each, err = env.WithEach(); err != nil {
					l.badExpression(x, 0, 0, err.Error(), "")
					return
				}
			}
			in = each
		}
		_, err := in.Compile(x.text.value, cel.Type(x.want))
		var wrong *cel.CompileError
		switch {
		case errors.As(err, &wrong):
			l.badExpression(x, wrong.Line, wrong.Col, wrong.Msg, wrong.Suggestion)
		case err != nil:
			l.badExpression(x, 0, 0, err.Error(), "")
		}
	}
}

// ofElement: the expression is in a block with a setting each, which is a list
// whose elements the block's other expressions are about.
func (l *loader) ofElement(x expression) bool {
	for _, list := range l.exprs {
		block, ok := strings.CutSuffix(list.path, ".each")
		if ok && list.want == string(cel.TypeList) && x.path != list.path && strings.HasPrefix(x.path, block+".") {
			return true
		}
	}
	return false
}

// compileSteps gives the environment for the sinks. Where the steps are wrong
// it is one that lets any field pass, so that other mistakes are still found.
func (l *loader) compileSteps(f *File) *cel.Env {
	if l.clean("steps") {
		program, err := step.Compile(f.StepSpecs(), step.Options{Format: step.Format(f.Source.Format), Fields: f.Source.Fields})
		if err == nil {
			f.program = program
			return program.Env()
		}
		l.badStep(f, err)
	}
	env, err := cel.NewEnv(cel.Options{Raw: f.Source.Format == string(step.Raw)})
	if err != nil {
		l.fail(codeExpression, pos{}, "", err.Error(), "this is a mistake in exactly, not in the file")
		return nil
	}
	return env
}

func (l *loader) badStep(f *File, err error) {
	var wrong *step.CompileError
	if !errors.As(err, &wrong) {
		l.fail(codeStep, l.at("steps"), "steps", err.Error(), "")
		return
	}
	path := l.stepPath(f, wrong)
	for _, x := range l.exprs {
		if x.path == path && wrong.Line > 0 {
			l.badExpression(x, wrong.Line, wrong.Col, wrong.Msg, wrong.Suggestion)
			return
		}
	}
	l.fail(codeStep, l.at(path), path, wrong.Msg, wrong.Suggestion)
}

// stepPath gives the path of what a step's error is about, as in the file.
func (l *loader) stepPath(f *File, e *step.CompileError) string {
	field, ok := strings.CutPrefix(e.Field, "unset.")
	if ok {
		for i, s := range f.Steps {
			base := "steps[" + strconv.Itoa(i) + "]"
			if at := slices.Index(s.Unset, field); base == e.Step && at >= 0 {
				return l.itemPath(base+".unset", at)
			}
		}
	}
	return join(e.Step, e.Field)
}

// badExpression reports what is wrong at line and column (from 1) of an
// expression; line 0 is the expression as a whole.
func (l *loader) badExpression(x expression, line, col int, cause, remedy string) {
	p := l.at(x.path)
	if x.node != nil && line > 0 {
		index := runeAt(x.text.value, line, col)
		p = l.place(x.node, x.text.written(index), wordLen(x.text.value, index))
	}
	l.fail(codeExpression, p, x.path, cause, remedy)
}

// runeAt gives the index of the rune at line and column (from 1).
func runeAt(s string, line, col int) int {
	index := 0
	for part := range strings.Lines(s) {
		n := len([]rune(part))
		if line <= 1 {
			return index + min(max(col-1, 0), n)
		}
		index += n
		line--
	}
	return index
}

// wordLen gives the length of the word at a rune, at least 1.
func wordLen(s string, index int) int {
	runes := []rune(s)
	end := index
	for end < len(runes) && (runes[end] == '_' || runes[end] >= '0' && runes[end] <= '9' || runes[end]|0x20 >= 'a' && runes[end]|0x20 <= 'z') {
		end++
	}
	return max(end-index, 1)
}
