package exercise

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafka makes the topics: replicated three times, two of them in sync, as far as
// there are brokers.
func (x *exercise) kafka(ctx context.Context) (err error) {
	x.cl, err = kgo.NewClient(kgo.SeedBrokers(x.o.Brokers...), kgo.ClientID("exactly-exercise"), kgo.DisableClientMetrics(), kgo.RetryTimeout(patience))
	if err != nil {
		return err
	}
	x.adm = kadm.NewClient(x.cl)
	brokers, err := x.adm.ListBrokers(ctx)
	if err != nil {
		return err
	}
	if x.o.Fresh {
		if err := x.forgetTopics(ctx); err != nil {
			return err
		}
	}
	replicas := min(3, len(brokers))
	isr := strconv.Itoa(max(1, replicas-1))
	create := func() error {
		made, err := x.adm.CreateTopics(ctx, Partitions, int16(replicas), map[string]*string{"min.insync.replicas": &isr}, Raw, Enriched) //nolint:gosec // at most 3
		if err == nil {
			err = made.Error()
		}
		return err
	}
	err = create()
	for begin := time.Now(); x.o.Fresh && errors.Is(err, kerr.TopicAlreadyExists) && time.Since(begin) < patience; err = create() {
		select { // brokers remove a topic after they have said so
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("the topics of an earlier run are there: --fresh removes them, with the tables: %w", err)
	}
	if err == nil {
		x.say("topics %s and %s: %d partitions, replication %d, min.insync.replicas %s", Raw, Enriched, Partitions, replicas, isr)
	}
	return err
}

// forgetTopics removes those of an earlier run and of its pipeline.
func (x *exercise) forgetTopics(ctx context.Context) error {
	topics, err := x.adm.ListTopics(ctx)
	if err != nil {
		return err
	}
	var mine []string
	for name := range topics {
		if name == Raw || name == Enriched || name == pipeline+".dlq" || strings.HasPrefix(name, "exactly."+pipeline+".") {
			mine = append(mine, name)
		}
	}
	if len(mine) > 0 {
		gone, err := x.adm.DeleteTopics(ctx, mine...)
		if err == nil {
			err = gone.Error()
		}
		if err != nil {
			return fmt.Errorf("remove topics of an earlier run: %w", err)
		}
	}
	_, err = x.adm.DeleteGroup(ctx, "exactly."+pipeline)
	if errors.Is(err, kerr.GroupIDNotFound) {
		err = nil
	}
	return err
}

// patience is how long the cluster may take to answer.
const patience = 20 * time.Second

// tables makes both: the one with a count of writes, and the one that says which
// attempt wrote a row.
const tables = `CREATE TABLE ` + table + ` (
	payment_id uuid PRIMARY KEY, amount_cents bigint NOT NULL, merchant_id text NOT NULL, status text NOT NULL,
	processed_at timestamptz NOT NULL, checkpoint_id bigint NOT NULL, insert_count integer NOT NULL DEFAULT 1);
CREATE TABLE ` + orders + ` (
	order_id uuid PRIMARY KEY, amount_cents bigint NOT NULL, merchant_id text NOT NULL, status text NOT NULL,
	pipeline_run_id uuid NOT NULL, updated_at timestamptz NOT NULL)`

func (x *exercise) postgres(ctx context.Context) (err error) {
	if x.o.Fresh {
		if err := x.forgetTables(ctx); err != nil {
			return err
		}
	}
	var there bool
	err = x.db.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL OR to_regclass($2) IS NOT NULL", table, orders).Scan(&there)
	if err == nil && there {
		err = fmt.Errorf("the tables %s and %s of an earlier run are there: --fresh removes them, with the topics", table, orders)
	}
	if err != nil {
		return err
	}
	if _, err := x.db.Exec(ctx, tables+"; COMMENT ON TABLE "+table+" IS '"+madeHere+"'; COMMENT ON TABLE "+orders+" IS '"+madeHere+"'"); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	x.say("tables %s and %s", table, orders)
	return nil
}

// madeHere is the comment that the tables carry: names alone do not say whose they
// are.
const madeHere = "made by exactly demo; its next run with --fresh may remove it, with its topics"

// provenOurs refuses to remove anything unless the database says that an earlier run
// of this command was here: the names are those of people's own tables and topics.
func (x *exercise) provenOurs(ctx context.Context) error {
	for _, name := range []string{table, orders} {
		var there, ours bool
		err := x.db.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL, coalesce(obj_description(to_regclass($1), 'pg_class') = $2, false)", name, madeHere).Scan(&there, &ours)
		switch {
		case err != nil:
			return fmt.Errorf("look for tables of an earlier run: %w", err)
		case there && !ours:
			return fmt.Errorf("table %s was not made by this command, and --fresh leaves it and the topics alone: use another database, or remove them by hand", name)
		case !there:
			return fmt.Errorf("there is no table %s, so that nothing shows that an earlier run made the topics: if %s, %s and exactly.%s.* are there, remove them by hand; without --fresh this run makes its own", name, Raw, Enriched, pipeline)
		}
	}
	return nil
}

// forgetTables removes those of an earlier run, and its marks.
func (x *exercise) forgetTables(ctx context.Context) error {
	if _, err := x.db.Exec(ctx, "DROP TABLE "+table+", "+orders); err != nil {
		return fmt.Errorf("remove the tables of an earlier run: %w", err)
	}
	for _, marks := range []string{"exactly_ledger", "exactly_ledger_verdicts"} {
		var there bool
		err := x.db.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", marks).Scan(&there)
		if err == nil && there {
			_, err = x.db.Exec(ctx, "DELETE FROM "+marks+" WHERE pipeline = $1", pipeline)
		}
		if err != nil {
			return fmt.Errorf("remove the marks of an earlier run from %s: %w", marks, err)
		}
	}
	return nil
}

// rows counts those of a table.
func (x *exercise) rows(ctx context.Context, name string) (n int64, err error) {
	if err := x.db.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{name}.Sanitize()).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the rows of %s: %w", name, err)
	}
	return n, nil
}

func pipelineFile(brokers []string) string {
	quoted := make([]string, len(brokers))
	for i, b := range brokers {
		quoted[i] = strconv.Quote(b)
	}
	return strings.NewReplacer("{{brokers}}", strings.Join(quoted, ", ")).Replace(`# Written by exactly demo --postgres. The worker runs: exactly run pipeline.yaml
pipeline: ` + pipeline + `

kafka:
  brokers: [{{brokers}}]

source:
  topics: [` + Raw + `]
  fields: { payment_id: string, amount_cents: int, merchant_id: string, event_time: time }

steps:
  - where: amount_cents > 0
  - set:
      status: 'amount_cents >= 40000 ? "review" : "ok"'
      fee_cents: amount_cents * 29 / 1000 + 30
      processed_at: epoch.time

sinks:
  enriched:
    kafka: { topic: ` + Enriched + `, key: payment_id }
  records:
    postgres:
      dsn: ${PG_DSN}
      table: ` + table + `
      key: [payment_id]
      columns:
        payment_id: payment_id
        amount_cents: amount_cents
        merchant_id: merchant_id
        status: status
        processed_at: processed_at
      audit: { epoch: checkpoint_id, insert_count: insert_count }
  orders:
    postgres:
      dsn: ${PG_DSN}
      table: ` + orders + `
      key: [order_id]
      columns:
        order_id: payment_id
        amount_cents: amount_cents
        merchant_id: merchant_id
        status: status
      audit: { run_id: pipeline_run_id, updated_at: updated_at }

worker: { dir: "${EXACTLY_WORKER_DIR}" }
audit: { id: payment_id }
`)
}
