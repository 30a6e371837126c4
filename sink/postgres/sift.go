package postgres

import (
	"context"
	"fmt"

	"exactly/sink"
)

// sieve is what is known while the records at fault are looked for.
type sieve struct {
	alone    bool // each record has to fulfil the constraints that wait for the end by itself
	took     map[target]bool
	suspects []suspect
}

// target is what a write needs of the database.
type target struct {
	table  int
	remove bool
}

// suspect is a record that the server did not take, for a reason that may be the
// table's.
type suspect struct {
	item item
	err  error
}

// mostSuspects with nothing taken beside them: the table is at fault.
const mostSuspects = 20

// sift writes the records that the server takes, and refuses the others. Constraints
// that wait for the end wait for it here, too, since records may need each other until
// then; where one of them fails, each record is judged by itself.
func (w *writer) sift(ctx context.Context, c *conn, entries []sink.Entry) error {
	before := len(w.verdicts)
	for _, alone := range []bool{false, true} {
		w.verdicts, w.sieve = w.verdicts[:before], sieve{alone: alone, took: map[target]bool{}}
		if err := c.exec(ctx, "SAVEPOINT exactly_all"); err != nil {
			return err
		}
		if err := w.all(entries, func(items []item) error { return w.part(ctx, c, items) }); err != nil {
			return err
		}
		if err := w.judge(); err != nil {
			return err
		}
		err := c.exec(ctx, constraintsNow)
		if alone || !w.ofRows(err) {
			return err
		}
		if err := c.exec(ctx, "ROLLBACK TO SAVEPOINT exactly_all"); err != nil {
			return err
		}
	}
	return nil
}

// judge refuses the suspects, if the server took other records like them, and gives
// the error of the first one, if it did not.
func (w *writer) judge() error {
	for _, s := range w.sieve.suspects {
		if !w.proved(s.item) {
			return s.err
		}
		w.refuse(s.item.pos, sink.Poison(codeRefused, fmt.Errorf("the database refuses the record, and took others: %w", reason(s.err))))
	}
	return nil
}

func (w *writer) proved(it item) bool {
	for _, wr := range it.writes {
		if !w.sieve.took[target{wr.table, it.remove}] {
			return false
		}
	}
	return true
}

const (
	constraintsNow   = "SET CONSTRAINTS ALL IMMEDIATE"
	constraintsLater = "SET CONSTRAINTS ALL DEFERRED"
	savepoint        = "SAVEPOINT exactly"
	release          = "RELEASE SAVEPOINT exactly"
	undoPart         = "ROLLBACK TO SAVEPOINT exactly; " + release

	// stateTwice: one statement would write a row twice (cardinality_violation).
	stateTwice = "21000"
)

// part executes what items write under a savepoint, and halves what is refused
// until the records at fault are alone: in the order of the source, since a row may
// need the one before it.
func (w *writer) part(ctx context.Context, c *conn, items []item) error {
	if len(items) == 0 {
		return nil
	}
	err := w.attempt(ctx, c, items)
	if !w.ofRows(err) {
		return err
	}
	if undo := c.exec(ctx, undoPart); undo != nil {
		return undo
	}
	if len(items) == 1 {
		return w.single(ctx, c, items[0], err)
	}
	middle := len(items) / 2
	if err := w.part(ctx, c, items[:middle]); err != nil {
		return err
	}
	return w.part(ctx, c, items[middle:])
}

// attempt writes items under the savepoint, which is left where it failed.
func (w *writer) attempt(ctx context.Context, c *conn, items []item) error {
	before, behind := []string{savepoint}, []string{release}
	if w.sieve.alone {
		before, behind = append(before, constraintsLater), []string{constraintsNow, release}
	}
	err := w.between(ctx, c, items, before, behind)
	if err == nil {
		for _, it := range items {
			for _, wr := range it.writes {
				w.sieve.took[target{wr.table, it.remove}] = true
			}
		}
	}
	return err
}

// single decides about a record that the server did not take.
func (w *writer) single(ctx context.Context, c *conn, it item, err error) error {
	verdict := w.refusal(err)
	if state(err) == stateTwice && len(it.writes) > 1 {
		if verdict, err = w.apart(ctx, c, it); err != nil || verdict == nil {
			return err
		}
	}
	if verdict != nil {
		w.refuse(it.pos, verdict)
		return nil
	}
	if persists(state(err)) {
		if err = w.attempt(ctx, c, []item{it}); err == nil || !doubtful(err) {
			return err
		}
		if undo := c.exec(ctx, undoPart); undo != nil {
			return undo
		}
	}
	w.sieve.suspects = append(w.sieve.suspects, suspect{it, err})
	if len(w.sieve.suspects) >= mostSuspects && len(w.sieve.took) == 0 {
		return err
	}
	return nil
}

// apart executes the writes of one record one by one: keys of two of its rows that
// differ as text are the same to the database.
func (w *writer) apart(ctx context.Context, c *conn, it item) (verdict, err error) {
	if err := c.exec(ctx, savepoint); err != nil {
		return nil, err
	}
	for i := range it.writes {
		err := w.write(ctx, c, []item{{pos: it.pos, remove: it.remove, writes: it.writes[i : i+1]}})
		if err == nil {
			continue
		}
		if verdict = w.refusal(err); verdict == nil {
			return nil, err
		}
		return verdict, c.exec(ctx, undoPart)
	}
	return nil, c.exec(ctx, release)
}
