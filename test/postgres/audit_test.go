//go:build services

package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/audit"
	"exactly/internal/catalog"
	pipelinefile "exactly/internal/config"
	"exactly/internal/embedded"
	"exactly/internal/payments"
)

// The pipeline writes a table of each mode; the ids in capitals, the amounts as
// decimals and the times with a zone look otherwise in the table than in the source.
const audited = `
pipeline: audited
kafka: { brokers: [%q], create_topics: true }
source: { topics: [raw], fields: { payment_id: string, amount_cents: int, merchant_id: string, event_time: time } }
steps:
  - where: amount_cents > 2000
  - set: { fee_cents: amount_cents * 29 / 1000 + 30, processed_at: epoch.time }
sinks:
  rows: { postgres: { dsn: %q, table: payments.rows, key: [payment_id], audit: { epoch: checkpoint_id, insert_count: insert_count } } }
  log: { postgres: { dsn: %q, table: payments.log, mode: append, columns: { payment_id: payment_id, fee: fee_cents, at: event_time } } }
  both:
    postgres:
      dsn: %q
      tables:
        - { table: payments.bills, key: [payment_id], columns: { payment_id: payment_id, cents: amount_cents } }
        - table: payments.entries
          each: '[{"side": "debit", "cents": amount_cents}, {"side": "credit", "cents": -amount_cents}]'
          key: [payment_id, side]
          columns: { payment_id: payment_id, side: each.item.side, cents: each.item.cents }
        - { table: payments.steps, each: '["in", "out"]', columns: { payment_id: payment_id, step: each.item, at: each.index } }
  merchants:
    postgres:
      dsn: %q
      mode: replace
      table: payments.merchants
      key: [merchant_id]
      from: [rows]
      query: SELECT merchant_id, status, sum(amount_cents) AS cents, count(*) AS payments, count(*) AS c, 1 AS r FROM payments.rows CROSS JOIN LATERAL
        (SELECT CASE WHEN amount_cents >= 20000 THEN 'large' ELSE 'small' END AS status) s JOIN affected USING (merchant_id) GROUP BY merchant_id, status
http: { listen: "" }
audit: { id: payment_id }
`

const auditedDDL = `CREATE SCHEMA payments;
CREATE TABLE payments.rows (payment_id uuid PRIMARY KEY, amount_cents numeric(20,2), merchant_id text, event_time timestamptz,
  fee_cents bigint, processed_at timestamptz, checkpoint_id bigint, insert_count int, note text DEFAULT 'mine', exactly_order bytea);
CREATE TABLE payments.log (payment_id text, fee bigint, at timestamptz, seq bigserial);
CREATE TABLE payments.bills (payment_id uuid PRIMARY KEY, cents bigint, r text, t text);
CREATE TABLE payments.entries (payment_id uuid REFERENCES payments.bills, side text, cents bigint, PRIMARY KEY (payment_id, side));
CREATE TABLE payments.steps (payment_id text, step text, at int);
CREATE TABLE payments.merchants (merchant_id text, status text, cents numeric(20,2), payments int, c int, r int)`

// An audit of tables is right after a run, and finds what was harmed by hand.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, auditedDDL)
	cluster, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(2, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if _, err := payments.Produce(t.Context(), cl, payments.Options{Topic: "raw", Count: 600}); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(audited, broker, dsn, dsn, dsn, dsn)
	f, err := pipelinefile.Parse("p.yaml", []byte(text), catalog.Kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := catalog.Pipeline(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	n := 0
	for deadline := time.Now().Add(time.Minute); n < 5*(600-22) && time.Now().Before(deadline); {
		if err := c.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM payments.rows) + (SELECT count(*) FROM payments.log)
			+ (SELECT count(*) FROM payments.entries) + (SELECT coalesce(sum(payments), 0) FROM payments.merchants)`).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	look := func() map[string]audit.Row {
		plan, err := audit.FromFile(f, audit.FileOptions{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		plan.Findings = 5
		rep, err := audit.Run(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]audit.Row{}
		for _, r := range rep.Sinks {
			rows[r.Sink] = r
		}
		return rows
	}
	want := map[string]int64{"dead letters": 0, "both: payments.entries": 2 * (600 - 22), "both: payments.steps": 2 * (600 - 22), "merchants": 20}
	for name, r := range look() {
		n, other := want[name]
		if !other {
			n = 600 - 22
		}
		if r.Wrong() != 0 || r.Unique != n {
			t.Errorf("after the run, %s: %+v", name, r)
		}
	}
	for _, harm := range []string{
		"DELETE FROM payments.rows WHERE payment_id = (SELECT min(payment_id::text)::uuid FROM payments.rows)",
		"UPDATE payments.rows SET fee_cents = fee_cents + 1 WHERE payment_id = (SELECT max(payment_id::text)::uuid FROM payments.rows)",
		"UPDATE payments.rows SET note = 'another', insert_count = 2 WHERE payment_id = (SELECT payment_id FROM payments.rows ORDER BY payment_id::text OFFSET 9 LIMIT 1)",
		"INSERT INTO payments.rows (payment_id, amount_cents) VALUES (gen_random_uuid(), 1)",
		"DELETE FROM payments.log WHERE seq = (SELECT min(seq) FROM payments.log)",
		"INSERT INTO payments.log SELECT payment_id, fee, at FROM payments.log ORDER BY seq DESC LIMIT 1",
		"UPDATE payments.log SET at = at + interval '1 second' WHERE seq = (SELECT seq FROM payments.log ORDER BY seq OFFSET 7 LIMIT 1)",
		"DELETE FROM payments.entries WHERE (payment_id, side) = (SELECT payment_id, side FROM payments.entries ORDER BY payment_id::text, side LIMIT 1)",
		"UPDATE payments.entries SET cents = cents + 1 WHERE (payment_id, side) = (SELECT payment_id, side FROM payments.entries ORDER BY payment_id::text DESC, side LIMIT 1)",
		"INSERT INTO payments.steps SELECT * FROM payments.steps LIMIT 1",
		"UPDATE payments.merchants SET cents = cents + 1 WHERE merchant_id = 'merchant-003' AND status = 'large'",
		"DELETE FROM payments.merchants WHERE merchant_id = 'merchant-004' AND status = 'small'",
		"INSERT INTO payments.merchants VALUES ('merchant-new', 'small', 1, 1, 1, 1)",
	} {
		if _, err := c.Exec(t.Context(), harm); err != nil {
			t.Fatal(err)
		}
	}
	got := look()
	if r := got["rows"]; r.Missing != 1 || r.Changed != 1 || r.ConflictingWrites != 1 || r.Unexpected != 1 || r.Wrong() != 4 {
		t.Errorf("rows: %+v", r)
	}
	if r := got["log"]; r.Missing != 1 || r.Changed != 1 || r.Duplicate != 1 || r.Wrong() != 3 {
		t.Errorf("log: %+v", r)
	}
	if r := got["both: payments.bills"]; r.Wrong() != 0 {
		t.Errorf("bills: %+v", r)
	}
	if r := got["both: payments.entries"]; r.Missing != 1 || r.Changed != 1 || r.Wrong() != 2 {
		t.Errorf("entries: %+v", r)
	}
	if r := got["both: payments.steps"]; r.Duplicate != 1 || r.Wrong() != 1 {
		t.Errorf("steps: %+v", r)
	}
	// The harm done to rows changed two merchants' sums, and made one of none.
	if r := got["merchants"]; r.Changed < 2 || r.Unexpected != 1 {
		t.Errorf("merchants: %+v", r)
	}
}
