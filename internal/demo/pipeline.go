package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"exactly/sink"
)

// The sinks of the demo's pipeline, in the order of the report.
var sinkNames = []string{"enriched", "records", "lake", "partner"}

// template is the pipeline file of a run. It is a file to learn from as well.
const template = `# Written by exactly demo. Each worker process runs: exactly run pipeline.yaml
pipeline: {{pipeline}}
guarantee: {{guarantee}}

kafka:
  brokers: [{{brokers}}]
  prefix: {{prefix}}
  session_timeout: {{session}}      # a frozen worker loses its tasks after this

source:
  topics: [{{raw}}]
  fields: { payment_id: string, amount_cents: int, merchant_id: string, event_time: time }

tasks: {{tasks}}
epoch: { interval: 30ms }
restart: { max: 50, delay: 20ms, max_delay: 500ms }

steps:
  - where: amount_cents > 0
  - set:
      status: 'amount_cents >= 40000 ? "review" : "ok"'
      fee_cents: amount_cents * 29 / 1000 + 30
      processed_at: epoch.time

sinks:
  enriched:
    kafka: { topic: {{out}}, key: payment_id }
  records:
    sqlite:
      path: {{db}}
      table: payment_records
      mode: upsert
      key: [payment_id]
      insert_count: true
      create: true
      schema:
        payment_id: TEXT NOT NULL
        amount_cents: INTEGER NOT NULL
        merchant_id: TEXT NOT NULL
        event_time: TEXT NOT NULL
        status: TEXT NOT NULL
        fee_cents: INTEGER NOT NULL
        processed_at: TEXT NOT NULL
  lake:
    object:
      url: {{lake}}
      format: parquet
      roll: { age: 200ms }
      schema:
        payment_id: string
        amount_cents: int64
        merchant_id: string
        event_time: timestamp_ms
        status: string
        fee_cents: int64
        processed_at: timestamp_ms
  partner:
    http:
      url: {{partner}}
      idempotency_key: payment_id
      timeout: 300ms
      retry: { delay: 10ms, max_delay: 200ms }

dead_letters: { topic: {{dlq}} }
worker: { dir: "${EXACTLY_WORKER_DIR}" }
http: { listen: "" }
audit: { id: payment_id }
`

// slowCall is how long the partner takes for a slow call: more than the
// time-out above.
const slowCall = 450 // ms

// writePipeline writes the file and gives its path.
func writePipeline(dir string, c *cluster, p *partner, g sink.Guarantee, tasks int) (string, error) {
	brokers := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		brokers[i] = strconv.Quote(b)
	}
	text := strings.NewReplacer(
		"{{pipeline}}", pipelineName, "{{guarantee}}", string(g), "{{brokers}}", strings.Join(brokers, ", "),
		"{{prefix}}", c.prefix, "{{session}}", c.session.String(), "{{tasks}}", strconv.Itoa(tasks),
		"{{raw}}", c.raw, "{{out}}", c.out, "{{dlq}}", c.dlq,
		"{{db}}", strconv.Quote(dbPath(dir)), "{{lake}}", strconv.Quote(lakeURL(dir)), "{{partner}}", p.url+"/v1/events",
	).Replace(template)
	path := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("write the pipeline file: %w", err)
	}
	return path, nil
}

func dbPath(dir string) string { return filepath.Join(dir, "payments.db") }

func lakeURL(dir string) string { return "file://" + filepath.ToSlash(filepath.Join(dir, "lake")) }
