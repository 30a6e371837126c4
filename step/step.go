package step

import (
	"fmt"

	"exactly/record"
	"exactly/step/cel"
)

// Epoch is what expressions may see of the epoch that a record falls into.
type Epoch = cel.Epoch

// Chain turns one source record into the records that sinks get.
type Chain interface {
	// Apply appends the results to dst, none if the record was dropped. Its
	// errors are *Error: poison, and the record goes to the dead letters.
	// A tombstone passes every step unchanged. It is called from one goroutine
	// at a time; make a chain per task.
	Apply(dst []record.Record, r record.Record, e Epoch) ([]record.Record, error)
}

// Error says why a record cannot be processed: in which step, and which code a
// dead letter carries.
type Error struct {
	Step string // e.g. "steps[1].set.fee_cents", or "decode"
	Code string // stable: "not_json", "duplicate_key", "empty_value", "wrong_type", "integer_range", "expression"
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }
func (e *Error) Unwrap() error { return e.Err }
