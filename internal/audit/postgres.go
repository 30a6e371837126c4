package audit

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/tables"
	"exactly/sink/postgres"
)

// PostgresReader reads the rows of a table in a session of its own that cannot
// write. The server makes JSON of each row; none is held longer than it is looked
// at.
type PostgresReader struct {
	DSN            string
	PasswordFile   string
	Table          string   // quoted, as SQL takes it
	Upsert         bool     // one row per key, else every record is a row
	Deletes        bool     // a tombstone removes rows
	Ignore         []string // columns that are not of the record
	Only           []string // columns that the sink fills; nil: all but Ignore
	Writes         string   // column that counts writes; "": none
	Any            bool     // a row may be of any record of its key, not of the last
	ConnectTimeout time.Duration
}

// Shape looks at the table's columns.
func (p *PostgresReader) Shape(ctx context.Context) (Shape, error) {
	pg, err := p.connect(ctx)
	if err != nil {
		return Shape{}, err
	}
	defer p.close(pg)
	cols, err := p.columns(ctx, pg)
	if err != nil {
		return Shape{}, err
	}
	shape := Shape{Loose: true, Fields: slices.DeleteFunc(cols, func(c string) bool { return !p.field(c) }), Any: p.Any}
	if p.Upsert {
		shape.Mode, shape.Deletes = Latest, p.Deletes
	}
	return shape, nil
}

// Read reads all rows, as one statement sees them. Where a row stands in the
// table says nothing about when it was written, so that no order is compared.
func (p *PostgresReader) Read(ctx context.Context, fn func(*Held) error) (err error) {
	pg, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer p.close(pg)
	cols, err := p.columns(ctx, pg)
	if err != nil {
		return err
	}
	writes := "NULL"
	var picked []string
	for _, c := range cols {
		if c == p.Writes {
			writes = tables.Quote(c)
		}
		if p.field(c) {
			picked = append(picked, tables.Quote(c))
		}
	}
	row := "'{}'"
	if len(picked) > 0 {
		row = "(SELECT row_to_json(exactly_row) FROM (SELECT " + strings.Join(picked, ", ") + ") exactly_row)"
	}
	rows := pg.ExecParams(ctx, "SELECT "+row+"::text, ("+writes+")::bigint, ctid::text FROM "+p.Table+" exactly_t", nil, nil, nil, nil)
	defer func() {
		if _, end := rows.Close(); err == nil && end != nil {
			err = fmt.Errorf("read table %s: %w", p.Table, end)
		}
	}()
	for rows.NextRow() {
		v := rows.Values()
		h := Held{Place: fmt.Sprintf("%s row at %s", p.Table, v[2])}
		h.Value = slices.Clone(v[0])
		if v[1] != nil {
			if h.Writes, err = strconv.ParseInt(string(v[1]), 10, 64); err != nil {
				return fmt.Errorf("%s: column %s: %w", h.Place, p.Writes, err)
			}
		}
		if !jsontext.Value(h.Value).IsValid() {
			return fmt.Errorf("%s: the server gave no JSON", h.Place)
		}
		if err := fn(&h); err != nil {
			return err
		}
	}
	return nil
}

// field reports whether a column holds something of the record.
func (p *PostgresReader) field(column string) bool {
	return column != p.Writes && !slices.Contains(p.Ignore, column) && (p.Only == nil || slices.Contains(p.Only, column))
}

func (p *PostgresReader) connect(ctx context.Context) (*pgconn.PgConn, error) {
	cfg, err := postgres.ParseDSN(p.DSN)
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	if p.PasswordFile != "" {
		text, err := os.ReadFile(p.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("password_file: %w", err)
		}
		cfg.Password = strings.TrimRight(string(text), "\r\n")
	}
	for k, v := range map[string]string{
		"application_name": "exactly audit", "client_encoding": "UTF8", "TimeZone": "UTC", "DateStyle": "ISO",
		"default_transaction_read_only": "on", "extra_float_digits": "3",
	} {
		cfg.RuntimeParams[k] = v
	}
	ctx, cancel := context.WithTimeout(ctx, max(p.ConnectTimeout, time.Second))
	defer cancel()
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pg, nil
}

func (p *PostgresReader) close(pg *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = pg.Close(ctx)
}

func (p *PostgresReader) columns(ctx context.Context, pg *pgconn.PgConn) ([]string, error) {
	res := pg.ExecParams(ctx, "SELECT * FROM "+p.Table+" LIMIT 0", nil, nil, nil, nil)
	var cols []string
	res.NextRow() // there is none, but the description comes before
	for _, f := range res.FieldDescriptions() {
		cols = append(cols, f.Name)
	}
	if _, err := res.Close(); err != nil {
		return nil, fmt.Errorf("columns of table %s: %w", p.Table, err)
	}
	return cols, nil
}
