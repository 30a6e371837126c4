package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"exactly/sink"
)

// Codes of refused records, beside those of package step/cel for values that
// are not what they should be.
const (
	codeConstraint   = "constraint"    // NOT NULL, CHECK, UNIQUE, a trigger, the type in a STRICT table
	codeTooBig       = "too_big"       // larger than SQLite takes
	codeKey          = "key_missing"   // no value for a key column, or a delete without a usable key
	codeUnknownField = "unknown_field" // with unknown_fields: reject
	codeNoColumns    = "no_columns"    // nothing in the record has a column
	codeVersion      = "version_missing"
)

// primary is the primary result code of an error of SQLite, 0 of any other.
func primary(err error) int { return extended(err) & 0xff }

func extended(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// refusal turns the error of a row's statement into a poison error; nil, where
// it is not the row's fault.
func refusal(table string, err error) error {
	switch primary(err) {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		return sink.Poison(codeConstraint, fmt.Errorf("table %s refuses the row: %w", table, err))
	case lib.SQLITE_TOOBIG:
		return sink.Poison(codeTooBig, fmt.Errorf("table %s refuses the row: %w", table, err))
	}
	return nil
}

// classed says what the engine shall do about an error of the database. What is
// classed already stays so.
func classed(err error) error {
	switch primary(err) {
	case 0:
		return err
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return sink.Fatal(fmt.Errorf("%w; restore the file from a backup: the ledger in it tells what is missing", err))
	case lib.SQLITE_ERROR, lib.SQLITE_SCHEMA, lib.SQLITE_AUTH, lib.SQLITE_MISUSE, lib.SQLITE_RANGE, lib.SQLITE_CONSTRAINT:
		return sink.Fatal(err)
	}
	return sink.Transient(err) // locked, full, I/O, interrupted, cannot open, read-only for now
}

// lasting reports whether the connection may go on after an error.
func lasting(err error) bool {
	switch primary(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG:
		return true
	case 0:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return false
}
