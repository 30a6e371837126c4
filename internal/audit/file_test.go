package audit

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/config"
	"exactly/internal/payments"
	"exactly/record"
	httpsink "exactly/sink/http"
	"exactly/sink/kafka"
	"exactly/sink/object"
	"exactly/sink/object/encode"
	"exactly/sink/object/jsonl"
	"exactly/sink/object/parquet"
	"exactly/sink/sqlite"
)

const pipeline = `
pipeline: audit-test
kafka: { brokers: [%q] }
source:
  topics: [raw]
  fields: { payment_id: string, amount_cents: int, merchant_id: string, event_time: time }
steps:
  - where: amount_cents > 1000
  - set:
      status: 'amount_cents >= 40000 ? "review" : "ok"'
      fee_cents: amount_cents * 29 / 1000 + 30
      processed_at: epoch.time
sinks:
  enriched: { kafka: { topic_expr: '"out"', key: payment_id } }
  records: { where: 'status == "ok"', sqlite: { path: %q, table: p, key: [payment_id], insert_count: true,
    columns: { payment_id: payment_id, fee: fee_cents * 2, at: event_time } } }
  lake: { object: { url: "file://%s", format: parquet, schema: {
    payment_id: string, amount_cents: int64, event_time: timestamp_ms, processed_at: timestamp_ms, fee_cents: "decimal(10,2)" } } }
  whole: { object: { url: "file://%s", format: parquet } }
  lines: { object: { url: "file://%s" } }
  partner: { http: { url: "http://127.0.0.1:1/", idempotency_key: payment_id } }
audit: { id: payment_id }
`

// place is a pipeline with sinks that a test fills by hand.
type filled struct {
	w       *world
	dir     string
	plan    Plan
	calls   []string
	folders map[string]encode.Format
}

func newFilled(t *testing.T) *filled {
	t.Helper()
	f := &filled{w: newWorld(t, count), dir: t.TempDir()}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Join(f.calls, ""))
	}))
	t.Cleanup(srv.Close)
	seeds, ok := f.w.cl.OptValue(kgo.SeedBrokers).([]string)
	if !ok {
		t.Fatal("no seeds")
	}
	path := func(name string) string { return filepath.Join(f.dir, name) }
	text := fmt.Sprintf(pipeline, seeds[0], path("db"), path("lake"), path("whole"), path("lines"))
	kinds := config.Kinds{"kafka": &kafka.Config{}, "sqlite": &sqlite.Config{}, "object": &object.Config{}, "http": &httpsink.Config{}}
	file, err := config.Parse("p.yaml", []byte(text), kinds, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.plan, err = FromFile(file, FileOptions{Listings: map[string]string{"partner": srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	lake, err := parquet.NewFormat(parquet.Columns{
		"payment_id": {Kind: parquet.String}, "amount_cents": {Kind: parquet.Int64}, "event_time": {Kind: parquet.TimestampMS},
		"processed_at": {Kind: parquet.TimestampMS}, "fee_cents": {Kind: parquet.Decimal, Precision: 10, Scale: 2},
	}, false, parquet.None)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := parquet.NewFormat(nil, false, parquet.None)
	if err != nil {
		t.Fatal(err)
	}
	f.folders = map[string]encode.Format{"lake": lake, "whole": whole, "lines": jsonl.Format{Compression: jsonl.None}}
	return f
}

// fill puts payments into every sink: those whose amount is above 1000, into
// the table only those that are ok.
func (f *filled) fill(t *testing.T, sinks map[string][]held) {
	t.Helper()
	topicSink(t, f.w, kept(sinks["enriched"]))
	db, err := sql.Open("sqlite", filepath.Join(f.dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mustExec(t, db, "CREATE TABLE p (payment_id TEXT PRIMARY KEY, fee INTEGER, at TIMESTAMP, insert_count INTEGER, "+
		"other TEXT DEFAULT 'x', exactly_order TEXT)")
	for _, h := range kept(sinks["records"]) {
		v := h.fields()
		fee := v["fee_cents"].(int64) * 2
		if h.change != "" {
			fee++
		}
		if v["status"] == "ok" || h.change != "" {
			mustExec(t, db, "INSERT INTO p VALUES (?,?,?,1,'y','z') ON CONFLICT DO UPDATE SET insert_count=insert_count+1", v["payment_id"], fee, v["event_time"])
		}
	}
	for name, format := range f.folders {
		f.write(t, name, format, kept(sinks[name]))
	}
	for _, h := range kept(sinks["partner"]) {
		f.calls = append(f.calls, fmt.Sprintf("{\"key\":%q,\"body\":%s}\n", payments.ID(h.i), h.value(t)))
	}
}

func kept(hs []held) []held {
	var out []held
	for _, h := range hs {
		if h.i%500 > 0 {
			out = append(out, h)
		}
	}
	return out
}

func (f *filled) write(t *testing.T, folder string, format encode.Format, hs []held) {
	t.Helper()
	dir := filepath.Join(f.dir, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "copied-by-hand."+format.Ext()))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	enc := format.New(out)
	for _, h := range hs {
		v := h.fields()
		v["processed_at"] = base.Format(time.RFC3339)
		if h.change != "" {
			v["amount_cents"] = 12345
		}
		r := record.Record{Key: []byte(payments.ID(h.i)), Value: encodeJSON(t, v), Timestamp: 1}
		if err := enc.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(encode.Meta{}); err != nil {
		t.Fatal(err)
	}
}

func TestPipelineFile(t *testing.T) {
	t.Parallel()
	names := []string{"enriched", "records", "lake", "whole", "lines", "partner"}
	for _, tt := range []struct {
		name string
		harm func([]held) []held
		want counts
		rows counts // of the table
	}{
		{name: "right", harm: func(hs []held) []held { return hs }},
		{"deleted", func(hs []held) []held { return append(hs[:7:7], hs[8:]...) }, counts{missing: 1}, counts{missing: 1}},
		{"doubled", func(hs []held) []held { return append(hs[:8:8], hs[7:]...) }, counts{duplicate: 1}, counts{conflicts: 1}},
		{"changed", func(hs []held) []held { hs[7].change = "x"; return hs }, counts{changed: 1}, counts{changed: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFilled(t)
			sinks := map[string][]held{}
			for _, name := range names {
				sinks[name] = tt.harm(all(count))
			}
			f.fill(t, sinks)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			rep, err := Run(ctx, f.plan)
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				row, want := rep.Sinks[i], tt.want
				if name == "records" {
					want = tt.rows
				}
				if row.Sink != name || row.counts() != want {
					t.Errorf("sink %s: %+v, want %+v; %v", name, row.counts(), want, row.Findings)
				}
				if row.Expected != count-1 {
					t.Errorf("sink %s: %d expected, want %d", name, row.Expected, count-1)
				}
			}
			wantSeverity := Nothing
			if tt.want != (counts{}) {
				wantSeverity = Error
			}
			if rep.Severity() != wantSeverity {
				t.Errorf("severity %s, want %s; notes %v", rep.Severity(), wantSeverity, rep.Notes)
			}
			var text strings.Builder
			if err := rep.Print(&text); err != nil || !strings.Contains(text.String(), "processed_at") {
				t.Errorf("report %q, %v, want one that names the field that is not compared", text.String(), err)
			}
		})
	}
}

func TestTombstoneID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key   string
		names []string
		value string // whose identity it must have; "": refused
	}{
		{`abc`, []string{"a"}, `{"a":"abc"}`},
		{`"abc"`, []string{"a"}, `{"a":"abc"}`},
		{`17`, []string{"a"}, `{"a":17}`},
		{`{"a":"x"}`, []string{"a"}, `{"a":"x"}`},
		{`{"b":"x"}`, []string{"a"}, `{"a":{"b":"x"}}`},
		{`["x"]`, []string{"a"}, `{"a":"x"}`},
		{`{"b":2,"a":"x"}`, []string{"a", "b"}, `{"a":"x","b":2}`},
		{`["x",2]`, []string{"a", "b"}, `{"a":"x","b":2}`},
		{`["x"]`, []string{"a", "b"}, ``},
		{`abc`, []string{"a", "b"}, ``},
	} {
		got, err := tombstoneID([]byte(tt.key), tt.names)
		if tt.value == "" {
			if err == nil {
				t.Errorf("tombstone %s for %v was taken as %q", tt.key, tt.names, got)
			}
			continue
		}
		want, werr := FieldsID([]byte(tt.value), tt.names)
		if err != nil || werr != nil || string(got) != string(want) {
			t.Errorf("tombstone %s for %v: %q, %v, want %q", tt.key, tt.names, got, err, want)
		}
	}
}
