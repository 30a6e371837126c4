package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/tables"
	"exactly/sink"
)

// Sink writes to one table of one database. It is safe for concurrent use; each
// of its tasks has a session of its own.
type Sink struct {
	name string
	cfg  Config
	x    tables.Exprs
	base *pgconn.Config
}

var _ sink.Outbox = (*Sink)(nil)

// New checks the settings. It does not connect. The sink is a sink.Outbox, in mode
// two_phase a sink.Staging.
func New(name string, c Config) (sink.Sink, error) {
	staged := c.Mode == modeTwoPhase
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	base, err := pgconn.ParseConfig(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("sink %s: dsn: %w", name, err) // without the password: pgconn leaves it out
	}
	x, err := tables.Compile(c.Columns, c.Version, c.Args)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	s := &Sink{name: name, cfg: c, x: x, base: base}
	if staged {
		return &Staged{s}, nil
	}
	return s, nil
}

// Features implements sink.Sink.
func (s *Sink) Features() sink.Features {
	return sink.Features{
		Deletes: s.cfg.Mode == modeUpsert, Keyless: s.cfg.Mode != modeUpsert,
		DurableVerdicts: true, Rejects: true,
	}
}

// Check implements sink.Sink: the database can be reached, and the table fits
// the settings. It creates nothing.
func (s *Sink) Check(ctx context.Context) error {
	c, err := s.connect(ctx, "exactly check "+s.name)
	if err != nil {
		return s.wrap("check", err)
	}
	defer c.close()
	if s.cfg.Mode == modeStatement {
		_, err = s.parameters(ctx, c)
	} else if _, err = newPlan(ctx, c, s.cfg, s.x, true); errors.Is(err, errCreate) {
		err = nil
	}
	return s.wrap("check", err)
}

// Close implements sink.Sink. Sessions belong to tasks.
func (s *Sink) Close() error { return nil }

// parameters lets the server read the statement, and gives the types of its
// parameters.
func (s *Sink) parameters(ctx context.Context, c *conn) ([]column, error) {
	d, err := c.pg.Prepare(ctx, "", s.cfg.Statement, nil)
	if err != nil {
		return nil, fmt.Errorf("statement: %w", lost(err))
	}
	if len(d.ParamOIDs) != len(s.cfg.Args) {
		return nil, sink.Fatal(fmt.Errorf("args: the statement has %d parameters, args has %d", len(d.ParamOIDs), len(s.cfg.Args)))
	}
	cols := make([]column, len(d.ParamOIDs))
	for i, oid := range d.ParamOIDs {
		rows, err := c.query(ctx, `SELECT '', '', b.typname, b.typcategory, b.typtype, '-1', '-1', '', 't', coalesce(e.typname, '')
			FROM pg_type b LEFT JOIN pg_type e ON e.oid = b.typelem AND b.typcategory = 'A' WHERE b.oid = $1::oid`,
			strconv.AppendUint(nil, uint64(oid), 10))
		if err != nil || len(rows) == 0 {
			return nil, fmt.Errorf("look up the type of parameter $%d: %w", i+1, err)
		}
		cols[i] = columnOf(rows[0])
	}
	return cols, nil
}

// wrap names the sink and classes errors of the database.
func (s *Sink) wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s sink %s (%s at %s): %w", act, s.name, s.base.Database, s.base.Host, classed(err))
}

// OpenOutbox implements sink.Outbox.
func (s *Sink) OpenOutbox(ctx context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	t := &task{s: s, o: o}
	ctx, cancel := t.timeout(ctx)
	defer cancel()
	r, err := s.open(ctx, t, confirmed)
	if err != nil {
		t.drop()
		return nil, sink.Resume{}, s.wrap(fmt.Sprintf("open task %d of", o.Task), err)
	}
	return t, r, nil
}

func (s *Sink) open(ctx context.Context, t *task, confirmed sink.Pos) (sink.Resume, error) {
	r := sink.Resume{Through: confirmed}
	c, err := s.connect(ctx, sessionName(t.o))
	if err != nil {
		return r, err
	}
	t.c = c
	if err := s.ready(ctx, t, c); err != nil {
		return r, err
	}
	if t.o.Guarantee == sink.AtLeastOnce {
		return r, nil
	}
	if err := c.endOlder(ctx, t.o); err != nil {
		return r, err
	}
	return t.resume(ctx, c, confirmed)
}

// ready makes the tables, where it has to, and looks at them.
func (s *Sink) ready(ctx context.Context, t *task, c *conn) (err error) {
	ledgerName, err := parseName(s.cfg.LedgerTable)
	if err != nil {
		return sink.Fatal(err)
	}
	if s.cfg.Mode == modeStatement {
		t.ledger = ledgerName
		t.params, err = s.parameters(ctx, c)
		return err
	}
	name, err := parseName(s.cfg.Table)
	if err != nil {
		return sink.Fatal(err)
	}
	t.ledger = name.beside(ledgerName)
	if err = t.look(ctx, c); errors.Is(err, errCreate) {
		if err := s.createTable(ctx, c); err != nil {
			return fmt.Errorf("create table %s: %w", name, err)
		}
		return t.look(ctx, c)
	}
	return err
}

func (s *Sink) createTable(ctx context.Context, c *conn) error {
	ddl, err := s.cfg.createTable()
	if err != nil {
		return sink.Fatal(err)
	}
	defer c.rollback(ctx)
	if err := c.exec(ctx, fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d)", int64(ledgerLock))); err != nil {
		return err
	}
	if err := c.exec(ctx, ddl); err != nil {
		return err
	}
	return c.commit(ctx, s.cfg.StatementTimeout)
}

// resume compares the ledger with what the journal knows.
func (t *task) resume(ctx context.Context, c *conn, confirmed sink.Pos) (sink.Resume, error) {
	defer c.rollback(ctx)
	b, l := &pgconn.Batch{}, t.marks(c)
	begin(b, t.s.cfg.StatementTimeout)
	if _, err := c.run(ctx, b); err != nil {
		return sink.Resume{}, fmt.Errorf("begin: %w", err)
	}
	if err := l.create(ctx); err != nil {
		return sink.Resume{}, err
	}
	earlier, err := l.foreign(ctx)
	if err != nil {
		return sink.Resume{}, err
	}
	b = &pgconn.Batch{}
	l.lock(b)
	res, err := c.run(ctx, b)
	if err != nil {
		return sink.Resume{}, fmt.Errorf("lock the mark in %s: %w", t.ledger, err)
	}
	at, found, err := l.locked(res[0].Rows)
	switch {
	case err != nil:
		return sink.Resume{}, err
	case !found && earlier && c.plan != nil && t.s.cfg.Mode == modeUpsert && !c.plan.ordered() && !t.s.cfg.AllowReplay:
		return sink.Resume{}, t.replay()
	case !found && t.o.Fresh:
		at = confirmed // added to a running pipeline: it begins here
	}
	if at.Before(confirmed) {
		return sink.Resume{}, t.behind(at, found, confirmed)
	}
	if err := l.begin(ctx, at); err != nil {
		return sink.Resume{}, err
	}
	r := sink.Resume{Through: at}
	if r.Verdicts, err = l.kept(ctx, confirmed, at); err != nil {
		return r, err
	}
	return r, c.commit(ctx, t.s.cfg.StatementTimeout)
}

func (t *task) replay() error {
	return sink.Fatal(fmt.Errorf("generation %d may read the source again, and nothing in table %s tells which row is newer: "+
		"ALTER TABLE %s ADD COLUMN %s bytea, or set version, or, if older records may overwrite newer rows, allow_replay: true",
		t.o.Generation, t.c.plan.info.name, t.c.plan.info.name, tables.ColumnOrder))
}

// sessionName is what other sessions know this one by: whose task it works for,
// and which attempt. PostgreSQL keeps 63 bytes.
func sessionName(o sink.Owner) string {
	return fmt.Sprintf("%s%d", sessionsOf(o), o.Attempt)
}

func sessionsOf(o sink.Owner) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %q %q %d", o.Incarnation, o.Pipeline, o.Sink, o.Generation)
	return fmt.Sprintf("exactly %016x t%d a", h.Sum64(), o.Task)
}

// endOlder ends sessions of older attempts of this task: one that is frozen in
// the middle of a transaction holds the lock on the mark. What they have
// committed stays, and what they have not is not decided by them. A user who may
// not end them has to wait until the server does.
func (c *conn) endOlder(ctx context.Context, o sink.Owner) error {
	prefix := sessionsOf(o)
	rows, err := c.query(ctx, `SELECT pid, application_name FROM pg_stat_activity
		WHERE starts_with(application_name, $1) AND datname = current_database() AND pid <> pg_backend_pid()`, []byte(prefix))
	if err != nil {
		return fmt.Errorf("look for sessions of older attempts: %w", err)
	}
	for _, r := range rows {
		attempt, err := strconv.ParseInt(strings.TrimPrefix(string(r[1]), prefix), 10, 64)
		if err != nil || attempt >= o.Attempt {
			continue
		}
		if _, err := c.query(ctx, "SELECT pg_terminate_backend($1::int)", r[0]); err != nil && state(err) != "42501" {
			return fmt.Errorf("end the session of attempt %d: %w", attempt, err)
		}
		logger(o).Info("older_session_ended", "sink", o.Sink, "task", o.Task, "attempt", attempt)
	}
	return nil
}

func logger(o sink.Owner) *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}
