package step

import (
	"maps"
	"slices"

	"exactly/record"
	"exactly/step/cel"
)

// taint follows what derives from the epoch through the steps.
type taint struct {
	paths map[string]record.Path // by their text
	all   bool
}

// reads reports whether an expression may see anything tainted.
func (t *taint) reads(x *cel.Expr) bool {
	if x.UsesEpoch() {
		return true
	}
	if x.UsesValue() && (t.all || len(t.paths) > 0) {
		return true
	}
	for _, f := range x.Fields() {
		if t.all {
			return true
		}
		for _, p := range t.paths {
			if p[0] == f {
				return true
			}
		}
	}
	return false
}

// set notes that a field got a new value, or was removed: what it was and held
// before does not matter any more.
func (t *taint) set(path record.Path, tainted bool) {
	for text, p := range t.paths {
		if len(p) >= len(path) && slices.Equal(p[:len(path)], path) {
			delete(t.paths, text)
		}
	}
	if !tainted {
		return
	}
	if t.paths == nil {
		t.paths = map[string]record.Path{}
	}
	t.paths[path.String()] = path
}

// split notes that records were replaced by elements of a list.
func (t *taint) split(tainted bool) { *t = taint{all: tainted} }

func (t *taint) list() []string {
	if t.all {
		return []string{"*"}
	}
	return slices.Sorted(maps.Keys(t.paths))
}
