package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/deadletter"
	"exactly/internal/payments"
	"exactly/record"
)

// sinks makes each kind of sink hold hs. keyed ones cannot hold a copy.
var sinks = []struct {
	name  string
	keyed bool
	order bool
	make  func(t *testing.T, w *world, hs []held) Sink
}{
	{"topic", false, true, topicSink},
	{"appended table", false, true, func(t *testing.T, _ *world, hs []held) Sink { return tableSink(t, hs, false) }},
	{"upserted table", true, false, func(t *testing.T, _ *world, hs []held) Sink { return tableSink(t, hs, true) }},
	{"partner", false, true, func(t *testing.T, _ *world, hs []held) Sink { return partner(t, hs, false) }},
	{"partner with business key", false, true, func(t *testing.T, _ *world, hs []held) Sink { return partner(t, hs, true) }},
}

type counts struct{ missing, duplicate, changed, unexpected, outOfOrder, conflicts int64 }

func (r *Row) counts() counts {
	return counts{r.Missing, r.Duplicate, r.Changed, r.Unexpected, r.OutOfOrder, r.ConflictingWrites}
}

// TestEachSinkEachFault puts one fault into each kind of sink. An audit that
// does not find it is worth nothing.
func TestEachSinkEachFault(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name     string
		harm     func(hs []held) []held
		want     counts
		keyed    counts // for a sink that holds one row per key
		order    bool   // only where order is kept
		mentions string
	}{
		{name: "none", harm: func(hs []held) []held { return hs }},
		{
			name: "deleted", harm: func(hs []held) []held { return slices.Delete(hs, 77, 78) },
			want: counts{missing: 1}, keyed: counts{missing: 1}, mentions: "raw-1@19",
		},
		{
			name: "doubled", harm: func(hs []held) []held { return append(hs, hs[77]) },
			want: counts{duplicate: 1}, keyed: counts{conflicts: 1}, mentions: payments.ID(77),
		},
		{
			name: "changed", harm: func(hs []held) []held { hs[77].change = "wrong"; return hs },
			want: counts{changed: 1}, keyed: counts{changed: 1}, mentions: payments.ID(77),
		},
		{
			name: "foreign", harm: func(hs []held) []held { return append(hs, held{i: count + 5}) },
			want: counts{unexpected: 1}, keyed: counts{unexpected: 1}, mentions: payments.ID(count + 5),
		},
		{
			// 60 payments apart: the same source partition (of 4), topic
			// partition (of 3) and merchant (of 20).
			name: "swapped", harm: func(hs []held) []held { hs[77], hs[137] = hs[137], hs[77]; return hs },
			want: counts{outOfOrder: 1}, order: true, mentions: "offset",
		},
	}
	for _, s := range sinks {
		for _, f := range faults {
			if f.order && !s.order {
				continue
			}
			t.Run(s.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, count)
				row := w.run(t, s.make(t, w, f.harm(all(count))))
				want := f.want
				if s.keyed {
					want = f.keyed
				}
				got := row.counts()
				if f.order && got.outOfOrder > 0 {
					got.outOfOrder = 1 // everything between the two is behind the later one
				}
				if got != want || row.Expected != count {
					t.Errorf("got %+v of %d expected, want %+v of %d; findings %v", got, row.Expected, want, count, row.Findings)
				}
				if text := fmt.Sprint(row.Findings); !strings.Contains(text, f.mentions) {
					t.Errorf("findings %s do not mention %s", text, f.mentions)
				}
			})
		}
	}
}

// TestSameIDTwice: the source itself holds payment 5 three times, once changed.
func TestSameIDTwice(t *testing.T) {
	t.Parallel()
	pay := payments.New(5, base.Add(5*time.Second))
	raw := string(pay.AppendJSON(nil))
	for _, tt := range []struct {
		name string
		make func(t *testing.T, w *world, hs []held) Sink
		hs   []held
		want counts
	}{
		{"topic, all", topicSink, []held{{i: 5}, {i: 5}, {i: 5, change: "review"}}, counts{}},
		{"topic, one short", topicSink, []held{{i: 5}, {i: 5}}, counts{missing: 1}},
		{"topic, one too many", topicSink, []held{{i: 5}, {i: 5}, {i: 5}, {i: 5, change: "review"}}, counts{duplicate: 1}},
		{"topic, one changed", topicSink, []held{{i: 5}, {i: 5}, {i: 5, change: "x"}}, counts{changed: 1}},
		{"upsert, last", sinks[2].make, []held{{i: 5}, {i: 5}, {i: 5, change: "review"}}, counts{}},
		{"upsert, first only", sinks[2].make, []held{{i: 5}}, counts{changed: 1}},
		{"upsert, one write more", sinks[2].make, []held{{i: 5}, {i: 5}, {i: 5}, {i: 5, change: "review"}}, counts{conflicts: 1}},
		{"once, first", sinks[4].make, []held{{i: 5}}, counts{}},
		{"once, second call", sinks[4].make, []held{{i: 5}, {i: 5, change: "review"}}, counts{duplicate: 1}},
		{"once, wrong one", sinks[4].make, []held{{i: 5, change: "review"}}, counts{changed: 1}},
		{"once, none", sinks[4].make, nil, counts{missing: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			changed := strings.Replace(raw, fmt.Sprint(pay.AmountCents), "41000", 1)
			w.produce(t,
				&kgo.Record{Topic: "raw", Partition: 2, Key: pay.Key(), Value: []byte(raw)},
				&kgo.Record{Topic: "raw", Partition: 2, Key: pay.Key(), Value: []byte(raw)},
				&kgo.Record{Topic: "raw", Partition: 2, Key: pay.Key(), Value: []byte(changed)})
			s := tt.make(t, w, tt.hs)
			s.Map = statusOnly
			inner := s.Reader
			s.Reader = reduced{inner}
			if row := w.run(t, s); row.counts() != tt.want {
				t.Errorf("got %+v, want %+v; %v", row.counts(), tt.want, row.Findings)
			}
		})
	}
}

// statusOnly makes records differ by status alone, as the test changes it.
func statusOnly(dst []record.Record, r *record.Record) ([]record.Record, error) {
	id, _ := record.Lookup(r.Value, "payment_id")
	status, _ := record.Lookup(r.Value, "status")
	out := *r
	out.Value = fmt.Appendf(nil, `{"payment_id":%s,"status":%s}`, id, status)
	return append(dst, out), nil
}

// reduced applies statusOnly to what a sink holds.
type reduced struct{ Reader }

func (r reduced) Read(ctx context.Context, fn func(*Held) error) error {
	return r.Reader.Read(ctx, func(h *Held) error {
		rs, err := statusOnly(nil, &h.Record)
		if err != nil {
			return err
		}
		h.Value = rs[0].Value
		return fn(h)
	})
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		make func(t *testing.T, w *world, hs []held) Sink
		hs   []held
		want counts
	}{
		{"upsert, removed", sinks[2].make, []held{{i: 0}}, counts{}},
		{"upsert, still there", sinks[2].make, []held{{i: 0}, {i: 1}}, counts{unexpected: 1}},
		{"append, not told", sinks[1].make, []held{{i: 0}, {i: 1}}, counts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.produce(t, &kgo.Record{Topic: "raw", Partition: 1, Key: []byte(payments.ID(1))})
			s := tt.make(t, w, tt.hs)
			s.TombstoneID = func(k []byte) ([]byte, error) { return tombstoneID(k, []string{"payment_id"}) }
			if row := w.run(t, s); row.counts() != tt.want {
				t.Errorf("got %+v, want %+v; %v", row.counts(), tt.want, row.Findings)
			}
		})
	}
	t.Run("topic", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 1)
		w.produce(t, &kgo.Record{Topic: "raw", Partition: 0, Key: []byte(payments.ID(0))})
		s := topicSink(t, w, all(1))
		if row := w.run(t, s); row.counts() != (counts{missing: 1}) {
			t.Errorf("without the tombstone: %+v, want it missing", row.counts())
		}
		w.produce(t, &kgo.Record{Topic: "out", Partition: 0, Key: []byte(payments.ID(0))})
		if row := w.run(t, s); row.counts() != (counts{}) {
			t.Errorf("with the tombstone: %+v, %v", row.counts(), row.Findings)
		}
	})
}

func TestAbortedIsNotHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	s := topicSink(t, w, all(1))
	cl, err := kgo.NewClient(append(slices.Clone(w.opts), kgo.TransactionalID("x"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: "out", Key: []byte(payments.ID(1)), Value: held{i: 1}.value(t)}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if row := w.run(t, s); row.counts() != (counts{missing: 1}) {
		t.Errorf("got %+v, want 1 missing: the record was aborted", row.counts())
	}
}

// deadLetter is one of a record of partition 0.
func deadLetter(offset int64, sink, code string) *kgo.Record {
	l := deadletter.Letter{Stage: "x", Sink: sink, Code: code, Record: record.Record{
		Key: []byte("k"), Value: []byte("v"), Source: record.Position{Topic: "raw", Partition: 0, Offset: offset},
	}}
	m := l.Messages("dlq", 0, deadletter.Pieces)[0]
	r := &kgo.Record{Topic: "dlq", Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}

// TestRefusedBeforeAll: a record that cannot be routed, or of which a filter
// fails, is one dead letter and reaches no sink.
func TestRefusedBeforeAll(t *testing.T) {
	t.Parallel()
	first := func(r *record.Record) bool { return r.Source.Partition == 0 && r.Source.Offset == 0 }
	for name, harm := range map[string]func(s *Sink){
		"route": func(s *Sink) {
			s.Routes = true
			s.Map = func(dst []record.Record, r *record.Record) ([]record.Record, error) {
				if first(r) {
					return dst, errors.New("no key")
				}
				return append(dst, *r), nil
			}
		},
		"filter": func(s *Sink) {
			s.Where = func(r *record.Record) (bool, error) {
				if first(r) {
					return false, errors.New("no field")
				}
				return true, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 8)
			s, other := topicSink(t, w, all(8)[1:]), topicSink(t, w, nil)
			s.Name, other.Name = "first", "second"
			harm(&s)
			w.produce(t, deadLetter(0, "first", "expression"))
			p := w.plan(other)
			p.Sinks = append(p.Sinks, s)
			rep, err := Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rep.Sinks {
				if row.Wrong() > 0 {
					t.Errorf("%s: %+v, want all right", row.Sink, row)
				}
			}
		})
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	letter := func(offset int64, sink string) *kgo.Record { return deadLetter(offset, sink, "not_json") }
	large := func() *kgo.Record { return deadLetter(0, "", deadletter.CodeTooLarge) }
	// Payments 0 and 4 stand at offsets 0 and 1 of partition 0, then nonsense at 2.
	for _, tt := range []struct {
		name    string
		held    []held
		letters []*kgo.Record
		want    counts
		refused int64
		dead    counts
	}{
		{"all in place", all(8), []*kgo.Record{letter(2, "")}, counts{}, 0, counts{}},
		{"letter missing", all(8), nil, counts{}, 0, counts{missing: 1}},
		{"letter twice", all(8), []*kgo.Record{letter(2, ""), letter(2, "")}, counts{}, 0, counts{duplicate: 1}},
		{"letter of a good record", all(8), []*kgo.Record{letter(2, ""), letter(0, "")}, counts{}, 0, counts{unexpected: 1}},
		{"refused by the sink", all(8)[1:], []*kgo.Record{letter(2, ""), letter(0, "sink")}, counts{}, 1, counts{}},
		{"refused by another sink", all(8)[1:], []*kgo.Record{letter(2, ""), letter(0, "other")}, counts{missing: 1}, 0, counts{}},
		{"refused and held", all(8), []*kgo.Record{letter(2, ""), letter(0, "sink")}, counts{unexpected: 1}, 0, counts{}},
		{"too large for a topic", all(8)[1:], []*kgo.Record{letter(2, ""), large()}, counts{}, 1, counts{}},
		{"too large, twice", all(8)[1:], []*kgo.Record{letter(2, ""), large(), large()}, counts{}, 1, counts{duplicate: 1}},
		{"too large and held", all(8), []*kgo.Record{letter(2, ""), large()}, counts{unexpected: 1}, 0, counts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 8)
			w.produce(t, &kgo.Record{Topic: "raw", Partition: 0, Value: []byte("nonsense")})
			s := topicSink(t, w, tt.held)
			s.Name = "sink"
			for _, l := range tt.letters {
				w.produce(t, l)
			}
			rep, err := Run(t.Context(), w.plan(s))
			if err != nil {
				t.Fatal(err)
			}
			row, dead := rep.Sinks[0], rep.Sinks[1]
			if row.counts() != tt.want || row.DeadLettered != tt.refused {
				t.Errorf("sink: %+v and %d refused, want %+v and %d", row.counts(), row.DeadLettered, tt.want, tt.refused)
			}
			if dead.counts() != tt.dead {
				t.Errorf("dead letters: %+v, want %+v; %v", dead.counts(), tt.dead, dead.Findings)
			}
		})
	}
}

func TestCannotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	good := topicSink(t, w, all(1))
	for name, harm := range map[string]func(p *Plan){
		"source topic": func(p *Plan) { p.Topics = []string{"nowhere"} },
		"topic":        func(p *Plan) { p.Sinks[0].Reader = &KafkaReader{Kafka: w.opts, Topics: []string{"nowhere"}} },
		"database":     func(p *Plan) { p.Sinks[0].Reader = &SQLiteReader{Path: "/nowhere", Table: "t"} },
		"table": func(p *Plan) {
			r := tableSink(t, nil, false).Reader.(*SQLiteReader)
			r.Table = "u"
			p.Sinks[0].Reader = r
		},
		"listing": func(p *Plan) { p.Sinks[0].Reader = &HTTPReader{URL: "http://127.0.0.1:1/"} },
		"address": func(p *Plan) { p.Sinks[0].Reader = &HTTPReader{} },
	} {
		p := w.plan(good)
		harm(&p)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := Run(ctx, p); !errors.Is(err, ErrRead) {
			t.Errorf("%s out of reach: error %v, want ErrRead", name, err)
		}
		cancel()
	}
	p := w.plan(good)
	p.Dead = &TopicDead{Kafka: w.opts, Topic: "nowhere"}
	if rep, err := Run(t.Context(), p); err != nil || rep.Severity() != Nothing {
		t.Errorf("no topic of dead letters: %v, want all right: there are none", err)
	}
}
