package sqlite

import (
	"context"
	"errors"
	"fmt"

	"exactly/internal/failpoint"
	"exactly/internal/tables"
	"exactly/sink"
)

// maxTransaction bounds the records of one transaction, so that other writers
// of the file get their turn and the write-ahead log stays small.
const maxTransaction = 5000

// task is the sink at work for one task.
type task struct {
	s      *Sink
	o      sink.Owner
	prefix tables.Prefix
}

func (t *task) ledger(c *conn) *ledger {
	return &ledger{c: c, table: t.s.cfg.LedgerTable, path: t.s.cfg.Path, o: t.o}
}

func (t *task) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.o.Transact.Timeout > 0 {
		return context.WithTimeout(ctx, t.o.Transact.Timeout)
	}
	return context.WithCancel(ctx)
}

// open compares the ledger with what the journal knows.
func (t *task) open(ctx context.Context, l *ledger, confirmed sink.Pos) (sink.Resume, error) {
	var r sink.Resume
	if err := l.create(ctx); err != nil {
		return r, err
	}
	if err := l.foreign(ctx); err != nil {
		return r, err
	}
	at, found, err := l.read(ctx)
	if !found && t.o.Fresh {
		at = confirmed // added to a running pipeline: it begins here
	}
	switch {
	case err != nil:
		return r, err
	case at.Before(confirmed):
		return r, t.behind(at, found, confirmed)
	}
	if err := l.begin(ctx, at); err != nil {
		return r, err
	}
	r.Through = at
	r.Verdicts, err = l.kept(ctx, confirmed, at)
	return r, err
}

func (t *task) behind(at sink.Pos, found bool, want sink.Pos) error {
	return tables.Behind(t.s.cfg.LedgerTable, "file", t.o, at, found, want)
}

// Apply implements sink.OutboxTask. A large batch takes several transactions,
// each with its own move of the ledger.
func (t *task) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	ctx, cancel := t.timeout(ctx)
	defer cancel()
	return tables.Split(b, maxTransaction, func(part sink.Batch) ([]sink.Verdict, error) {
		vs, err := t.apply(ctx, part)
		return vs, t.s.wrap(fmt.Sprintf("apply behind %s to", part.Prev), err)
	})
}

// apply is one transaction, made again as often as a trigger rolls it back.
func (t *task) apply(ctx context.Context, b sink.Batch) (vs []sink.Verdict, err error) {
	try := &attempt{task: t, batch: b, refused: map[sink.Pos]sink.Verdict{}}
	for {
		err := t.s.with(ctx, false, func(c *conn) error {
			if err := c.bound(ctx, t.s.cfg.Path, t.s.cfg.BusyTimeout); err != nil {
				return err
			}
			return try.run(ctx, c)
		})
		if errors.Is(err, errUndone) {
			continue // it knows of one more record to leave out, or goes row by row
		}
		if err != nil {
			return nil, err
		}
		return try.verdicts, nil
	}
}

// attempt is one try at a transaction.
type attempt struct {
	*task
	batch    sink.Batch
	refused  map[sink.Pos]sink.Verdict
	alone    bool
	verdicts []sink.Verdict
}

func (a *attempt) run(ctx context.Context, c *conn) error {
	switch err := a.s.look(ctx, c); {
	case errors.Is(err, errCreate): // not made again: its rows are missing
		return sink.Fatal(fmt.Errorf("table %s: %w; restore it, or reset the pipeline", a.s.cfg.Table, err))
	case err != nil:
		return err
	}
	err := c.transact(ctx, func() error {
		if a.o.Guarantee == sink.AtLeastOnce {
			return a.write(ctx, c, a.batch.Records)
		}
		return a.next(ctx, c)
	}, func(do func() error) error {
		if err := a.o.Failpoints.Hit(ctx, failpoint.SinkTxnBefore, a.o.Task, a.batch.Through.Epoch); err != nil {
			return sink.Transient(err)
		}
		return do()
	})
	if err != nil {
		return err
	}
	return sink.Transient(a.o.Failpoints.Hit(ctx, failpoint.SinkTxnAfter, a.o.Task, a.batch.Through.Epoch))
}

// next does what the ledger says is still to be done of the batch: it accepts
// exactly the next batch, skips what was applied before, and refuses a gap.
func (a *attempt) next(ctx context.Context, c *conn) error {
	l, b := a.ledger(c), a.batch
	at, found, err := l.read(ctx)
	switch {
	case err != nil:
		return err
	case !found || at.Before(b.Prev):
		return a.behind(at, found, b.Prev)
	}
	if err := l.forget(ctx, b.Confirmed); err != nil {
		return err
	}
	a.verdicts = nil
	if at.Before(b.Through) {
		if err := a.write(ctx, c, tables.After(at, b.Records)); err != nil {
			return err
		}
		if err := l.keep(ctx, a.verdicts); err != nil {
			return err
		}
		if err := l.move(ctx, at, b.Through); err != nil {
			return err
		}
	}
	// Of an earlier call, too, whose answer may have been lost.
	a.verdicts, err = l.kept(ctx, b.Prev, b.Through)
	return err
}

// write puts records into the table and sets the verdicts.
func (a *attempt) write(ctx context.Context, c *conn, records []sink.Entry) error {
	ordered := c.plan.order >= 0 && a.o.Guarantee != sink.AtLeastOnce
	w := &writer{c: c, row: newRow(c.plan, ordered), prefix: a.prefix, alone: a.alone, refused: a.refused}
	err := w.write(ctx, records)
	a.verdicts = w.verdicts
	if errors.Is(err, errUndone) {
		a.alone = true
		for _, v := range w.verdicts {
			a.refused[v.Pos] = v
		}
	}
	return err
}

// Close implements sink.OutboxTask.
func (t *task) Close() error { return nil }
