//go:build services

package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresFeed gives new rows of a table in PostgreSQL, also those whose
// transaction began long before it was committed: a row that was not visible at
// the last look was written by a transaction that was not over then.
type postgresFeed struct {
	dsn, table string
	whole      string // the condition that a row does not stand alone
	sums       string // a table with sums of this one; "": there is none

	summed int64 // payments in it at the last look
	c      *pgx.Conn
	from   int64          // transactions below were over at the last look
	seen   map[int64]bool // by place
	next   time.Time
}

const postgresEvery = 200 * time.Millisecond

func (f *postgresFeed) New(ctx context.Context, fn func(string)) error {
	if time.Now().Before(f.next) {
		return nil
	}
	f.next = time.Now().Add(postgresEvery)
	if err := f.look(ctx, fn); err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "42P01" {
			return nil // not yet made by a worker
		}
		if f.c != nil && f.c.IsClosed() || f.c == nil || errors.As(err, &refused) && strings.HasPrefix(refused.Code, "57") {
			f.c = nil // the server is away for a while
			return nil
		}
		return fmt.Errorf("read new rows of %s: %w", f.table, err)
	}
	return nil
}

func (f *postgresFeed) look(ctx context.Context, fn func(string)) (err error) {
	if f.c == nil {
		if f.c, err = pgx.Connect(ctx, f.dsn); err != nil {
			return err
		}
		c := f.c
		context.AfterFunc(ctx, func() { _ = c.PgConn().Conn().Close() })
	}
	rows, err := f.c.Query(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, place, payment_id::text, "+f.whole+" FROM "+f.table+
		" t WHERE t.xmin::text::bigint >= $1 ORDER BY place", f.from)
	if err != nil {
		return err
	}
	defer rows.Close()
	from := f.from
	for rows.Next() {
		var place int64
		var id string
		var whole bool
		if err := rows.Scan(&from, &place, &id, &whole); err != nil {
			return err
		}
		if !whole {
			return fmt.Errorf("payment %s is there in part", id)
		}
		if !f.seen[place] {
			f.seen[place] = true
			fn(id)
		}
	}
	if rows.Err() != nil {
		return rows.Err()
	}
	f.from = from
	if f.sums != "" {
		return f.lookAtSums(ctx)
	}
	return nil
}

// lookAtSums wants sums that only grow, and never more of them than there are
// payments.
func (f *postgresFeed) lookAtSums(ctx context.Context) error {
	var now, have int64
	err := f.c.QueryRow(ctx, "SELECT (SELECT coalesce(sum(payments), 0)::bigint FROM "+f.sums+"), (SELECT count(*) FROM "+f.table+")").Scan(&now, &have)
	if err != nil {
		return err
	}
	if now < f.summed || now > have {
		return fmt.Errorf("%s has %d payments, after %d, of %d", f.sums, now, f.summed, have)
	}
	f.summed = now
	return nil
}

// AwaitTotals waits until the sums are of n payments.
func (p *Pipeline) AwaitTotals(n int64) {
	p.T.Helper()
	AwaitNil(p.T, "totals to have every payment", func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, p.DSN)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(ctx) }()
		var have int64
		err = c.QueryRow(ctx, "SELECT coalesce(sum(payments), 0)::bigint FROM totals").Scan(&have)
		if err == nil && have != n {
			err = fmt.Errorf("%d of %d", have, n)
		}
		return err
	})
}

// WantNothingOpen wants the pipeline to have left no session, and no transaction,
// open or prepared, in the database within 10 s.
func (p *Pipeline) WantNothingOpen() {
	p.T.Helper()
	var left string
	begin := time.Now()
	AwaitNil(p.T, "sessions and transactions of the pipeline to end", func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, p.DSN)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(ctx) }()
		err = c.QueryRow(ctx, `SELECT coalesce(string_agg(what, '; '), '') FROM (
			SELECT application_name || ' is ' || state AS what FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'exactly %'
			UNION ALL SELECT 'prepared ' || gid FROM pg_prepared_xacts WHERE database = current_database()) x`).Scan(&left)
		if err == nil && left != "" {
			err = errors.New(left)
		}
		return err
	})
	if took := time.Since(begin); took > 10*time.Second {
		p.T.Errorf("the last session or transaction of the pipeline ended after %s, want 10 s", took)
	}
}
