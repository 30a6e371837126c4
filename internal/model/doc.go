// Package model is the protocol of docs/protocol.md as a transition relation,
// written apart from the state machine that carries it out: what an owner of a
// task may do next, and what it may be told, given what happened so far. It is
// unbounded in epochs, attempts and owners, and allows more than internal/epoch
// does: every order that is safe.
//
// Two things walk on it. A Checker follows a trace of the real code and reports
// the first step that the relation does not allow. Explore visits every state of
// a small world (workers, broker, sinks) and checks the promise in each; the
// suite "model" compares the set of states it visits with that of the Spin
// models in docs/, so that page, models and code cannot drift apart.
//
// It does no I/O. Invariants carry the numbers of docs/invariants.md.
package model
