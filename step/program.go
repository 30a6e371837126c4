package step

import (
	"fmt"
	"slices"
	"strings"

	"exactly/record"
	"exactly/step/cel"
)

// Spec is one step. Exactly one of Where, Drop, Set, Unset and FlatMap is
// given.
type Spec struct {
	Name    string   // its place, for errors; empty: steps[i]
	Where   string   // keep the records for which this bool is true
	Drop    string   // drop the records for which this bool is true
	Set     []Assign // in order; every expression sees the record before the step
	Unset   []string // fields to remove; one that is missing is no error
	FlatMap string   // a list, of which each element (an object) becomes a record
}

// Assign sets one field.
type Assign struct {
	Field string // a path, see record.ParsePath
	Expr  string // an absent optional removes the field
}

// Format is what the values of the source are.
type Format string

const (
	JSON Format = "json" // objects; every value is validated, also where there are no steps
	Raw  Format = "raw"  // any bytes, passed through; expressions see key, headers and source only
)

// Options are what the steps work on.
type Options struct {
	Format Format // empty: JSON
	// Fields are the declared fields and their types, by name; see cel.Type.
	// nil: not declared, any name may be a field.
	Fields map[string]string
}

// CompileError is what is wrong with a step, and where.
type CompileError struct {
	Step       string // e.g. "steps[1]"
	Field      string // inside the step, e.g. "where", "set.fee_cents", "unset.note"
	Line, Col  int    // inside the expression, from 1; 0: the fault is not inside one
	Msg        string // what is wrong
	Suggestion string // the remedy; empty if none is known
}

func (e *CompileError) Error() string {
	var b strings.Builder
	b.WriteString(e.Step)
	if e.Field != "" {
		b.WriteString("." + e.Field)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ": %d:%d", e.Line, e.Col)
	}
	b.WriteString(": " + e.Msg)
	if e.Suggestion != "" {
		b.WriteString("; " + e.Suggestion)
	}
	return b.String()
}

// Program is a compiled list of steps. It is safe for concurrent use.
type Program struct {
	format   Format
	segments []segment // cut behind each flat_map; at least one
	after    *cel.Env
	fields   []string // unverifiable ones
	fates    []string
}

// segment is steps that work on one document.
type segment struct {
	steps []compiled
	split *expression // the flat_map at the end; nil in the last segment
}

// compiled is a step of one of three kinds.
type compiled struct {
	test  *expression // where or drop
	keep  bool        // the outcome of test that keeps the record
	set   []assignment
	unset []record.Path
}

type expression struct {
	place string // e.g. "steps[1].where"
	x     *cel.Expr
}

type assignment struct {
	expression
	path record.Path
}

// Env is the environment for expressions of sinks: it knows the fields as the
// steps leave them, and has no epoch.
func (p *Program) Env() *cel.Env { return p.after }

// UnverifiableFields lists the fields (as paths) whose values derive from the
// epoch, through however many steps: an audit cannot compute them again. "*"
// means all. Sorted.
func (p *Program) UnverifiableFields() []string { return slices.Clone(p.fields) }

// UnverifiableFates lists the places of the steps that keep, drop or split
// records by something derived from the epoch: an audit cannot tell whether
// such a record should be there. In the order of the steps.
func (p *Program) UnverifiableFates() []string { return slices.Clone(p.fates) }
