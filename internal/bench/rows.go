package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/sink/postgres"
)

// database is where contestants write rows: a schema of the run's own, so that
// the sink's ledger is removed with it.
type database struct {
	c      *pgx.Conn
	dsn    string // opens sessions in the schema; a secret
	schema string // quoted
}

func openDatabase(ctx context.Context, dsn, name string) (*database, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("postgres: is not a postgres:// URL") // what it is may hold a password
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	d := &database{dsn: u.String(), schema: pgx.Identifier{name}.Sanitize()}
	if d.c, err = postgres.Connect(ctx, d.dsn); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if _, err := d.c.Exec(ctx, "CREATE SCHEMA "+d.schema); err != nil {
		err = fmt.Errorf("make the schema %s: %w", d.schema, err)
		if d.c.IsClosed() { // it may be there
			return nil, errors.Join(err, d.close(ctx))
		}
		return nil, errors.Join(err, d.c.Close(ctx))
	}
	return d, nil
}

// close removes everything, also after an interrupt, and within a time of its own.
func (d *database) close(ctx context.Context) error {
	if d == nil {
		return nil
	}
	err := clean(ctx, d.c, d.dsn, "DROP SCHEMA IF EXISTS "+d.schema+" CASCADE")
	if err != nil {
		err = fmt.Errorf("remove the schema %s, which is to be dropped by hand now: %w", d.schema, err)
	}
	return err
}

// clean executes the last statement of a session and ends it. A context that ends in the
// middle of a query closes its session: then another one is opened.
func clean(ctx context.Context, c *pgx.Conn, dsn, statement string) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if c.IsClosed() {
		if c, err = postgres.Connect(ctx, dsn); err != nil {
			return fmt.Errorf("connect to PostgreSQL again: %w", err)
		}
	}
	_, err = c.Exec(ctx, statement)
	return errors.Join(err, c.Close(ctx))
}

// cleanTime bounds what is done after the end.
const cleanTime = 30 * time.Second

// table makes the table of a job. Rows are looked for by the time of their
// processing: without an index the looks would cost more than what they look for.
func (d *database) table(ctx context.Context, name string) error {
	table := pgx.Identifier{name}.Sanitize()
	_, err := d.c.Exec(ctx, "CREATE TABLE "+table+` (payment_id uuid PRIMARY KEY, amount_cents bigint NOT NULL, merchant_id text NOT NULL,
		event_time timestamptz NOT NULL, status text NOT NULL, fee_cents bigint NOT NULL, processed_at timestamptz NOT NULL);
		CREATE INDEX ON `+table+" (processed_at)")
	if err != nil {
		return fmt.Errorf("make table %s: %w", name, err)
	}
	return nil
}

// processedAfter waits for a row that is visible and was processed after t.
func (d *database) processedAfter(ctx context.Context, p *process, name string, t time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		var there bool
		err := d.c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+pgx.Identifier{name}.Sanitize()+" WHERE processed_at > $1)", t).Scan(&there)
		if err != nil {
			return time.Time{}, fmt.Errorf("wait for a row after the restart: %w%s", err, p.tail())
		}
		if there {
			return time.Now(), nil
		}
		select {
		case <-look.C:
		case <-p.exited:
			return time.Time{}, p.died()
		}
	}
}

// settled waits until the table has as many rows as there were payments, or until
// nothing more comes; its key sees to it that no payment is there twice.
func (d *database) settled(ctx context.Context, name string, c Counts) (Counts, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		var n int64
		if err := d.c.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{name}.Sanitize()).Scan(&n); err != nil {
			return c, fmt.Errorf("count the rows of %s: %w", name, err)
		}
		if n != last {
			last, since = n, time.Now()
		}
		if n == c.Inputs || time.Since(since) > quietFor {
			return Counts{Inputs: c.Inputs, Unique: min(n, c.Inputs), Unknown: max(n-c.Inputs, 0)}, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}
