package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"exactly/internal/tables"
	"exactly/sink"
)

// Sink writes to one table of one database file. It is safe for concurrent use;
// its tasks take turns, since SQLite has one writer per file.
type Sink struct {
	name string
	cfg  Config
	x    tables.Exprs

	turn chan struct{} // holds a token: who has it may use c
	c    *conn         // nil: not open
}

var _ sink.Outbox = (*Sink)(nil)

// New checks the settings. It does not touch the file.
func New(name string, c Config) (*Sink, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	if err := c.tryCreate(); err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	x, err := tables.Compile(tables.Sources{Columns: c.Columns, Version: c.Version})
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	s := &Sink{name: name, cfg: c, x: x, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s, nil
}

// Features implements sink.Sink.
func (s *Sink) Features() sink.Features {
	return sink.Features{
		Deletes: s.cfg.Mode == modeUpsert, Keyless: s.cfg.Mode == modeAppend,
		DurableVerdicts: true, Rejects: true,
	}
}

// Check implements sink.Sink: the file can be written, and the table fits the
// settings. It creates nothing.
func (s *Sink) Check(ctx context.Context) error {
	_, err := os.Stat(s.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.wrap("check", s.checkAbsent())
	}
	return s.wrap("check", s.with(ctx, false, func(c *conn) error {
		if err := s.look(ctx, c); err != nil && !errors.Is(err, errCreate) {
			return err
		}
		return c.transact(ctx, func() error { return nil }, plainly)
	}))
}

// checkAbsent: the file does not exist; may it be made?
func (s *Sink) checkAbsent() error {
	if !s.cfg.Create {
		return sink.Fatal(fmt.Errorf("path: %s does not exist; create it, or set create: true and schema", s.cfg.Path))
	}
	f, err := os.CreateTemp(filepath.Dir(s.cfg.Path), ".exactly-check-*")
	if err != nil {
		return fmt.Errorf("path: files cannot be created beside %s: %w", s.cfg.Path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Close implements sink.Sink.
func (s *Sink) Close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.drop()
	return nil
}

// with calls f with the connection, opened if need be, while nobody else uses
// it.
func (s *Sink) with(ctx context.Context, create bool, f func(c *conn) error) (err error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return sink.Transient(fmt.Errorf("wait for another task: %w", ctx.Err()))
	}
	failed := true // a panic counts
	defer func() {
		if failed {
			s.drop()
		}
		s.turn <- struct{}{}
	}()
	if s.c != nil && s.c.replaced(s.cfg.Path) {
		s.drop()
	}
	if s.c == nil {
		if s.c, err = open(ctx, s.cfg.Path, s.cfg.BusyTimeout, create); err != nil {
			return err
		}
	}
	err = f(s.c)
	failed = !lasting(err)
	return err
}

func (s *Sink) drop() {
	if s.c != nil {
		s.c.close()
		s.c = nil
	}
}

// look makes the plan for the table, once per connection.
func (s *Sink) look(ctx context.Context, c *conn) error {
	if c.plan != nil {
		return nil
	}
	p, err := newPlan(ctx, c, s.cfg, s.x)
	if err != nil {
		return classed(err)
	}
	c.plan = p
	return nil
}

// ready makes the table, where it has to, and the plan for it.
func (s *Sink) ready(ctx context.Context, c *conn) error {
	err := s.look(ctx, c)
	if !errors.Is(err, errCreate) {
		return err
	}
	version := tables.VersionColumn(s.cfg.Version, s.cfg.Columns, func(name string) bool { _, ok := s.cfg.Schema[name]; return ok })
	err = c.transact(ctx, func() error { return c.run(ctx, s.cfg.createTable(version)) }, plainly)
	if err != nil {
		return classed(fmt.Errorf("create table %s: %w", s.cfg.Table, err))
	}
	return s.look(ctx, c)
}

// wrap names the sink and the file, and classes errors of the database.
func (s *Sink) wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s sink %s (%s): %w", act, s.name, s.cfg.Path, classed(err))
}

// OpenOutbox implements sink.Outbox.
func (s *Sink) OpenOutbox(ctx context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	t := &task{s: s, o: o, prefix: tables.PrefixOf(o)}
	r := sink.Resume{Through: confirmed}
	ctx, cancel := t.timeout(ctx)
	defer cancel()
	err := s.with(ctx, s.cfg.Create, func(c *conn) error {
		if err := s.ready(ctx, c); err != nil || o.Guarantee == sink.AtLeastOnce {
			return err
		}
		return c.transact(ctx, func() (err error) {
			r, err = t.open(ctx, t.ledger(c), confirmed)
			return err
		}, plainly)
	})
	if err != nil {
		return nil, sink.Resume{}, s.wrap(fmt.Sprintf("open task %d of", o.Task), err)
	}
	return t, r, nil
}
