package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"exactly/sink"
)

// conn is one session. One goroutine uses it at a time. Nothing is kept in the
// session beyond a transaction, so that a pooler may change the server behind it.
type conn struct {
	pg     *pgconn.PgConn
	looked bool    // at the tables: what follows is known
	plans  []*plan // none in mode statement
	rollup *rollup // nil but in mode replace

	limit time.Duration // of one call: a server that does not answer is as good as gone
}

// ParseDSN reads a dsn. What pgconn says of one that it cannot read may quote any part
// of it, the password too, so it is told only where it is about a file.
func ParseDSN(dsn string) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(dsn)
	if err == nil {
		return cfg, nil
	}
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return nil, file
	}
	return nil, errors.New("is neither a postgres:// URL nor keyword=value pairs that can be read; in a URL write %40 for @, %2F for / and %25 for % within the password, " +
		"in pairs put quotes around a value with blanks and write no blank beside =; or leave the password out and set password_file")
}

// Connect opens a session of pgx, for those who want more than a sink. It dials, and so
// blocks until ctx ends at the latest; the caller closes it. What pgx says of settings of
// its own that it cannot read would quote the dsn, and is not told.
func Connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	if _, err := ParseDSN(dsn); err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("gives statement_cache_capacity, description_cache_capacity or default_query_exec_mode a value that cannot be read; leave them out")
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// connect opens a session under a name that other sessions can find it by. The files
// with password and certificates are read anew: they change while a pipeline runs.
func (s *Sink) connect(ctx context.Context, name string) (*conn, error) {
	cfg, err := ParseDSN(s.cfg.DSN)
	if err != nil { // it was right when the sink was made: a file is being replaced
		return nil, sink.Transient(fmt.Errorf("dsn: %w; check the files that it names", err))
	}
	if s.cfg.PasswordFile != "" {
		if cfg.Password, err = s.password(); err != nil { // it was there at the check: it is being replaced
			return nil, sink.Transient(err)
		}
	}
	cfg.RuntimeParams["application_name"] = name
	cfg.RuntimeParams["standard_conforming_strings"] = "on"
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	if !slices.ContainsFunc(slices.Collect(maps.Keys(cfg.RuntimeParams)), func(k string) bool { return strings.EqualFold(k, "timezone") }) {
		cfg.RuntimeParams["timezone"] = "UTC" // what a time without a zone means does not depend on the server
	}
	perHost(cfg, s.cfg.ConnectTimeout)
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", unconnected(err, cfg))
	}
	return &conn{pg: pg, limit: callLimit(s.cfg.StatementTimeout)}, nil
}

// password reads that of password_file.
func (s *Sink) password() (string, error) {
	text, err := os.ReadFile(s.cfg.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password_file: %w; it has to be there and readable whenever a session is opened", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// perHost bounds each step of opening a session: a host that is silent must not use up
// the time of the next one.
func perHost(cfg *pgconn.Config, limit time.Duration) {
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > limit { // dsn may have a shorter one
		cfg.ConnectTimeout = limit
	}
	lookup := cfg.LookupFunc
	cfg.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
		defer cancel()
		return lookup(ctx, host)
	}
}

// closeTimeout bounds the farewell to a server that may be gone.
const closeTimeout = 2 * time.Second

func (c *conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.pg.Close(ctx)
}

// callLimit leaves the server time to end a statement by itself.
func callLimit(statement time.Duration) time.Duration { return 2 * statement }

// errSlow: all that was sent at once has taken longer than a call may.
var errSlow = errors.New("the server has not answered within")

// call bounds one exchange with the server. Its own limit is told from the caller's:
// less at once may be in time.
func (c *conn) call(ctx context.Context, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	err := lost(f(limited))
	if err != nil && state(err) == "" && limited.Err() != nil && ctx.Err() == nil {
		err = sink.Transient(fmt.Errorf("%w %s (twice statement_timeout): %w", errSlow, c.limit, err))
	}
	return err
}

// exec runs statements that need no parameters.
func (c *conn) exec(ctx context.Context, sql string) error {
	return c.call(ctx, func(ctx context.Context) error { return c.pg.Exec(ctx, sql).Close() })
}

// query gives the rows of one statement, as text.
func (c *conn) query(ctx context.Context, sql string, args ...[]byte) (rows [][][]byte, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		res := c.pg.ExecParams(ctx, sql, args, nil, nil, nil).Read()
		rows = res.Rows
		return res.Err
	})
	return rows, err
}

// prepare lets the server read a statement, under no name.
func (c *conn) prepare(ctx context.Context, sql string, types []uint32) (d *pgconn.StatementDescription, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		d, err = c.pg.Prepare(ctx, "", sql, types)
		return err
	})
	return d, err
}

// run sends all statements at once and gives a result for each. After an error
// the server skips the rest.
func (c *conn) run(ctx context.Context, b *pgconn.Batch) (res []*pgconn.Result, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		res, err = c.pg.ExecBatch(ctx, b).ReadAll()
		return err
	})
	return res, err
}

// copy sends rows in the text format of COPY.
func (c *conn) copy(ctx context.Context, sql string, rows io.Reader) error {
	return c.call(ctx, func(ctx context.Context) error {
		_, err := c.pg.CopyFrom(ctx, rows, sql)
		return err
	})
}

// lost classes what went wrong on the way to the server: it tells nothing about
// what the server did.
func lost(err error) error {
	if err == nil || state(err) != "" || errors.Is(err, context.Canceled) {
		return err
	}
	return sink.Transient(err)
}

// begin adds the start of a transaction to b: durable, and never left open for
// longer than limit by somebody who has stopped. The server's own limit of a transaction
// (from 17 on) is put off: what is sent at once is bounded here.
func begin(b *pgconn.Batch, limit time.Duration) {
	b.ExecParams("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", nil, nil, nil, nil)
	ms := text(limit.Milliseconds())
	b.ExecParams(`SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
		set_config('lock_timeout', $1, true),
		set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
		CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END`,
		[][]byte{ms}, []uint32{oidText}, nil, nil)
}

// durable is for COMMIT PREPARED, which is in no transaction whose settings it could
// follow: the session's is raised, each time, since a pooler may have changed the server.
func (c *conn) durable(ctx context.Context) error {
	return c.exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
}

// beginReading begins a transaction that waits for no lock.
func (c *conn) beginReading(ctx context.Context) error {
	return c.exec(ctx, "BEGIN READ ONLY; SET LOCAL lock_timeout = '200ms'")
}

// beginResults is how many results begin has.
const beginResults = 2

// start sends a batch that begin has opened. A server in recovery refuses BEGIN READ
// WRITE itself, with a state that elsewhere says that something is never possible.
func (c *conn) start(ctx context.Context, b *pgconn.Batch) ([]*pgconn.Result, error) {
	res, err := c.run(ctx, b)
	if len(res) == 0 {
		err = standby(err)
	}
	return res, err
}

// write is a transaction without the limits of begin, for what is done to the sink's own
// tables and to make those that are missing.
func (c *conn) write(ctx context.Context, f func() error) error {
	if err := standby(c.exec(ctx, "BEGIN READ WRITE")); err != nil {
		return err
	}
	defer c.rollback(ctx)
	if err := f(); err != nil {
		return err
	}
	return c.commit(ctx, &pgconn.Batch{})
}

// exist reports whether all of these tables are there.
func (c *conn) exist(ctx context.Context, names ...tableName) (bool, error) {
	there, args := []string{"true"}, make([][]byte, len(names))
	for i, name := range names {
		there = append(there, fmt.Sprintf("to_regclass($%d) IS NOT NULL", i+1))
		args[i] = []byte(name.String())
	}
	rows, err := c.query(ctx, "SELECT "+strings.Join(there, " AND "), args...)
	return err == nil && string(rows[0][0]) == "t", err
}

func standby(err error) error {
	if state(err) != stateUnsupported {
		return err
	}
	return sink.Transient(fmt.Errorf("the server is a standby, and is asked again until it is promoted or dsn leads to the primary (several hosts and target_session_attrs=read-write find it): %w", err))
}

// The types that parameters are declared as.
const (
	oidText      = 25
	oidTextArray = 1009
	oidInt8      = 20
)

// text is a number as a parameter.
func text[T int | int32 | int64](n T) []byte { return strconv.AppendInt(nil, int64(n), 10) }

// commit executes the last statements of the transaction and ends it. It is not
// cancelled with ctx: a COMMIT that was given up half way would only leave it open
// whether it happened.
func (c *conn) commit(ctx context.Context, last *pgconn.Batch) error {
	last.ExecParams("COMMIT", nil, nil, nil, nil)
	if _, err := c.run(context.WithoutCancel(ctx), last); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// rollback ends the transaction without effect, whatever state it is in; a
// session that cannot is closed, which does the same.
func (c *conn) rollback(ctx context.Context) {
	if c.pg.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if c.pg.TxStatus() != 'I' && c.exec(ctx, "ROLLBACK") != nil {
		c.close()
	}
}
