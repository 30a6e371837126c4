//go:build services

package rig

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
	pgproxy "exactly/test/proxy/postgres"
)

// Shape is what tests vary of the pipeline. The zero value is the payments
// pipeline with all sinks at the defaults of a user.
type Shape struct {
	Partitions int32  // of the source; 0: 4
	Outputs    int32  // partitions of the output topic; 0: as the source
	Tasks      int    // 0: the default
	Guarantee  string // "": exactly_once
	Start      string // "": earliest
	Sinks      []string
	Epoch      string                   // the mapping
	Restart    string                   // the mapping
	Dead       string                   // further settings of dead_letters
	RollAge    string                   // of the lake; "": 300ms
	Folder     string                   // of the lake: the expression of partition_by
	Mode       string                   // of the table; "": upsert, with insert_count
	HTTP       bool                     // the endpoints listen
	Postgres   *services.PostgresServer // of the tables in PostgreSQL, if Sinks has any
	Totals     string                   // the table in PostgreSQL whose sums the sink totals keeps; "": there is none
	Connection string                   // lines under kafka:
	Brokers    []string
}

// allSinks are the sinks of the pipeline in the order of the file.
var allSinks = []string{"enriched", "records", "lake", "partner"}

// Pipeline is one pipeline under test, with names that no other has.
type Pipeline struct {
	Shape
	T       *testing.T
	Cluster *services.KafkaCluster
	Client  *kgo.Client // may do everything
	Admin   *kadm.Client
	exe     string
	Dir     string
	File    string

	Name, Raw, Out, DLQ string
	DB, Lake, URL       string         // of table, files and partner
	DSN                 string         // of the tables in PostgreSQL
	Proxy               *pgproxy.Proxy // before PostgreSQL; see Behind

	Partner *Partner
	Auditor *Connection // as whom the audit reads; nil: as the pipeline
	lives   int         // processes started
}

// Connection is how a command reaches the cluster.
type Connection struct {
	Brokers []string
	Lines   string // under kafka:
}

var file = template.Must(template.New("pipeline.yaml").Parse(`pipeline: {{.Name}}
{{with .Guarantee}}guarantee: {{.}}
{{end}}kafka:
  brokers: [{{range $i, $b := .Brokers}}{{if $i}}, {{end}}"{{$b}}"{{end}}]
{{.Connection}}source:
  topics: [{{.Raw}}]
{{with .Start}}  start: "{{.}}"
{{end}}  fields: { payment_id: string, amount_cents: int, merchant_id: string, event_time: time }
{{with .Tasks}}tasks: {{.}}
{{end}}{{with .Epoch}}epoch: {{.}}
{{end}}{{with .Restart}}restart: {{.}}
{{end}}steps:
  - where: amount_cents > 0
  - set:
      status: 'amount_cents >= 40000 ? "review" : "ok"'
      fee_cents: amount_cents * 29 / 1000 + 30
      processed_at: epoch.time
sinks:
{{if .Has "enriched"}}  enriched:
    kafka: { topic: {{.Out}}, key: payment_id, source_headers: true }
{{end}}{{if .Has "records"}}  records:
    sqlite:
      path: "{{.DB}}"
      table: payment_records
      mode: {{.Mode}}
{{if eq .Mode "upsert"}}      insert_count: true
{{end}}      key: [payment_id]
      create: true
      schema:
        payment_id: TEXT NOT NULL
        amount_cents: INTEGER NOT NULL
        merchant_id: TEXT NOT NULL
        event_time: TEXT NOT NULL
        status: TEXT NOT NULL
        fee_cents: INTEGER NOT NULL
        processed_at: TEXT NOT NULL
{{end}}{{if .Has "lake"}}  lake:
    object:
      url: "{{.Lake}}"
      format: parquet
      roll: { age: {{.RollAge}} }
{{with .Folder}}      partition_by: '{{.}}'
{{end}}      schema:
        payment_id: string
        amount_cents: int64
        merchant_id: string
        event_time: timestamp_ms
        status: string
        fee_cents: int64
        processed_at: timestamp_ms
{{end}}{{if .Has "partner"}}  partner:
    http:
      url: {{.URL}}
      idempotency_key: payment_id
      timeout: 1s
      retry: { delay: 10ms, max_delay: 200ms, budget: 5s }
{{end}}{{range .Tables}}  {{.Name}}:
    postgres:
      dsn: "{{$.DSN}}"
      table: {{.Name}}
      mode: {{.Mode}}
{{if .Key}}      key: [payment_id]
{{end}}      create: true
      schema:
        payment_id: uuid NOT NULL
        amount_cents: bigint NOT NULL
        merchant_id: text NOT NULL
        event_time: timestamptz NOT NULL
        status: text NOT NULL
        fee_cents: bigint NOT NULL
        processed_at: timestamptz NOT NULL
        place: bigint GENERATED ALWAYS AS IDENTITY
{{end}}{{if .Has "paired"}}  paired:
    postgres:
      dsn: "{{.DSN}}"
      create: true
      tables:
        - table: paired
          key: [payment_id]
          columns: { payment_id: payment_id, merchant_id: merchant_id }
          schema: { payment_id: uuid NOT NULL, merchant_id: text NOT NULL, place: bigint GENERATED ALWAYS AS IDENTITY }
        - table: paired_entries
          each: '[{"side": "debit", "cents": amount_cents}, {"side": "credit", "cents": -amount_cents}]'
          key: [payment_id, side]
          columns: { payment_id: payment_id, side: each.item.side, cents: each.item.cents }
          schema: { payment_id: uuid NOT NULL REFERENCES paired, side: text NOT NULL, cents: bigint NOT NULL }
{{end}}{{if .Has "balances"}}  balances:
    postgres:
      dsn: "{{.DSN}}"
      mode: statement
      statement: UPDATE balances SET cents = cents + $1, payments = payments + 1, last_payment = $3 WHERE merchant_id = $2 AND lane = $4
      args: [amount_cents, merchant_id, payment_id, source.partition % 2]
{{end}}{{if .Totals}}  totals:
    postgres:
      dsn: "{{.DSN}}"
      mode: replace
      table: totals
      key: [merchant_id]
      from: [{{.Totals}}]
      query: SELECT merchant_id, status, sum(amount_cents) AS cents, count(*) AS payments FROM {{.Totals}} JOIN affected USING (merchant_id) GROUP BY merchant_id, status
      create: true
      schema: { merchant_id: text NOT NULL, status: text NOT NULL, cents: bigint NOT NULL, payments: bigint NOT NULL }
{{end}}dead_letters: { topic: {{.DLQ}}{{with .Dead}}, {{.}}{{end}} }
worker: { dir: "${EXACTLY_WORKER_DIR}" }
http: { listen: "{{if .HTTP}}127.0.0.1:0{{end}}" }
audit: { id: payment_id }
`))

// Table is a sink that writes to PostgreSQL.
type Table struct {
	Name, Mode string
	Key        bool
}

// Tables are those of the shape: one for each way to write.
func (s Shape) Tables() (out []Table) {
	for _, t := range []Table{
		{"upserted", "upsert", true},
		{"appended", "append", false},
		{"staged", "two_phase", true},
		{"staged_log", "two_phase", false},
	} {
		if s.Has(t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// Has reports whether the pipeline has a sink.
func (s Shape) Has(sink string) bool { return slices.Contains(s.Sinks, sink) }

// New makes topics and the pipeline file; no worker runs yet.
func New(t *testing.T, c *services.KafkaCluster, s Shape) *Pipeline {
	t.Helper()
	orElse := func(v *string, otherwise string) {
		if *v == "" {
			*v = otherwise
		}
	}
	orElse(&s.RollAge, "300ms")
	orElse(&s.Mode, "upsert")
	if s.Partitions == 0 {
		s.Partitions = 4
	}
	if s.Outputs == 0 {
		s.Outputs = s.Partitions
	}
	if s.Sinks == nil {
		s.Sinks = allSinks
	}
	if s.Brokers == nil {
		s.Brokers = c.Bootstrap()
	}
	p := &Pipeline{Shape: s, T: t, Cluster: c, Client: c.Client(t), exe: services.Exactly(t, false), Dir: t.TempDir()}
	p.Admin = kadm.NewClient(p.Client)
	p.Name = "pay-" + strings.ToLower(rand.Text()[:8])
	p.Raw = c.Topic(t, "raw", s.Partitions, nil)
	p.Out, p.DLQ = c.Topic(t, "out", s.Outputs, nil), p.Name+".dlq"
	p.DB, p.Lake = filepath.Join(p.Dir, "payments.db"), "file://"+filepath.Join(p.Dir, "lake")
	if p.Postgres != nil {
		p.DSN = p.Postgres.DSN(p.Postgres.Database(t))
	}
	if p.Has("balances") {
		p.makeBalances()
	}
	if p.Has("partner") {
		p.Partner = newPartner(t)
		p.URL = p.Partner.url + "/v1/events"
	}
	p.Write()
	return p
}

// Behind puts a proxy before PostgreSQL.
func (p *Pipeline) Behind() {
	p.T.Helper()
	p.Proxy = pgproxy.Start(p.T, p.Postgres.Address())
	p.DSN = strings.Replace(p.DSN, p.Postgres.Address(), p.Proxy.Address(), 1)
	p.Write()
}

// Write writes the pipeline file anew, after the shape was changed.
func (p *Pipeline) Write() {
	p.T.Helper()
	p.File = p.WriteAs("pipeline.yaml")
}

// WriteAs is Write under another name, whose path it gives.
func (p *Pipeline) WriteAs(name string) string {
	p.T.Helper()
	var b strings.Builder
	Check(p.T, file.Execute(&b, p))
	path := filepath.Join(p.Dir, name)
	Check(p.T, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// Group is the pipeline's consumer group.
func (p *Pipeline) Group() string { return "exactly." + p.Name }

// Journal is the journal topic of its first generation.
func (p *Pipeline) Journal() string { return p.Group() + ".g1.journal" }

// TxnIDs gives the transactional ids of the task that owns a partition.
func (p *Pipeline) TxnIDs(tasks int) func(partition int32) []string {
	return func(partition int32) []string {
		id := fmt.Sprintf("exactly.%s.g1.t%d.", p.Name, int(partition)%tasks)
		return []string{id + "a", id + "b"}
	}
}

// Command runs one command of the binary to its end and gives its exit code.
func (p *Pipeline) Command(args ...string) (code int, stdout, stderr string) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*Patience)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, p.exe, args...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "EXACTLY_WORKER_DIR="+filepath.Join(p.Dir, "command"))
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		p.T.Fatalf("exactly %s: %v (%v)\n%s", strings.Join(args, " "), err, ctx.Err(), errs.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
