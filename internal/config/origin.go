package config

import "strconv"

// from says where a value came from.
type from int

const (
	fromDefault from = iota
	fromFile
	fromEnvironment
	fromDerived
)

func (f from) String() string {
	return [...]string{"default", "file", "environment", "derived"}[f]
}

// origin is where an effective value came from, and why it is what it is.
type origin struct {
	from from
	line int    // of the file; 0: not from it
	why  string // why the default, which variables, or how it was derived
}

// notSet is why a setting without a default is empty.
const notSet = "not set"

func (o origin) text(file string) string {
	switch o.from {
	case fromFile:
		return file + ":" + strconv.Itoa(o.line)
	case fromEnvironment:
		return file + ":" + strconv.Itoa(o.line) + ", " + o.why
	}
	switch o.why {
	case notSet:
		return notSet
	case "":
		return o.from.String()
	}
	return o.from.String() + ": " + o.why
}
