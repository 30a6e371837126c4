package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/tables"
	"exactly/sink"
	"exactly/step/cel"
)

// Sink writes to tables of one database. It is safe for concurrent use; each
// of its tasks has a session of its own.
type Sink struct {
	name string
	cfg  Config
	x    []tables.Exprs // by table; in mode statement, of the statement
	base *pgconn.Config
	most atomic.Int64 // records of a statement of mode two_phase; 0: as many as there are
	good atomic.Int64 // epochs since then
	seen seen

	makes []string // see Deps

	spares spares
}

var _ sink.Outbox = (*Sink)(nil)

// Deps is what the sink is given beside its settings.
type Deps struct {
	// Env knows the declared fields of the records; nil: none are declared. It tells at
	// the start which expressions give what their columns never take.
	Env *cel.Env
	// Makes are the tables that other sinks of the pipeline make where they are missing
	// (see Config.Makes): a query is not refused for the lack of a table while one of
	// them is. nil: not known, it is never refused for that.
	Makes []string
}

// New is NewWith without declared fields.
func New(name string, c Config) (sink.Sink, error) { return NewWith(name, c, Deps{}) }

// NewWith checks the settings. It does not connect. The sink is a sink.Outbox, in mode
// two_phase a sink.Staging.
func NewWith(name string, c Config, d Deps) (sink.Sink, error) {
	staged := c.Mode == modeTwoPhase
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	base, err := ParseDSN(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("sink %s: dsn: %w", name, err)
	}
	s := &Sink{name: name, cfg: c, base: base, makes: d.Makes}
	if s.x, err = c.compile(d.Env); err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	if staged {
		return &Staged{s: s}, nil
	}
	return s, nil
}

func (c Config) compile(env *cel.Env) ([]tables.Exprs, error) {
	if c.Mode == modeStatement {
		x, err := tables.Compile(tables.Sources{Args: c.Args, Declared: env})
		return []tables.Exprs{x}, err
	}
	var xs []tables.Exprs
	for i, t := range c.specs() {
		x, err := tables.Compile(tables.Sources{Each: t.Each, Columns: t.Columns, Version: t.Version, Declared: env})
		if err != nil && len(c.Tables) > 0 {
			err = fmt.Errorf("tables[%d].%w", i, err)
		}
		if err != nil {
			return nil, err
		}
		xs = append(xs, x)
	}
	return xs, nil
}

// Features implements sink.Sink.
func (s *Sink) Features() sink.Features {
	f := sink.Features{Deletes: s.cfg.Mode == modeUpsert || s.cfg.Mode == modeReplace, DurableVerdicts: true, Rejects: true}
	f.Keyless, f.Batch = !f.Deletes, s.transaction()
	for _, t := range s.cfg.Tables {
		f.Keyless = f.Keyless || len(t.Key) == 0
		f.Deletes = f.Deletes && len(t.Key) > 0 && (t.Each == "" || len(t.Parent) > 0)
	}
	return f
}

// transaction is how many records one may have.
func (s *Sink) transaction() int {
	if s.cfg.Mode == modeAppend {
		return maxAppend
	}
	return maxTransaction
}

// Follows implements sink.Follower: the sinks that write what the query of mode
// replace reads.
func (s *Sink) Follows() []string { return s.cfg.From }

// Check implements sink.Sink: the database can be reached, and the table fits
// the settings. It creates nothing.
func (s *Sink) Check(ctx context.Context) error {
	if s.cfg.PasswordFile != "" {
		if _, err := s.password(); err != nil {
			return s.wrap("check", sink.Fatal(err))
		}
	}
	c, err := s.connect(ctx, "exactly check "+s.name)
	if err != nil {
		return s.wrap("check", err)
	}
	defer c.close()
	if s.cfg.Mode == modeStatement {
		if _, err = s.parameters(ctx, c); state(err) == stateLocked {
			err = nil
		}
	} else if err = s.look(ctx, c, true, known{}); errors.Is(err, errCreate) {
		err = nil
	} else if err == nil {
		s.seen.keep(c.plans)
	}
	return s.wrap("check", err)
}

// look makes the plans for the tables, those that are known without asking for them.
func (s *Sink) look(ctx context.Context, c *conn, ordered bool, k known) (err error) {
	if c.plans, err = newPlans(ctx, c, s.cfg, s.x, ordered, k); err != nil {
		return err
	}
	if s.cfg.Mode == modeReplace {
		if err := s.rollup(ctx, c); err != nil {
			return err
		}
	}
	c.looked = true
	return nil
}

// Close implements sink.Sink. Sessions belong to tasks.
func (s *Sink) Close() error { return nil }

// parameters lets the server read the statement, and gives the types of its
// parameters. A table that is locked is not waited for, as in plan.read.
func (s *Sink) parameters(ctx context.Context, c *conn) ([]column, error) {
	if err := c.beginReading(ctx); err != nil {
		return nil, err
	}
	defer c.rollback(ctx)
	return s.parametersNow(ctx, c)
}

// parametersNow is parameters within a transaction.
func (s *Sink) parametersNow(ctx context.Context, c *conn) ([]column, error) {
	d, err := c.prepare(ctx, s.cfg.Statement, nil)
	if err != nil {
		return nil, fmt.Errorf("statement: %w", err)
	}
	if len(d.ParamOIDs) != len(s.cfg.Args) {
		return nil, sink.Fatal(fmt.Errorf("args: the statement has %d parameters, args has %d", len(d.ParamOIDs), len(s.cfg.Args)))
	}
	cols := make([]column, len(d.ParamOIDs))
	for i, oid := range d.ParamOIDs {
		rows, err := c.query(ctx, `SELECT '', '', b.typname, b.typcategory, b.typtype, greatest(-1, d.mod, de.mod), '', 't', coalesce(e.typname, ''), format_type($1::oid, -1), ''
			FROM `+baseOf("$1::oid")+` d`+typesOf,
			strconv.AppendUint(nil, uint64(oid), 10))
		if err != nil || len(rows) == 0 {
			return nil, fmt.Errorf("look up the type of parameter $%d: %w", i+1, err)
		}
		cols[i] = columnOf(rows[0])
	}
	if err := argsFit(&s.x[0], cols); err != nil {
		return nil, sink.Fatal(err)
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
	c, err := s.session(ctx, t.o)
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

// ready makes the tables, where it has to, looks at them, and finds the ledger.
func (s *Sink) ready(ctx context.Context, t *task, c *conn) (err error) {
	if t.ledger, err = parseName(s.cfg.LedgerTable); err != nil {
		return sink.Fatal(err)
	}
	if s.cfg.Mode == modeStatement {
		if err := t.lookAgain(ctx, c); err != nil && state(err) != stateLocked {
			return err // locked: the first write asks again; what has to be committed before then may hold the lock
		}
		return t.findLedger(ctx, c)
	}
	if err = t.look(ctx, c); errors.Is(err, errCreate) {
		switch used, uerr := t.used(ctx, c); {
		case uerr != nil:
			return uerr
		case used:
			return gone(err)
		}
		if err := s.createTables(ctx, c); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
		err = t.look(ctx, c)
	}
	if err != nil {
		return err
	}
	return t.findLedger(ctx, c)
}

// used finds the ledger where the table is not there, and says whether the sink has
// written anything.
func (t *task) used(ctx context.Context, c *conn) (bool, error) {
	name, err := parseName(t.s.cfg.specs()[0].Table)
	if err != nil {
		return false, sink.Fatal(err)
	}
	t.ledger = name.beside(t.ledger)
	if err := t.findLedger(ctx, c); err != nil {
		return false, err
	}
	return t.marks(c).used(ctx)
}

func (s *Sink) createTables(ctx context.Context, c *conn) error {
	ddl, err := s.cfg.createTables()
	if err != nil {
		return sink.Fatal(err)
	}
	return c.write(ctx, func() error {
		return c.exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d); ", int64(ledgerLock))+ddl)
	})
}

// resume compares the ledger with what the journal knows.
func (t *task) resume(ctx context.Context, c *conn, confirmed sink.Pos) (sink.Resume, error) {
	defer c.rollback(ctx)
	b, l := &pgconn.Batch{}, t.marks(c)
	begin(b, t.s.cfg.StatementTimeout)
	if _, err := c.start(ctx, b); err != nil {
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
	case !found && earlier && unordered(c.plans) != nil && !t.s.cfg.AllowReplay:
		return sink.Resume{}, t.replay(unordered(c.plans))
	case !found && t.o.Fresh:
		at = confirmed // added to a running pipeline: it begins here
	}
	if at.Before(confirmed) {
		return sink.Resume{}, t.behind(at, found, confirmed)
	}
	if !found {
		if err := l.fresh(ctx); err != nil {
			return sink.Resume{}, err
		}
	}
	if err := l.begin(ctx, at); err != nil {
		return sink.Resume{}, err
	}
	r := sink.Resume{Through: at}
	if r.Verdicts, err = l.kept(ctx, confirmed, at); err != nil {
		return r, err
	}
	return r, c.commit(ctx, &pgconn.Batch{})
}

// unordered is a table in which an older record may overwrite a newer row.
func unordered(plans []*plan) *plan {
	for _, p := range plans {
		if p.mode == modeUpsert && !p.ordered() {
			return p
		}
	}
	return nil
}

func (t *task) replay(p *plan) error {
	return sink.Fatal(fmt.Errorf("generation %d may read the source again, and nothing in table %s tells which row is newer: "+
		"ALTER TABLE %s ADD COLUMN %s bytea, or set version, or, if older records may overwrite newer rows, allow_replay: true",
		t.o.Generation, p.info.name, p.info.name, tables.ColumnOrder))
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
