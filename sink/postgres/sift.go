package postgres

import (
	"context"
	"fmt"

	"exactly/internal/tables"
	"exactly/sink"
)

// sieve is what is known while the records at fault are looked for.
type sieve struct {
	alone    bool // each record has to fulfil the constraints that wait for the end by itself
	took     map[target]bool
	suspects []suspect
	all      []sink.Entry
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

// mostSuspects with nothing taken beside them, nor any of a few others: the table is at
// fault.
const (
	mostSuspects = 20
	probes       = 16
)

// sift writes the records that the server takes, and refuses the others. Constraints
// that wait for the end wait for it here, too, since records may need each other until
// then; where one of them fails, each record is judged by itself.
func (w *writer) sift(ctx context.Context, c *conn, entries []sink.Entry) error {
	before := len(w.verdicts)
	for _, alone := range []bool{false, true} {
		w.verdicts, w.sieve = w.verdicts[:before], sieve{alone: alone, took: map[target]bool{}, all: entries}
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
			w.took(it)
		}
	}
	return err
}

// single decides about a record that the server did not take.
func (w *writer) single(ctx context.Context, c *conn, it item, err error) error {
	again := func() error { return w.attempt(ctx, c, []item{it}) }
	if state(err) == stateTwice && len(it.writes) > 1 {
		again = func() error { return w.apart(ctx, c, it) }
		if done, undo := w.decided(ctx, c, again, &err); done {
			return undo
		}
	}
	if doubtful(err) && persists(state(err)) {
		if done, undo := w.decided(ctx, c, again, &err); done {
			return undo
		}
	}
	if verdict := w.refusal(err); verdict != nil {
		w.refuse(it.pos, verdict)
		return nil
	}
	w.sieve.suspects = append(w.sieve.suspects, suspect{it, err})
	if len(w.sieve.suspects) != mostSuspects || len(w.sieve.took) > 0 {
		return nil
	}
	if probed := w.probe(ctx, c, it.pos); probed != nil {
		return probed
	}
	if len(w.sieve.took) == 0 {
		return err
	}
	return nil
}

// probe asks whether the server would take any of the records further on: the last one,
// and a few in between. What it takes is undone, and written in its turn.
func (w *writer) probe(ctx context.Context, c *conn, at sink.Pos) error {
	rest := tables.After(at, w.sieve.all)
	for k := range min(probes, len(rest)) {
		e := len(rest) - 1 - k*len(rest)/probes
		if len(rest) < probes {
			e = k
		}
		before := len(w.verdicts)
		items, _ := w.items(rest[e : e+1])
		w.verdicts = w.verdicts[:before]
		if len(items) == 0 {
			continue
		}
		if err := c.exec(ctx, "SAVEPOINT exactly_probe"); err != nil {
			return err
		}
		err := w.attempt(ctx, c, items)
		if err != nil && !w.ofRows(err) {
			return err
		}
		if undo := c.exec(ctx, "ROLLBACK TO SAVEPOINT exactly_probe; RELEASE SAVEPOINT exactly_probe"); undo != nil || err == nil {
			return undo
		}
	}
	return nil
}

// decided tries once more, and says whether that is the end of it: the server took the
// record, or has something against more than that. Else why is what it has against it.
func (w *writer) decided(ctx context.Context, c *conn, try func() error, why *error) (bool, error) {
	if *why = try(); !w.ofRows(*why) {
		return true, *why
	}
	undo := c.exec(ctx, undoPart)
	return undo != nil, undo
}

// apart executes the writes of one record one by one: keys of two of its rows that
// differ as text are the same to the database. The savepoint is left where it failed.
func (w *writer) apart(ctx context.Context, c *conn, it item) error {
	before, behind := savepoint, release
	if w.sieve.alone {
		before, behind = before+"; "+constraintsLater, constraintsNow+"; "+behind
	}
	if err := c.exec(ctx, before); err != nil {
		return err
	}
	for i := range it.writes {
		if err := w.write(ctx, c, []item{{pos: it.pos, remove: it.remove, writes: it.writes[i : i+1]}}); err != nil {
			return err
		}
	}
	if err := c.exec(ctx, behind); err != nil {
		return err
	}
	w.took(it)
	return nil
}

// took notes what the server has taken.
func (w *writer) took(it item) {
	for _, wr := range it.writes {
		w.sieve.took[target{wr.table, it.remove}] = true
	}
}
