// Package step holds the steps between source and sinks: where, drop, set,
// unset and flat_map, and the chain that runs them. Steps are deterministic:
// the same record gives the same result on replay, except for what is derived
// from Epoch, which the decision freezes; Program tells what that is.
//
// Compile checks the steps of a pipeline once and makes a Program, which all
// tasks share; each task runs a Chain of its own. Expressions are those of
// package cel, below. Values keep every byte that no step concerns. With the
// format json, each value is validated even where there are no steps.
//
// What cannot be processed is an *Error with a code, never a panic, and gives
// no result at all: the engine makes it a dead letter. The package does no I/O.
package step
