package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"exactly/sink"
)

// errUndone: a trigger rolled the whole transaction back (RAISE(ROLLBACK)). The
// transaction has to be made again without the record that it refuses.
var errUndone = errors.New("a trigger rolled the transaction back")

// writer puts the records of one transaction into the table. Rows wait until
// there are enough for a statement; their order is kept.
//
// A statement that fails leaves no trace (sqlite.org/lang_conflict.html,
// ABORT), so no savepoint is needed to go on with the next one: the rows of one
// that was refused are written again, each alone, and those that are refused
// alone become verdicts.
type writer struct {
	c       *conn
	row     *row
	prefix  [16]byte
	alone   bool                      // a statement per row
	refused map[sink.Pos]sink.Verdict // known from before, see errUndone

	shape    *shape
	mask     []byte
	args     []driver.NamedValue // of the rows that wait, one after another
	at       []sink.Pos          // their places
	verdicts []sink.Verdict
}

func (w *writer) write(ctx context.Context, entries []sink.Entry) error {
	for i := range entries {
		if err := w.entry(ctx, &entries[i]); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

func (w *writer) entry(ctx context.Context, e *sink.Entry) error {
	if v, ok := w.refused[e.Pos]; ok {
		w.verdicts = append(w.verdicts, v)
		return nil
	}
	if e.Tombstone() {
		if err := w.flush(ctx); err != nil {
			return err
		}
		return w.remove(ctx, e)
	}
	if err := w.row.fill(&e.Record, w.prefix, e.Pos); err != nil {
		// Verdicts are told in order, so those of waiting rows come first.
		if ferr := w.flush(ctx); ferr != nil {
			return ferr
		}
		w.refuse(e.Pos, err)
		return nil
	}
	if w.shape == nil || string(w.mask) != string(w.row.mask) {
		if err := w.flush(ctx); err != nil {
			return err
		}
		w.shape = w.c.plan.shape(w.row.mask)
		w.mask = append(w.mask[:0], w.row.mask...)
	}
	for _, col := range w.shape.cols {
		w.args = append(w.args, driver.NamedValue{Value: w.row.vals[col]})
	}
	w.at = append(w.at, e.Pos)
	if w.alone || len(w.at) >= statementRows[0] {
		return w.flush(ctx)
	}
	return nil
}

// flush writes the rows that wait.
func (w *writer) flush(ctx context.Context) error {
	for done := 0; done < len(w.at); {
		n := w.shape.rows(len(w.at) - done)
		if w.alone {
			n = 1
		}
		if err := w.rows(ctx, done, n); err != nil {
			return err
		}
		done += n
	}
	clear(w.args) // lets go of the records' bytes
	w.args, w.at = w.args[:0], w.at[:0]
	return nil
}

// rows writes n waiting rows in one statement, or in several, if it is refused.
func (w *writer) rows(ctx context.Context, from, n int) error {
	s, err := w.shape.stmt(ctx, w.c, n)
	if err != nil {
		return fmt.Errorf("prepare the statement for %d rows: %w", n, err)
	}
	k := len(w.shape.cols)
	args := w.args[from*k : (from+n)*k]
	for i := range args {
		args[i].Ordinal = i + 1
	}
	_, err = s.ExecContext(ctx, args)
	if err == nil {
		return nil
	}
	verdict := refusal(w.c.plan.cfg.Table, err)
	switch {
	case verdict == nil:
		return fmt.Errorf("write %d rows: %w", n, err)
	case n > 1:
		if w.undone(ctx, err) {
			return errUndone
		}
		for i := range n {
			if err := w.rows(ctx, from+i, 1); err != nil {
				return err
			}
		}
		return nil
	}
	w.refuse(w.at[from], verdict)
	if w.undone(ctx, err) {
		return errUndone
	}
	return nil
}

// remove deletes what the key of a tombstone names.
func (w *writer) remove(ctx context.Context, e *sink.Entry) error {
	if w.c.plan.cfg.Mode == modeAppend {
		w.refuse(e.Pos, sink.Poison(codeKey, errors.New("a table of mode append knows no deletes")))
		return nil
	}
	args, err := w.row.removal(e.Key, w.prefix, e.Pos)
	if err != nil {
		w.refuse(e.Pos, err)
		return nil
	}
	_, err = w.c.exec(ctx, w.c.plan.remove(w.row.ordered()), args...)
	if err == nil {
		return nil
	}
	verdict := refusal(w.c.plan.cfg.Table, err)
	if verdict == nil {
		return fmt.Errorf("delete a row: %w", err)
	}
	w.refuse(e.Pos, verdict)
	if w.undone(ctx, err) {
		return errUndone
	}
	return nil
}

func (w *writer) refuse(at sink.Pos, err error) {
	w.verdicts = append(w.verdicts, sink.Verdict{Pos: at, Code: sink.Code(err), Reason: err.Error()})
}

// undone reports whether a refused statement took the transaction with it. Only
// a trigger can do that; the way to see it is that BEGIN works.
func (w *writer) undone(ctx context.Context, err error) bool {
	return extended(err) == lib.SQLITE_CONSTRAINT_TRIGGER && w.c.run(ctx, "BEGIN") == nil
}
