package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"exactly/internal/tables"
	"exactly/sink"
)

// ledger reads and writes the marks of one task. Its methods run inside a
// transaction that holds the write lock.
type ledger struct {
	c     *conn
	table string
	path  string
	o     sink.Owner
}

func (l *ledger) verdicts() string { return l.table + "_verdicts" }

// create makes both tables.
func (l *ledger) create(ctx context.Context) error {
	for _, ddl := range []string{
		"CREATE TABLE IF NOT EXISTS " + tables.Quote(l.table) + ` (
			pipeline TEXT NOT NULL, sink TEXT NOT NULL, generation INTEGER NOT NULL, task INTEGER NOT NULL,
			incarnation TEXT NOT NULL, attempt INTEGER NOT NULL, epoch INTEGER NOT NULL, "index" INTEGER NOT NULL,
			PRIMARY KEY (pipeline, sink, generation, task)) STRICT, WITHOUT ROWID`,
		"CREATE TABLE IF NOT EXISTS " + tables.Quote(l.verdicts()) + ` (
			pipeline TEXT NOT NULL, sink TEXT NOT NULL, generation INTEGER NOT NULL, task INTEGER NOT NULL,
			epoch INTEGER NOT NULL, "index" INTEGER NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL,
			PRIMARY KEY (pipeline, sink, generation, task, epoch, "index")) STRICT, WITHOUT ROWID`,
	} {
		if err := l.c.run(ctx, ddl); err != nil {
			return fmt.Errorf("create the ledger table %s: %w", l.table, err)
		}
	}
	return nil
}

// where is the row of the task, with its first four parameters.
const where = " WHERE pipeline = ?1 AND sink = ?2 AND generation = ?3 AND task = ?4"

func (l *ledger) args(more ...driver.Value) []driver.Value {
	return append([]driver.Value{l.o.Pipeline, l.o.Sink, int64(l.o.Generation), int64(l.o.Task)}, more...)
}

// foreign looks for marks that another incarnation left for this sink of a
// pipeline of this name, for any task.
func (l *ledger) foreign(ctx context.Context) error {
	found := ""
	err := l.c.query(ctx, "SELECT incarnation FROM "+tables.Quote(l.table)+" WHERE pipeline = ? AND sink = ? AND incarnation <> ? LIMIT 1",
		[]driver.Value{l.o.Pipeline, l.o.Sink, l.o.Incarnation}, func(row []driver.Value) error {
			found, _ = row[0].(string)
			return nil
		})
	if err != nil {
		return fmt.Errorf("read the ledger %s: %w", l.table, err)
	}
	if found != "" {
		return l.foreignMark(found)
	}
	return nil
}

func (l *ledger) foreignMark(incarnation string) error {
	return fmt.Errorf("%w: %s in %s says that incarnation %s of pipeline %s wrote here, this is %s;"+
		" if the pipeline was created anew on purpose and the rows may stay, remove the old marks with"+
		" DELETE FROM %s WHERE pipeline = '%s' AND sink = '%s', else give this pipeline another name or file",
		sink.ErrForeignMark, l.table, l.path, incarnation, l.o.Pipeline, l.o.Incarnation,
		tables.Quote(l.table), l.o.Pipeline, l.o.Sink)
}

// read gives the mark of the task; found is false, where there is none.
func (l *ledger) read(ctx context.Context) (at sink.Pos, found bool, err error) {
	incarnation := ""
	err = l.c.query(ctx, "SELECT incarnation, epoch, \"index\" FROM "+tables.Quote(l.table)+where, l.args(), func(row []driver.Value) error {
		found = true
		incarnation, _ = row[0].(string)
		at.Epoch, _ = row[1].(int64)
		at.Index, _ = row[2].(int64)
		return nil
	})
	if err != nil {
		return at, false, fmt.Errorf("read the ledger %s: %w", l.table, err)
	}
	if found && incarnation != l.o.Incarnation {
		return at, true, l.foreignMark(incarnation)
	}
	return at, found, nil
}

// begin makes the mark of a task that has none, at the place where it begins, or
// notes who is at work.
func (l *ledger) begin(ctx context.Context, at sink.Pos) error {
	_, err := l.c.exec(ctx, "INSERT INTO "+tables.Quote(l.table)+
		` (pipeline, sink, generation, task, incarnation, attempt, epoch, "index") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
		ON CONFLICT DO UPDATE SET attempt = max(attempt, excluded.attempt)`, l.args(l.o.Incarnation, l.o.Attempt, at.Epoch, at.Index)...)
	if err != nil {
		return fmt.Errorf("open the ledger %s: %w", l.table, err)
	}
	return nil
}

// move moves the mark from one place to the next: the last statement of a
// transaction.
func (l *ledger) move(ctx context.Context, from, to sink.Pos) error {
	n, err := l.c.exec(ctx, "UPDATE "+tables.Quote(l.table)+` SET epoch = ?5, "index" = ?6, attempt = max(attempt, ?7)`+
		where+` AND incarnation = ?8 AND epoch = ?9 AND "index" = ?10`,
		l.args(to.Epoch, to.Index, l.o.Attempt, l.o.Incarnation, from.Epoch, from.Index)...)
	if err == nil && n != 1 {
		err = fmt.Errorf("the mark is no longer at %s", from)
	}
	if err != nil {
		return fmt.Errorf("move the ledger %s to %s: %w", l.table, to, err)
	}
	return nil
}

// keep stores verdicts until they are confirmed.
func (l *ledger) keep(ctx context.Context, vs []sink.Verdict) error {
	for _, v := range vs {
		_, err := l.c.exec(ctx, "INSERT INTO "+tables.Quote(l.verdicts())+
			` (pipeline, sink, generation, task, epoch, "index", code, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
			l.args(v.Pos.Epoch, v.Pos.Index, v.Code, v.Reason)...)
		if err != nil {
			return fmt.Errorf("keep the verdict for %s: %w", v.Pos, err)
		}
	}
	return nil
}

// kept gives the stored verdicts behind from up to through.
func (l *ledger) kept(ctx context.Context, from, through sink.Pos) (vs []sink.Verdict, err error) {
	err = l.c.query(ctx, `SELECT epoch, "index", code, reason FROM `+tables.Quote(l.verdicts())+where+
		` AND (epoch, "index") > (?5, ?6) AND (epoch, "index") <= (?7, ?8) ORDER BY epoch, "index"`,
		l.args(from.Epoch, from.Index, through.Epoch, through.Index), func(row []driver.Value) error {
			var v sink.Verdict
			v.Pos.Epoch, _ = row[0].(int64)
			v.Pos.Index, _ = row[1].(int64)
			v.Code, _ = row[2].(string)
			v.Reason, _ = row[3].(string)
			vs = append(vs, v)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the kept verdicts: %w", err)
	}
	return vs, nil
}

// forget drops verdicts that a decision has made durable elsewhere.
func (l *ledger) forget(ctx context.Context, confirmed sink.Pos) error {
	_, err := l.c.exec(ctx, "DELETE FROM "+tables.Quote(l.verdicts())+where+` AND (epoch, "index") <= (?5, ?6)`,
		l.args(confirmed.Epoch, confirmed.Index)...)
	if err != nil {
		return fmt.Errorf("forget confirmed verdicts: %w", err)
	}
	return nil
}
