package audit

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
	"exactly/internal/payments"
	"exactly/record"
	"exactly/step"
)

const count = 200

var base = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// enriched is what a sink must hold for payment i; processed is free.
func enriched(i int64, processed string) map[string]any {
	e := payments.New(i, base.Add(time.Duration(i)*time.Second)).Enrich()
	return map[string]any{
		"payment_id": e.ID, "amount_cents": e.AmountCents, "merchant_id": e.Merchant,
		"event_time": e.EventTime.Format("2006-01-02T15:04:05.000Z"), "status": e.Status, "fee_cents": e.FeeCents,
		"processed_at": processed,
	}
}

func encodeJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// chain enriches payments, as the pipeline of the tests does.
type chain struct{}

func (chain) Apply(dst []record.Record, r record.Record, e step.Epoch) ([]record.Record, error) {
	if r.Tombstone() {
		return append(dst, r), nil
	}
	var v map[string]any
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return dst, &step.Error{Step: "decode", Code: "not_json", Err: err}
	}
	amount := int64(v["amount_cents"].(float64))
	v["amount_cents"] = amount
	v["status"] = "ok"
	if amount >= 40000 {
		v["status"] = "review"
	}
	v["fee_cents"] = amount*29/1000 + 30
	v["processed_at"] = e.Time
	var err error
	r.Value, err = json.Marshal(v)
	return append(dst, r), err
}

// world is a source of payments, and where they stand in it.
type world struct {
	opts  []kgo.Opt
	cl    *kgo.Client
	order map[int32][]int64 // payments of each partition
}

func newWorld(t *testing.T, n int64) *world {
	t.Helper()
	c, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(4, "raw"), kfake.SeedTopics(3, "out"), kfake.SeedTopics(1, "dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{opts: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, order: map[int32][]int64{}}
	if w.cl, err = kgo.NewClient(append(slices.Clone(w.opts), kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	for i := range n {
		p := int32(i % 4)
		pay := payments.New(i, base.Add(time.Duration(i)*time.Second))
		w.produce(t, &kgo.Record{Topic: "raw", Partition: p, Key: pay.Key(), Value: pay.AppendJSON(nil)})
		w.order[p] = append(w.order[p], i)
	}
	return w
}

func (w *world) produce(t *testing.T, rs ...*kgo.Record) {
	t.Helper()
	if err := w.cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// held is what a test puts into a sink: payments, by index, in order.
type held struct {
	i      int64
	change string // another status
}

func all(n int64) []held {
	var hs []held
	for i := range n {
		hs = append(hs, held{i: i})
	}
	return hs
}

func (h held) value(t *testing.T) []byte { return encodeJSON(t, h.fields()) }

func (h held) fields() map[string]any {
	v := enriched(h.i, fmt.Sprintf("epoch %d", h.i/7))
	if h.change != "" {
		v["status"] = h.change
	}
	return v
}

func (w *world) plan(s Sink) Plan {
	return Plan{
		Kafka: w.opts, Topics: []string{"raw"}, Steps: chain{}, Unverified: []string{"processed_at"},
		Sinks: []Sink{s}, Dead: &TopicDead{Kafka: w.opts, Topic: "dlq"},
	}
}

func byPaymentID(r *record.Record) ([]byte, error) {
	return FieldsID(r.Value, []string{"payment_id"})
}

// run audits one sink and gives its row.
func (w *world) run(t *testing.T, s Sink) Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s.Name, s.Kind = "sink", "test"
	rep, err := Run(ctx, w.plan(s))
	if err != nil {
		t.Fatal(err)
	}
	row := rep.Sinks[0]
	if row.Total != row.Unique+row.Duplicate+row.Unexpected {
		t.Errorf("total %d is not unique %d + duplicate %d + unexpected %d", row.Total, row.Unique, row.Duplicate, row.Unexpected)
	}
	return row
}

// topicSink fills the output topic: partition by payment, in order.
func topicSink(t *testing.T, w *world, hs []held) Sink {
	t.Helper()
	for _, h := range hs {
		w.produce(t, &kgo.Record{Topic: "out", Partition: int32(h.i % 3), Key: []byte(payments.ID(h.i)), Value: h.value(t)})
	}
	return Sink{
		Reader: &KafkaReader{Kafka: w.opts, Topics: []string{"out"}, ByKey: true},
		ID:     func(r *record.Record) ([]byte, error) { return r.Key, nil },
	}
}

func tableSink(t *testing.T, hs []held, upsert bool) Sink {
	t.Helper()
	path := filepath.Join(t.TempDir(), "with space?.db")
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(path, "?", "%3f"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, conflict := "", ""
	if upsert {
		key, conflict = "PRIMARY KEY", " ON CONFLICT DO UPDATE SET insert_count = insert_count + 1, status = excluded.status"
	}
	mustExec(t, db, "CREATE TABLE p (payment_id TEXT "+key+", amount_cents INTEGER, merchant_id TEXT, event_time TIMESTAMP, "+
		"status TEXT, fee_cents REAL, processed_at TEXT, insert_count INTEGER DEFAULT 1, ledger TEXT)")
	for _, h := range hs {
		v := h.fields()
		mustExec(t, db, "INSERT INTO p VALUES (?,?,?,?,?,?,?,1,'x')"+conflict, v["payment_id"], v["amount_cents"], v["merchant_id"],
			v["event_time"], v["status"], v["fee_cents"], v["processed_at"])
	}
	return Sink{
		ID: byPaymentID,
		Reader: &SQLiteReader{
			Path: path, Table: "p", Upsert: upsert, Writes: "insert_count", Ignore: []string{"ledger"},
		},
	}
}

func mustExec(t *testing.T, db *sql.DB, stmt string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), stmt, args...); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func partner(t *testing.T, hs []held, once bool) Sink {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range hs {
			line := map[string]any{"key": payments.ID(h.i), "body": h.fields(), "lane": payments.Merchant(h.i)}
			if h.i%2 == 1 {
				line["body"] = string(h.value(t))
			}
			_, _ = w.Write(append(encodeJSON(t, line), '\n'))
		}
	}))
	t.Cleanup(srv.Close)
	return Sink{
		Reader: &HTTPReader{URL: srv.URL, ByKey: true, Once: once},
		ID:     func(r *record.Record) ([]byte, error) { return r.Key, nil },
	}
}
