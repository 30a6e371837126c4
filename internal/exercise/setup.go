package exercise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/sink/postgres"
)

// setUp makes tables, topics and the pipeline file, after a look at everything.
func (x *exercise) setUp(ctx context.Context) error {
	if err := x.ground(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	x.file = filepath.Join(x.o.Dir, "pipeline.yaml")
	if err := os.WriteFile(x.file, []byte(pipelineFile(x.o.Brokers)), 0o644); err != nil {
		return fmt.Errorf("write the pipeline file: %w", err)
	}
	x.w = &worker{exe: x.o.Exe, dir: x.o.Dir, file: x.file, env: []string{"PG_DSN=" + x.o.DSN}}
	return nil
}

// ground makes tables and topics. Nothing is removed or made before all that is there
// was looked at; the tables come first, since their comments prove the topics.
func (x *exercise) ground(ctx context.Context) error {
	if err := x.connect(ctx); err != nil {
		return err
	}
	f, err := x.look(ctx)
	if err == nil {
		err = f.refusal(x.o.Fresh)
	}
	if err != nil {
		return err
	}
	ours, _ := f.split() // there are no others
	if err := x.forget(ctx, ours); err != nil {
		return err
	}
	if err := x.postgres(ctx); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := x.kafka(ctx); err != nil {
		return x.ofKafka(err)
	}
	return nil
}

// connect opens a session of PostgreSQL, and clients of Kafka that dial once they are
// asked for something.
func (x *exercise) connect(ctx context.Context) (err error) {
	if x.db, err = postgres.Connect(ctx, x.o.DSN); err != nil {
		return fmt.Errorf("PostgreSQL: --postgres: %w", err)
	}
	x.cl, err = kgo.NewClient(kgo.SeedBrokers(x.o.Brokers...), kgo.ClientID("exactly-exercise"), kgo.DisableClientMetrics(), kgo.RetryTimeout(patience))
	if err != nil {
		return x.ofKafka(err)
	}
	x.adm = kadm.NewClient(x.cl)
	return nil
}

func (x *exercise) ofKafka(err error) error {
	return fmt.Errorf("kafka at %s: %w", strings.Join(x.o.Brokers, ", "), err)
}

// kafka makes the topics: replicated three times, two of them in sync, as far as
// there are brokers.
func (x *exercise) kafka(ctx context.Context) error {
	brokers, err := x.adm.ListBrokers(ctx)
	if err != nil {
		return err
	}
	replicas := min(3, len(brokers))
	isr := strconv.Itoa(max(1, replicas-1))
	for _, name := range []string{Raw, Enriched} {
		if err := x.createTopic(ctx, name, replicas, isr); err != nil {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	x.say("topics %s and %s: %d partitions, replication %d, min.insync.replicas %s", Raw, Enriched, Partitions, replicas, isr)
	return nil
}

// createTopic makes one, and notes it at once.
func (x *exercise) createTopic(ctx context.Context, name string, replicas int, isr string) error {
	for begin := time.Now(); ; {
		made, err := x.adm.CreateTopic(ctx, Partitions, int16(replicas), map[string]*string{"min.insync.replicas": &isr}, name) //nolint:gosec // at most 3
		if err == nil {
			x.note.made(name, made.ID)
			return x.writeNote(ctx)
		}
		// Brokers remove a topic after they have said so.
		if !x.o.Fresh || !errors.Is(err, kerr.TopicAlreadyExists) || time.Since(begin) > patience {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits before something is tried again.
func pause(ctx context.Context) error {
	select {
	case <-time.After(200 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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

// postgres makes the tables. Their comments come with them.
func (x *exercise) postgres(ctx context.Context) error {
	tx, err := x.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	if _, err := tx.Exec(ctx, tables); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	if err := x.writeNote(ctx); err != nil { // on the connection of tx
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	x.say("tables %s and %s", table, orders)
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
