//go:build services

package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/deadletter"
	"exactly/internal/payments"
	"exactly/internal/services"
	"exactly/record"
	"exactly/test/rig"
)

// odd is a record that is no ordinary payment, and its fate: the dead letters
// that it must become, none or one for each sink that refuses it, or one for
// all.
type odd struct {
	name    string
	value   func(id string) []byte // nil: a tombstone
	letters []letter
}

type letter struct{ sink, code string }

func jsonOf(format string) func(id string) []byte {
	return func(id string) []byte { return fmt.Appendf(nil, format, id) }
}

// payment is a payment whose fields are given one by one.
func payment(amount, merchant, when, more string) func(id string) []byte {
	return jsonOf(`{"payment_id":"%s","amount_cents":` + amount + `,"merchant_id":` + merchant + `,"event_time":` + when + more + `}`)
}

// Fields of an ordinary payment, as JSON.
const (
	aMerchant = `"merchant-001"`
	aTime     = `"2026-01-31T10:00:00Z"`
)

func odds() []odd {
	all := func(code string) []letter { return []letter{{"", code}} }
	large := strings.Repeat("all the same ", 3<<20/13)
	return []odd{
		{"not JSON", jsonOf(`payment %s`), all("not_json")},
		{"cut short", jsonOf(`{"payment_id":"%s","amount_cents":1`), all("not_json")},
		{"not an object", jsonOf(`["%s"]`), all("wrong_type")},
		{"a key twice", payment("1", aMerchant, aTime, `,"amount_cents":2`), all("duplicate_key")},
		{"beyond 64 bits where an integer is needed", payment("9223372036854775808", aMerchant, aTime, ""), all("integer_range")},
		{"overflow", payment("9223372036854775807", aMerchant, aTime, ""), all("integer_range")},
		{"text for an integer", payment(`"12"`, aMerchant, aTime, ""), all("wrong_type")},
		{"no amount", jsonOf(`{"payment_id":"%s"}`), all("expression")},
		{"empty", func(string) []byte { return []byte{} }, all("empty_value")},
		{"too large", payment("500", aMerchant, aTime, `,"pad":"`+large+`"`), all("too_large")},
		{"refused by the table", payment("500", "null", aTime, ""), []letter{{"records", "constraint"}}},
		{"refused by the files", payment("500", aMerchant, `"yesterday"`, ""), []letter{{"lake", "wrong_type"}}},
		{"refused by the partner", payment("500", `"merchant-666"`, aTime, ""), []letter{{"partner", "http_status_400"}}},
		{"refused by three", payment("500", `null`, `"yesterday"`, `,"poison":true`), []letter{{"records", "constraint"}, {"lake", "wrong_type"}, {"partner", "http_status_400"}}},
		{"numbers that nothing touches", payment("500", aMerchant, aTime, `,"big":12345678901234567890123,"small":0.10000000000000000001`), nil},
		{"dropped by a step", payment("0", aMerchant, aTime, ""), nil},
	}
}

// TestFates: every kind of record that cannot be processed becomes exactly one
// dead letter with its coordinates, code and bytes, whatever is killed; a
// tombstone deletes where the sink knows how.
func TestFates(t *testing.T) {
	for _, oversize := range []string{"pieces", "pointer"} {
		t.Run(oversize, func(t *testing.T) {
			p := rig.New(t, services.Kafka(t, one), rig.Shape{
				Tasks: 2, Dead: "oversize: " + oversize, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }",
			})
			p.Partner.Poison = func(b []byte) bool {
				return bytes.Contains(b, []byte(`"merchant-666"`)) || bytes.Contains(b, []byte(`"poison":true`))
			}
			f := &fates{p: p, at: map[string]*record.Record{}, want: map[string]letter{}, l: p.Idle()}
			ws := f.kill(
				"epoch/applied:hit=3=kill", "sink/after-commit:hit=2=kill", "epoch/before-decision:hit=4=kill",
				"epoch/journaled:hit=3=kill", "sink/before-commit:hit=5=kill", "epoch/decided:hit=5=kill",
			)
			f.deletePayments()
			f.awaitLetters()
			p.Partner.Calm()
			f.awaitSinks(ws)
			p.Stop(ws...)
			f.verifyLetters(oversize)
			f.verifyTombstones()
			f.verifyBytes()
			if code, r := p.Audit(); code != 0 {
				t.Errorf("audit: exit code %d, %+v", code, r)
			}
		})
	}
}

// fates writes odd records among ordinary ones and knows what must become of
// them.
type fates struct {
	p     *rig.Pipeline
	l     *rig.Load
	n     int
	at    map[string]*record.Record // the odd ones, by their place
	want  map[string]letter         // by place and sink
	gone  []string                  // ids of payments that tombstones delete
	exact string                    // id of the payment with numbers that must keep their bytes
}

func place(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s-%d@%d", topic, partition, offset)
}

// write writes one of each kind, and some payments.
func (f *fates) write() {
	t := f.p.T
	t.Helper()
	cl := f.p.Cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(8<<20))
	defer cl.Close()
	f.l.Produce(0, 100)
	for _, o := range odds() {
		f.n++
		id := fmt.Sprintf("odd-%d", f.n)
		rec := &kgo.Record{
			Topic: f.p.Raw, Partition: int32(f.n) % f.p.Partitions, Key: []byte(id), Value: o.value(id),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte(id)}}, Timestamp: time.Now(),
		}
		rig.Check(t, cl.ProduceSync(t.Context(), rec).FirstErr())
		at := place(rec.Topic, rec.Partition, rec.Offset)
		f.at[at] = &record.Record{Key: rec.Key, Value: rec.Value}
		for _, l := range o.letters {
			f.want[at+" "+l.sink] = l
		}
		if strings.Contains(o.name, "nothing touches") {
			f.exact = id
		}
	}
	<-f.l.Done
	rig.Check(t, f.l.Err)
}

// kill runs two workers and lets each of the arms kill one of them, while odd
// records arrive.
func (f *fates) kill(arms ...string) []*rig.Worker {
	f.p.T.Helper()
	steady := f.p.Run(0)
	for _, arm := range arms {
		w := f.p.Run(1, arm)
		rig.Await(f.p.T, "the worker to be killed by "+arm, func(context.Context) (string, bool) {
			steady.MustLive()
			if !w.Alive() {
				return "", true
			}
			f.write()
			rig.Pause(f.p.T, 200*time.Millisecond)
			return fmt.Sprint(f.n, " odd records"), false
		})
		if code := w.Exit(); code != -1 {
			f.p.T.Fatalf("a worker with %s ended by itself, exit code %d", arm, code)
		}
	}
	f.p.T.Logf("%d odd records, %d dead letters expected, %d kills", f.n, len(f.want), len(arms))
	return []*rig.Worker{steady, f.p.Run(1)}
}

// deletePayments writes tombstones for some payments.
func (f *fates) deletePayments() {
	f.p.T.Helper()
	cl := f.p.Cluster.Client(f.p.T)
	for i := range int64(20) {
		id := payments.ID(i)
		rig.Check(f.p.T, cl.ProduceSync(f.p.T.Context(), &kgo.Record{Topic: f.p.Raw, Key: []byte(id)}).FirstErr())
		f.gone = append(f.gone, id)
	}
}

// letters parses what the dead-letter topic holds.
func (f *fates) letters() []deadletter.Parsed {
	f.p.T.Helper()
	var out []deadletter.Parsed
	for _, r := range f.p.Read(f.p.DLQ) {
		var hs []record.Header
		for _, h := range r.Headers {
			hs = append(hs, record.Header{Key: h.Key, Value: h.Value})
		}
		l, err := deadletter.Parse(r.Key, r.Value, hs, r.Timestamp.UnixMilli())
		rig.Check(f.p.T, err)
		out = append(out, l)
	}
	return out
}

func letterKey(l deadletter.Parsed) string {
	s := l.Record.Source
	return place(s.Topic, s.Partition, s.Offset) + " " + l.Sink
}

func (f *fates) awaitLetters() {
	f.p.T.Helper()
	rig.Await(f.p.T, "every dead letter", func(context.Context) (string, bool) {
		have := map[string]bool{}
		for _, l := range f.letters() {
			have[letterKey(l)] = true
		}
		missing := 0
		for k := range f.want {
			if !have[k] {
				missing++
			}
		}
		return fmt.Sprintf("%d of %d missing", missing, len(f.want)), missing == 0
	})
}

// awaitSinks waits until all sinks are at the end, the tombstones included.
func (f *fates) awaitSinks(ws []*rig.Worker) {
	f.p.T.Helper()
	rig.Await(f.p.T, "the sinks to be right", func(context.Context) (string, bool) {
		for _, w := range ws {
			w.MustLive()
		}
		code, r := f.p.Audit()
		return fmt.Sprintf("exit code %d, %+v", code, r), code == 0
	})
}
