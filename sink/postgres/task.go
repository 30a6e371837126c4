package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/failpoint"
	"exactly/internal/mutation"
	"exactly/internal/tables"
	"exactly/sink"
)

// maxTransaction bounds the records of one transaction, so that locks are held
// for a short time and what is refused is made again quickly. Rows that are
// appended lock nothing that others wait for, and COMMIT, which waits for the
// log to reach the disk, costs them more than anything else.
const (
	maxTransaction = 5_000
	maxAppend      = 20_000
)

// task is the sink at work for one task, in a session of its own.
type task struct {
	s      *Sink
	o      sink.Owner
	ledger tableName
	params []column                // of the statement
	c      *conn                   // nil: not connected
	most   int                     // records of a transaction: fewer, where more have taken too long; 0: as many as there may be
	again  bool                    // the tables were looked at before
	homes  map[tableName]tableName // see known
	alone  int                     // so many transactions of statements share the table with no other task
}

func (t *task) marks(c *conn) *ledger { return &ledger{c: c, table: t.ledger, o: t.o} }

func (t *task) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.o.Transact.Timeout > 0 {
		return context.WithTimeout(ctx, t.o.Transact.Timeout)
	}
	return context.WithCancel(ctx)
}

// with calls f with the session, opened if need be. A session in which something
// went wrong that is not the rows' fault is given up.
func (t *task) with(ctx context.Context, f func(c *conn) error) (err error) {
	if t.c == nil || t.c.pg.IsClosed() {
		if t.c, err = t.s.session(ctx, t.o); err != nil {
			return err
		}
	}
	c := t.c
	if !c.looked {
		if err := t.lookAgain(ctx, c); err != nil {
			t.drop()
			return err
		}
	}
	failed := true // a panic counts
	defer func() {
		if failed {
			t.drop()
		}
	}()
	err = f(c)
	failed = err != nil && !errors.Is(err, errRefused)
	return err
}

// gone: a table that was made, or found, is not there any more. It is not made again:
// its rows are missing.
func gone(err error) error {
	return sink.Fatal(fmt.Errorf("%w any more; restore it, make it yourself if its rows may be missing, or reset the pipeline", err))
}

// look looks at the tables. A task that begins right after the check takes what that
// has seen: whoever is started again waits for all tasks at once.
func (t *task) look(ctx context.Context, c *conn) error {
	k := known{homes: t.homes}
	if !t.again {
		k.seen = t.s.seen.recent()
	}
	t.again = true
	err := t.s.look(ctx, c, t.o.Guarantee != sink.AtLeastOnce, k)
	if err == nil {
		t.homes = homes(c.plans)
	}
	return err
}

func (t *task) drop() {
	if t.c != nil {
		t.c.close()
		t.c = nil
	}
}

// Apply implements sink.OutboxTask. A large batch takes several transactions,
// each with its own move of the ledger.
func (t *task) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	caller := ctx
	ctx, cancel := t.timeout(ctx)
	defer cancel()
	if t.most == 0 {
		t.most = t.s.transaction()
	}
	return tables.Split(b, t.most, func(part sink.Batch) ([]sink.Verdict, error) {
		vs, err := t.apply(ctx, part)
		if tooMuch(err) || err != nil && ctx.Err() != nil && caller.Err() == nil {
			t.most = max(1, len(part.Records)/2)
		} else if err == nil {
			t.most = min(2*t.most, t.s.transaction())
		}
		return vs, t.s.wrap(fmt.Sprintf("apply behind %s to", part.Prev), err)
	})
}

// apply is one transaction, made again carefully if a row is refused.
func (t *task) apply(ctx context.Context, b sink.Batch) (vs []sink.Verdict, err error) {
	defer func() { t.alone = max(0, t.alone-1) }()
	for careful := false; ; {
		err = t.with(ctx, func(c *conn) error {
			vs, err = t.transact(ctx, c, b, careful)
			return err
		})
		switch {
		case errors.Is(err, errRefused) && !careful:
			t.drop() // the table may have been altered, of which sessions know less than they think
			careful = true
		case t.s.cfg.Mode == modeStatement && t.alone == 0 && (state(err) == stateDeadlock || state(err) == stateSerialization):
			t.alone = aloneFor
		default:
			return vs, err
		}
	}
}

// The locks that statements take are unknown, and tasks that take the same ones in
// another order meet in deadlocks, each of which takes the server a second to see. Who
// was the victim of one tries again at once, while no other task of the sink writes, and
// goes on like that for a while. Not in mode two_phase: a prepared transaction would keep
// the lock until its decision, and stall the tasks that wait for it.
const aloneFor = 100

// among adds the lock that tells the other tasks whether one wants to be alone.
func (t *task) among(b *pgconn.Batch) {
	if t.s.cfg.Mode != modeStatement {
		return
	}
	how := "_shared"
	if t.alone > 0 {
		how = ""
	}
	b.ExecParams("SELECT pg_advisory_xact_lock"+how+"($1::bigint)", [][]byte{text(statementLock(t.o))}, []uint32{oidText}, nil, nil)
}

func statementLock(o sink.Owner) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "exactly statement %q %q %q", o.Incarnation, o.Pipeline, o.Sink)
	return int64(h.Sum64()) //nolint:gosec // any number will do
}

// transact locks the mark, does what it says is still to be done, moves it and
// commits.
func (t *task) transact(ctx context.Context, c *conn, b sink.Batch, careful bool) ([]sink.Verdict, error) {
	defer c.rollback(ctx)
	var at sink.Pos
	err := t.current(ctx, c, func() (err error) {
		at, err = t.start(ctx, c, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	w := newWriter(t, c)
	end := &pgconn.Batch{}
	if at.Before(b.Through) || t.o.Guarantee == sink.AtLeastOnce {
		if err := t.fill(ctx, c, w, b, at, careful, end); err != nil {
			return nil, err
		}
	}
	vs := w.verdicts
	if at != b.Prev && t.o.Guarantee != sink.AtLeastOnce {
		// Of an earlier call, too, whose answer may have been lost.
		if vs, err = t.marks(c).kept(ctx, b.Prev, b.Through); err != nil {
			return nil, err
		}
		vs = append(vs, w.verdicts...)
	}
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkTxnBefore, t.o.Task, b.Through.Epoch); err != nil {
		return nil, sink.Transient(err)
	}
	if err := c.commit(ctx, end); err != nil {
		if c.pg.TxStatus() == 'E' { // not the end itself
			return nil, fmt.Errorf("keep verdicts and move the mark in %s: %w", t.ledger, err)
		}
		return nil, w.failed(err) // a constraint that waited for the end
	}
	return vs, sink.Transient(t.o.Failpoints.Hit(ctx, failpoint.SinkTxnAfter, t.o.Task, b.Through.Epoch))
}

// start begins the transaction and gives the place of the mark.
func (t *task) start(ctx context.Context, c *conn, b sink.Batch) (sink.Pos, error) {
	batch := &pgconn.Batch{}
	begin(batch, t.s.cfg.StatementTimeout)
	if t.o.Guarantee == sink.AtLeastOnce {
		t.among(batch)
		_, err := c.startAsSeen(ctx, batch)
		return b.Prev, err
	}
	l := t.marks(c)
	l.lock(batch)
	l.forget(batch, b.Confirmed)
	t.among(batch)
	res, err := c.startAsSeen(ctx, batch)
	if err != nil {
		return sink.Pos{}, fmt.Errorf("lock the mark in %s: %w", t.ledger, err)
	}
	at, found, err := l.locked(res[beginResults].Rows)
	if err == nil && (!found || at.Before(b.Prev)) {
		err = t.behind(at, found, b.Prev)
	}
	if mutation.On(mutation.LedgerIgnored) {
		at = b.Prev
	}
	return at, err
}

// fill writes what is behind the mark, and adds to end what moves it.
func (t *task) fill(ctx context.Context, c *conn, w *writer, b sink.Batch, at sink.Pos, careful bool, end *pgconn.Batch) error {
	rest := tables.After(at, b.Records)
	var err error
	if c.rollup != nil {
		err = c.rollup.replace(ctx, c, w, rest, b.Through.Epoch)
	} else {
		err = w.put(ctx, c, rest, careful)
	}
	if err == nil && !careful {
		err = t.outdated(ctx, c, w)
	}
	if err != nil {
		return fmt.Errorf("write %d records: %w", len(rest), err)
	}
	slices.SortFunc(w.verdicts, func(a, b sink.Verdict) int { return a.Pos.Compare(b.Pos) })
	if t.o.Guarantee == sink.AtLeastOnce {
		return nil
	}
	if mutation.On(mutation.MarkApart) {
		if err := c.commit(ctx, &pgconn.Batch{}); err != nil {
			return w.failed(err)
		}
		if err := c.exec(ctx, "BEGIN"); err != nil {
			return err
		}
	}
	l := t.marks(c)
	l.keep(end, w.verdicts)
	l.move(end, b.Through)
	return nil
}

func (t *task) behind(at sink.Pos, found bool, want sink.Pos) error {
	return tables.Behind(t.ledger.String(), "database", t.o, at, found, want)
}

// Close implements sink.OutboxTask.
func (t *task) Close() error {
	t.drop()
	return nil
}
