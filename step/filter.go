package step

import "exactly/step/cel"

// Filter is the where of a sink: it picks decided records. It is safe for
// concurrent use, with a cel.Vars per goroutine.
type Filter struct{ x expression }

// NewFilter compiles the where of a sink. place is what errors name, such as
// "sinks.enriched.where"; env is Program.Env. The error is a *CompileError with
// the place as its step.
func NewFilter(env *cel.Env, place, where string) (*Filter, error) {
	x, err := env.Compile(where, cel.TypeBool)
	if err != nil {
		return nil, compileError(place, "", err)
	}
	return &Filter{x: expression{place: place, x: x}}, nil
}

// Keep reports whether the sink gets the record that v was reset to. A
// tombstone passes, since it has no fields to ask for. The error is an *Error:
// the record goes to the dead letters.
func (f *Filter) Keep(v *cel.Vars) (bool, error) {
	if r := v.Record(); r == nil || r.Tombstone() {
		return true, nil
	}
	keep, err := f.x.x.Bool(v)
	if err != nil {
		return false, stepError(f.x.place, err)
	}
	return keep, nil
}
