package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/payments"
	"exactly/record"
	"exactly/sink"
	"exactly/sink/postgres"
)

// TablesOptions say what is measured of PostgreSQL.
type TablesOptions struct {
	DSN      string
	Records  int64
	Rounds   int
	Batch    int       // records per call at most; as the engine, no more than the sink wants
	Progress io.Writer // a line per measurement
}

// Validate says what is wrong with o, in the words of the flags.
func (o TablesOptions) Validate() error {
	switch {
	case o.DSN == "":
		return errors.New("postgres: give the address of a database")
	case o.Records < 1 || o.Records > 20_000_000:
		return errors.New("records: must be 1 to 20000000")
	case o.Rounds < 1:
		return errors.New("rounds: must be at least 1")
	case o.Batch < 1:
		return errors.New("batch: must be at least 1")
	}
	return nil
}

// TablesResult is how fast rows came into a table.
type TablesResult struct {
	Records int64       `json:"records"`
	Rounds  int         `json:"rounds"`
	Rows    []TableRate `json:"rows"`
	Wanted  []Wanted    `json:"wanted"`
}

// TableRate is one contestant.
type TableRate struct {
	Contestant string `json:"contestant"`
	Rate       Spread `json:"rows_per_second"`
}

// The contestants.
const (
	byCopy        = "COPY by hand"
	bySinkAppend  = "sink, append"
	byStatement   = "upsert by hand, new rows"
	bySinkUpsert  = "sink, upsert, new rows"
	byStatement2  = "upsert by hand, changed rows"
	bySinkUpsert2 = "sink, upsert, changed rows"
)

// tables is one measurement at work.
type tables struct {
	o    TablesOptions
	c    *pgx.Conn
	rows []payments.Enriched
	text []byte   // of COPY
	json [][]byte // of the sink's records
	at   time.Time
}

const benchTable = "exactly_bench"

// Tables measures, in interleaved rounds, rows that the sink writes beside the same
// rows written by hand into the same table: by one COPY, and by a statement of many
// rows with ON CONFLICT. The records of the sink are JSON, and are parsed within the
// time.
func Tables(ctx context.Context, o TablesOptions) (res *TablesResult, err error) {
	m := &tables{o: o, at: time.Now().UTC().Truncate(time.Millisecond)}
	if m.c, err = postgres.Connect(ctx, o.DSN); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() {
		made := benchTable + ", " + benchTable + "_ledger, " + benchTable + "_ledger_verdicts"
		if end := clean(ctx, m.c, o.DSN, "DROP TABLE IF EXISTS "+made); end != nil {
			err = errors.Join(err, fmt.Errorf("remove the tables %s, which are to be dropped by hand now: %w", made, end))
		}
	}()
	for i := range o.Records {
		r := payments.New(i, m.at).Enrich()
		m.rows = append(m.rows, r)
		m.text = fmt.Appendf(m.text, "%s\t%d\t%s\t%s\t%s\t%d\n", r.ID, r.AmountCents, r.Merchant, m.at.Format(time.RFC3339Nano), r.Status, r.FeeCents)
		m.json = append(m.json, value(&r, m.at))
	}
	rates := map[string][]float64{}
	for round := range o.Rounds {
		for _, one := range m.contestants(round) {
			if err := m.table(ctx, one.key, one.filled); err != nil {
				return nil, err
			}
			begin := time.Now()
			if err := one.run(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
			rate := float64(o.Records) / time.Since(begin).Seconds()
			if err := m.count(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
			rates[one.name] = append(rates[one.name], rate)
			_, _ = fmt.Fprintf(o.Progress, "%-32s %9.0f/s\n", one.name, rate)
		}
	}
	return m.result(rates), nil
}

// tableContestant writes all rows into a fresh table.
type tableContestant struct {
	name        string
	key, filled bool // the table has a key; it has other rows of these keys
	run         func(ctx context.Context) error
}

// contestants are in pairs, whose order changes with the rounds.
func (m *tables) contestants(round int) []tableContestant {
	pairs := [][2]tableContestant{
		{{byCopy, false, false, m.copy}, {bySinkAppend, false, false, m.sink("append")}},
		{{byStatement, true, false, m.statement}, {bySinkUpsert, true, false, m.sink("upsert")}},
		{{byStatement2, true, true, m.statement}, {bySinkUpsert2, true, true, m.sink("upsert")}},
	}
	var out []tableContestant
	for _, p := range pairs {
		if round%2 == 1 {
			p[0], p[1] = p[1], p[0]
		}
		out = append(out, p[0], p[1])
	}
	return out
}

func (m *tables) table(ctx context.Context, key, filled bool) error {
	primary := ""
	if key {
		primary = ", PRIMARY KEY (payment_id)"
	}
	ddl := "DROP TABLE IF EXISTS " + benchTable + ", " + benchTable + "_ledger, " + benchTable + "_ledger_verdicts; CREATE TABLE " + benchTable +
		" (payment_id uuid NOT NULL, amount_cents bigint NOT NULL, merchant_id text NOT NULL, event_time timestamptz NOT NULL, status text NOT NULL, fee_cents bigint NOT NULL" + primary + ")"
	if _, err := m.c.Exec(ctx, ddl); err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	if filled {
		if err := m.copy(ctx); err != nil {
			return err
		}
		for _, sql := range []string{"UPDATE " + benchTable + " SET status = 'old'", "VACUUM " + benchTable} {
			if _, err := m.c.Exec(ctx, sql); err != nil {
				return fmt.Errorf("fill the table: %w", err)
			}
		}
	}
	_, err := m.c.Exec(ctx, "CHECKPOINT")
	return err
}

func (m *tables) count(ctx context.Context) error {
	var n int64
	if err := m.c.QueryRow(ctx, "SELECT count(*) FROM "+benchTable+" WHERE status <> 'old'").Scan(&n); err != nil {
		return fmt.Errorf("count the rows: %w", err)
	}
	if n != m.o.Records {
		return fmt.Errorf("the table has %d rows, want %d", n, m.o.Records)
	}
	return nil
}

// copy is one COPY.
func (m *tables) copy(ctx context.Context) error {
	_, err := m.c.PgConn().CopyFrom(ctx, bytes.NewReader(m.text), "COPY "+benchTable+" FROM STDIN")
	return err
}

// statementRows is about where statements by hand are fastest.
const statementRows = 5000

// statement is what one writes by hand: many rows, each column an array.
func (m *tables) statement(ctx context.Context) error {
	const sql = "INSERT INTO " + benchTable + ` (payment_id, amount_cents, merchant_id, event_time, status, fee_cents)
		SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[], $6::bigint[])
		ON CONFLICT (payment_id) DO UPDATE SET amount_cents = excluded.amount_cents, merchant_id = excluded.merchant_id,
		event_time = excluded.event_time, status = excluded.status, fee_cents = excluded.fee_cents`
	for rest := m.rows; len(rest) > 0; {
		part := rest[:min(len(rest), m.o.Batch, statementRows)]
		rest = rest[len(part):]
		var ids, merchants, status []string
		var amounts, fees []int64
		var times []time.Time
		for i := range part {
			r := &part[i]
			ids, merchants, status = append(ids, r.ID), append(merchants, r.Merchant), append(status, r.Status)
			amounts, fees, times = append(amounts, r.AmountCents), append(fees, r.FeeCents), append(times, m.at)
		}
		if _, err := m.c.Exec(ctx, sql, ids, amounts, merchants, times, status, fees); err != nil {
			return err
		}
	}
	return nil
}

// sink writes the records of an outbox, batch by batch.
func (m *tables) sink(mode string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		cfg := postgres.Config{DSN: m.o.DSN, Table: benchTable, Mode: mode, LedgerTable: benchTable + "_ledger"}
		if mode == "upsert" {
			cfg.Key = []string{"payment_id"}
		}
		s, err := postgres.New("bench", cfg)
		if err != nil {
			return err
		}
		defer s.Close()
		task, _, err := s.(sink.Outbox).OpenOutbox(ctx, sink.Owner{
			Incarnation: "00000000000bench", Pipeline: "bench", Sink: "bench", Generation: 1, Tasks: 1, Attempt: 1, Guarantee: sink.ExactlyOnce, Fresh: true,
		}, sink.Pos{})
		if err != nil {
			return err
		}
		defer task.Close()
		var prev sink.Pos
		most := min(m.o.Batch, s.Features().Batch)
		for i := 0; i < len(m.rows); i += most {
			b := sink.Batch{Prev: prev}
			for j := i; j < min(len(m.rows), i+most); j++ {
				b.Records = append(b.Records, sink.Entry{
					Pos:    sink.Pos{Epoch: int64(i/most) + 1, Index: int64(j - i)},
					Record: record.Record{Key: []byte(m.rows[j].ID), Value: m.json[j]},
				})
			}
			b.Through = b.Records[len(b.Records)-1].Pos
			res, err := task.Apply(ctx, b)
			if err != nil {
				return err
			}
			if len(res.Verdicts) > 0 {
				return fmt.Errorf("%d rows refused: %s", len(res.Verdicts), res.Verdicts[0].Reason)
			}
			prev = b.Through
		}
		return nil
	}
}

// value is an enriched payment as the steps of a pipeline give it.
func value(r *payments.Enriched, at time.Time) []byte {
	return fmt.Appendf(nil, `{"payment_id":%q,"amount_cents":%d,"merchant_id":%q,"event_time":%q,"status":%q,"fee_cents":%d}`,
		r.ID, r.AmountCents, r.Merchant, at.Format(time.RFC3339Nano), r.Status, r.FeeCents)
}

func (m *tables) result(rates map[string][]float64) *TablesResult {
	res := &TablesResult{Records: m.o.Records, Rounds: m.o.Rounds}
	median := map[string]float64{}
	for _, name := range []string{byCopy, bySinkAppend, byStatement, bySinkUpsert, byStatement2, bySinkUpsert2} {
		s := spread(rates[name], func(f float64) float64 { return f })
		median[name] = s.Median
		res.Rows = append(res.Rows, TableRate{name, s})
	}
	for _, pair := range [][2]string{{bySinkAppend, byCopy}, {bySinkUpsert, byStatement}, {bySinkUpsert2, byStatement2}} {
		got := 100 * median[pair[0]] / median[pair[1]]
		res.Wanted = append(res.Wanted, Wanted{
			What: pair[0] + ", in % of " + pair[1], Want: "at least 60", Got: got, Reached: got >= 60,
		})
	}
	return res
}

// Markdown writes the result for people.
func (r *TablesResult) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`exactly bench tables`, %d rows, PostgreSQL on the same machine; median (least to most) of %d rounds.\n\n| contestant | rows/s |\n| --- | --- |\n", r.Records, r.Rounds)
	for _, t := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s |\n", t.Contestant, t.Rate.text(0))
	}
	b.WriteString("\n| figure | wanted | got | |\n| --- | --- | --- | --- |\n")
	for _, w := range r.Wanted {
		b.WriteString(w.row())
	}
	return b.String()
}
