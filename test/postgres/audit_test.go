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
http: { listen: "" }
audit: { id: payment_id }
`

const auditedDDL = `CREATE SCHEMA payments;
CREATE TABLE payments.rows (payment_id uuid PRIMARY KEY, amount_cents numeric(20,2), merchant_id text, event_time timestamptz,
  fee_cents bigint, processed_at timestamptz, checkpoint_id bigint, insert_count int, note text DEFAULT 'mine', exactly_order bytea);
CREATE TABLE payments.log (payment_id text, fee bigint, at timestamptz, seq bigserial)`

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
	text := fmt.Sprintf(audited, broker, dsn, dsn)
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
	for deadline := time.Now().Add(time.Minute); n < 2*(600-22) && time.Now().Before(deadline); {
		if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM payments.rows) + (SELECT count(*) FROM payments.log)").Scan(&n); err != nil {
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
	for name, r := range look() {
		if r.Wrong() != 0 || name != "dead letters" && r.Unique != 600-22 {
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
}
