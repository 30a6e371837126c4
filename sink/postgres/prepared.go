package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"exactly/internal/failpoint"
	"exactly/internal/mutation"
	"exactly/sink"
)

// prepared is what a committable holds.
type prepared struct {
	GID string `json:"gid"`
}

// epochMarks are the marks that a prepared transaction carries: one row for each
// epoch and attempt that was committed, so that a transaction that is gone can be
// told from one that was lost.
type epochMarks struct{ ledger }

func (m *epochMarks) name() tableName {
	return tableName{schema: m.table.schema, table: m.table.table + "_epochs"}
}

func (m *epochMarks) create(ctx context.Context) error {
	there, err := m.c.exist(ctx, m.name())
	if there {
		return nil
	}
	if err == nil {
		err = m.c.write(ctx, func() error { // under the lock that all makers of tables take
			return m.c.exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d); CREATE TABLE IF NOT EXISTS %s (", ledgerLock, m.name())+
				`pipeline text NOT NULL, sink text NOT NULL, generation integer NOT NULL, task integer NOT NULL,
				attempt bigint NOT NULL, epoch bigint NOT NULL, incarnation text NOT NULL,
				PRIMARY KEY (pipeline, sink, generation, task, attempt, epoch))`)
		})
	}
	if err != nil {
		return fmt.Errorf("create the ledger table %s: %w", m.name(), err)
	}
	return nil
}

// set writes the mark of an epoch, the last statement before it is prepared. An
// attempt that has a successor gets no further.
func (m *epochMarks) set(ctx context.Context, epoch int64) error {
	rows, err := m.c.query(ctx, "INSERT INTO "+m.name().String()+` (pipeline, sink, generation, task, attempt, epoch, incarnation)
		SELECT $1, $2, $3::int, $4::int, $5::bigint, $6::bigint, $7 FROM `+m.table.String()+where+` AND incarnation = $7 AND attempt <= $5::bigint RETURNING 1`,
		m.args(text(m.o.Attempt), text(epoch), []byte(m.o.Incarnation))...)
	if err != nil {
		return fmt.Errorf("write the mark of the epoch into %s: %w", m.name(), err)
	}
	if len(rows) == 0 {
		return sink.Transient(fmt.Errorf("attempt %d has a successor, or its mark in %s is gone", m.o.Attempt, m.table))
	}
	return nil
}

// has looks for the mark of what was committed.
func (m *epochMarks) has(ctx context.Context, by stagedBy) (bool, error) {
	rows, err := m.c.query(ctx, "SELECT 1 FROM "+m.name().String()+` WHERE pipeline = $1 AND sink = $2 AND generation = $3::int AND task = $4::int
		AND attempt = $5::bigint AND epoch = $6::bigint AND incarnation = $7`,
		[]byte(m.o.Pipeline), []byte(m.o.Sink), text(by.generation), text(by.task), text(by.attempt), text(by.epoch), []byte(m.o.Incarnation))
	if err != nil {
		return false, fmt.Errorf("look for the mark of the epoch in %s: %w", m.name(), err)
	}
	return len(rows) > 0, nil
}

// drop deletes marks of the task.
func (m *epochMarks) drop(ctx context.Context, which string, args ...[]byte) error {
	if _, err := m.c.query(ctx, "DELETE FROM "+m.name().String()+where+which, m.args(args...)...); err != nil {
		return fmt.Errorf("drop old marks from %s: %w", m.name(), err)
	}
	return nil
}

// knows compares with what the journal knows as committed.
func (t *stagedTask) knows(ctx context.Context, m *epochMarks) error {
	if t.o.Committed == nil {
		return nil
	}
	var p prepared
	if err := json.Unmarshal(t.o.Committed.Data, &p); err != nil {
		return sink.Fatal(fmt.Errorf("read what was committed: %w", err))
	}
	name := p.GID
	by, ok := committedBy(name)
	if !ok {
		return sink.Fatal(fmt.Errorf("what was committed names %q, which is no prepared transaction of ours", name))
	}
	if there, err := m.has(ctx, by); err != nil || there {
		return err
	}
	return fmt.Errorf("%w: epoch %d was committed as %s, and %s does not know it; the database was restored from an older copy, or a standby took over that did not have it: "+
		"bring back what it lacks, or begin a new generation with `exactly reset --to` a position before it", sink.ErrLedgerBehind, by.epoch, name, m.name())
}

// keptMarks is how many marks of a task stay. The journal lists far fewer
// transactions that are not known as committed.
const keptMarks = 1024

// prune drops marks that nobody will ask for again.
func (m *epochMarks) prune(ctx context.Context) error {
	return m.c.write(ctx, func() error {
		return m.drop(ctx, " AND epoch < (SELECT epoch FROM "+m.name().String()+where+fmt.Sprintf(" ORDER BY epoch DESC OFFSET %d LIMIT 1)", keptMarks))
	})
}

// adminConn is the session in which prepared transactions are ended: it never
// waits behind one that writes.
type adminConn struct {
	mu      sync.Mutex
	c       *conn
	commits int
}

// administer calls f with the session, opened if need be, under the time limit of
// a statement.
func (t *stagedTask) administer(ctx context.Context, f func(ctx context.Context, c *conn) error) error {
	return t.admin.with(ctx, t.s, func(ctx context.Context) (*conn, error) { return t.s.session(ctx, t.o) }, f)
}

func (a *adminConn) with(ctx context.Context, s *Sink, open func(context.Context) (*conn, error), f func(ctx context.Context, c *conn) error) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout)
	defer cancel()
	for {
		kept := a.c != nil && !a.c.pg.IsClosed()
		if !kept {
			if a.c, err = open(ctx); err != nil {
				return err
			}
		}
		if err = f(ctx, a.c); err == nil {
			return nil
		}
		gone := a.c.pg.IsClosed()
		a.c.close()
		a.c = nil
		// All that is done here may be done twice, and a session that has long been
		// idle may have been ended meanwhile.
		if !kept || !gone || ctx.Err() != nil {
			return err
		}
	}
}

func (a *adminConn) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.c != nil {
		a.c.close()
		a.c = nil
	}
}

const (
	stateNoSuch = "42704" // there is no such prepared transaction
	pruneEvery  = 256
)

// Commit implements sink.Committer.
func (t *stagedTask) Commit(ctx context.Context, cs []sink.Committable) error {
	for _, one := range cs {
		err := t.commitOne(ctx, one)
		t.failing.Store(err != nil)
		if err != nil {
			return t.s.wrap(fmt.Sprintf("commit epoch %d of", one.Epoch), err)
		}
	}
	return nil
}

func (t *stagedTask) commitOne(ctx context.Context, one sink.Committable) error {
	name, by, err := t.parse(one)
	if err != nil {
		return err
	}
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkTxnBefore, t.o.Task, one.Epoch); err != nil {
		return sink.Transient(err)
	}
	err = t.administer(ctx, func(ctx context.Context, c *conn) error {
		if err := c.durable(ctx); err != nil {
			return err
		}
		err := c.exec(ctx, "COMMIT PREPARED "+literal(name))
		if state(err) == stateNoSuch {
			done, merr := t.marks(c).has(ctx, by)
			if merr != nil {
				return merr
			}
			if !done && !mutation.On(mutation.LostIsDone) {
				return fmt.Errorf("%w: the prepared transaction %s is not there, and no mark of it", sink.ErrLost, name)
			}
			err = nil
		} else if err == nil {
			t.settled(name, by, true)
		}
		if err != nil {
			return err
		}
		if t.admin.commits++; t.admin.commits%pruneEvery == 0 {
			return t.marks(c).prune(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.released(name)
	return sink.Transient(t.o.Failpoints.Hit(ctx, failpoint.SinkTxnAfter, t.o.Task, one.Epoch))
}

// parse reads a committable, which must be of this sink and task.
func (t *stagedTask) parse(one sink.Committable) (string, stagedBy, error) {
	var p prepared
	if err := json.Unmarshal(one.Data, &p); err != nil {
		return "", stagedBy{}, sink.Fatal(fmt.Errorf("read a committable: %w", err))
	}
	by, ok := parseGID(t.o, t.s.base.Database, p.GID)
	if !ok || by.generation != t.o.Generation || by.task != t.o.Task {
		return "", by, sink.Fatal(fmt.Errorf("the committable names %q, which is not of task %d of this sink", p.GID, t.o.Task))
	}
	return p.GID, by, nil
}

// Abort implements sink.Committer.
func (t *stagedTask) Abort(ctx context.Context, cs []sink.Committable) error {
	for _, one := range cs {
		name, by, err := t.parse(one)
		if err != nil {
			return err
		}
		if err := t.abort(ctx, name, by); err != nil {
			return t.s.wrap(fmt.Sprintf("abort epoch %d of", by.epoch), err)
		}
	}
	return nil
}

func (t *stagedTask) abort(ctx context.Context, name string, by stagedBy) error {
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkAbortBefore, t.o.Task, by.epoch); err != nil {
		return sink.Transient(err)
	}
	err := t.administer(ctx, func(ctx context.Context, c *conn) error {
		err := c.exec(ctx, "ROLLBACK PREPARED "+literal(name))
		if state(err) == stateNoSuch {
			return nil
		}
		if err == nil {
			t.settled(name, by, false)
		}
		return err
	})
	if err != nil {
		return err
	}
	t.released(name)
	return sink.Transient(t.o.Failpoints.Hit(ctx, failpoint.SinkAbortAfter, t.o.Task, by.epoch))
}

// Sweep implements sink.Committer. What an older generation left goes as well,
// whatever its task: all that it decided was committed before this one began, and
// the rest would hold its locks for ever.
func (t *stagedTask) Sweep(ctx context.Context, keep []sink.Committable) error {
	kept := map[string]bool{}
	for _, one := range keep {
		name, _, err := t.parse(one)
		if err != nil {
			return err
		}
		kept[name] = true
	}
	t.mu.Lock()
	t.keep = keep
	t.mu.Unlock()
	var names []string
	err := t.administer(ctx, func(ctx context.Context, c *conn) error {
		if err := c.endOlder(ctx, t.o); err != nil {
			return err
		}
		rows, err := c.query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1)", []byte(gidPrefix(t.o, t.s.base.Database)))
		for _, r := range rows {
			names = append(names, string(r[0]))
		}
		return err
	})
	if err != nil {
		return t.s.wrap("look for prepared transactions of", err)
	}
	for _, name := range names {
		by, ok := parseGID(t.o, t.s.base.Database, name)
		mine := by.generation == t.o.Generation && by.task == t.o.Task && by.attempt < t.o.Attempt
		mine = mine || mutation.On(mutation.SweepAll)
		if !ok || kept[name] || !mine && by.generation >= t.o.Generation {
			continue
		}
		if err := t.abort(ctx, name, by); err != nil {
			return t.s.wrap("sweep", err)
		}
		logger(t.o).Info("prepared_transaction_swept", "gid", name)
	}
	return nil
}
