package sink

import (
	"context"
	"errors"
	"fmt"
)

// Class is what the engine does about an error.
type Class int

const (
	ClassTransient Class = iota // back off and call again, for ever; never a dead letter
	ClassPoison                 // this record can never be taken: dead letter
	ClassInDoubt                // an answer that must not be guessed at: stop before it and alert
	ClassFatal                  // configuration or broken promise: the task fails
)

func (c Class) String() string {
	return [...]string{"transient", "poison", "in_doubt", "fatal"}[c]
}

type classed struct {
	class Class
	code  string
	err   error
}

func (e *classed) Error() string { return e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// Transient, InDoubt and Fatal class an error. nil stays nil.
func Transient(err error) error { return class(ClassTransient, "", err) }

// InDoubt: see ClassInDoubt.
func InDoubt(err error) error { return class(ClassInDoubt, "", err) }

// Fatal: see ClassFatal.
func Fatal(err error) error { return class(ClassFatal, "", err) }

// Poison classes the error of one record; code is stable and short.
func Poison(code string, err error) error { return class(ClassPoison, code, err) }

func class(c Class, code string, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class: c, code: code, err: err}
}

// Classify gives the class of the outermost classed error in the chain; a
// cancelled context is transient, and so is everything unclassed.
func Classify(err error) Class {
	var c *classed
	switch {
	case errors.As(err, &c):
		return c.class
	case errors.Is(err, ErrForeignMark), errors.Is(err, ErrLedgerBehind), errors.Is(err, ErrLost):
		return ClassFatal
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ClassTransient
	}
	return ClassTransient
}

// IsTransient reports whether err was classed with Transient. Unlike Classify it
// does not take an unclassed error for one: a start may go on although a sink is
// away, but not although it is wrong.
func IsTransient(err error) bool {
	var c *classed
	return errors.As(err, &c) && c.class == ClassTransient
}

// Code gives the stable code of a poison error, or "rejected".
func Code(err error) string {
	var c *classed
	if errors.As(err, &c) && c.code != "" {
		return c.code
	}
	return "rejected"
}

var (
	// ErrForeignMark: the sink holds the mark of another incarnation.
	ErrForeignMark = errors.New("the sink holds marks of another incarnation of the pipeline")
	// ErrLedgerBehind: the ledger is behind what the journal saw applied; the
	// sink lost data (an old backup was restored, a table truncated).
	ErrLedgerBehind = errors.New("the sink's ledger is behind the journal")
	// ErrLost: staged and decided work is neither there nor committed.
	ErrLost = errors.New("decided work is missing in the sink")
)

// PoisonError names records of one Write that can never be taken.
type PoisonError struct {
	Index []int   // into the slice of the call, rising
	Errs  []error // as long as Index
}

func (e *PoisonError) Error() string {
	return fmt.Sprintf("%d records refused, the first: %v", len(e.Index), e.Errs[0])
}
