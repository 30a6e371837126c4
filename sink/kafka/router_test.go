package kafka

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"exactly/record"
	"exactly/sink"
)

func sample() record.Record {
	return record.Record{
		Key:       []byte("k1"),
		Value:     []byte(`{ "payment_id":"p-1","amount":1.10,"big":9007199254740993, "status":"ok","at":"2026-03-01T12:00:00.250Z","ms":1700000000123,"items":[ 1 ] }`),
		Headers:   []record.Header{{Key: "trace", Value: []byte("t")}, {Key: "kind", Value: []byte("old")}, {Key: "kind", Value: []byte("older")}},
		Timestamp: 1_700_000_000_000,
		Source:    record.Position{Topic: "payments.raw", Partition: 3, Offset: 42},
	}
}

func mustNew(t *testing.T, c Config, d Deps) *Router {
	t.Helper()
	r, err := New("enriched", c, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoute(t *testing.T) {
	t.Parallel()
	in := sample()
	plain := sink.Message{Topic: "out", Partition: -1, Key: in.Key, Value: in.Value, Headers: in.Headers, Timestamp: in.Timestamp}
	with := func(edit func(*sink.Message)) sink.Message {
		m := plain
		edit(&m)
		return m
	}
	header := func(kv ...string) []record.Header {
		var hs []record.Header
		for i := 0; i < len(kv); i += 2 {
			hs = append(hs, record.Header{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return hs
	}
	tests := []struct {
		name string
		c    Config
		want sink.Message
	}{
		{"kept as it is", Config{Topic: "out", KeepHeaders: true}, plain},
		{"headers dropped", Config{Topic: "out"}, with(func(m *sink.Message) { m.Headers = nil })},
		{
			"key, a string",
			Config{Topic: "out", Key: "payment_id", KeepHeaders: true},
			with(func(m *sink.Message) { m.Key = []byte("p-1") }),
		},
		{
			"key, an integer beyond 2^53",
			Config{Topic: "out", Key: "big", KeepHeaders: true},
			with(func(m *sink.Message) { m.Key = []byte("9007199254740993") }),
		},
		{
			"key, bytes",
			Config{Topic: "out", Key: `b"\xff\x00"`, KeepHeaders: true},
			with(func(m *sink.Message) { m.Key = []byte{0xff, 0} }),
		},
		{
			"key, empty",
			Config{Topic: "out", Key: `""`, KeepHeaders: true},
			with(func(m *sink.Message) { m.Key = []byte{} }),
		},
		{
			"key, none",
			Config{Topic: "out", Key: "null", KeepHeaders: true},
			with(func(m *sink.Message) { m.Key = nil }),
		},
		{
			"key, an absent field",
			Config{Topic: "out", Key: "value.?nope", KeepHeaders: true},
			with(func(m *sink.Message) { m.Key = nil }),
		},
		{
			"value, a string",
			Config{Topic: "out", Value: "status", KeepHeaders: true},
			with(func(m *sink.Message) { m.Value = []byte("ok") }),
		},
		{
			"value, a decimal",
			Config{Topic: "out", Value: "amount", KeepHeaders: true},
			with(func(m *sink.Message) { m.Value = []byte("1.10") }),
		},
		{
			"value, part of the record byte for byte",
			Config{Topic: "out", Value: "items", KeepHeaders: true},
			with(func(m *sink.Message) { m.Value = []byte("[ 1 ]") }),
		},
		{
			"value, a map",
			Config{Topic: "out", Value: `{"id": payment_id, "a": amount}`, KeepHeaders: true},
			with(func(m *sink.Message) { m.Value = []byte(`{"a":1.10,"id":"p-1"}`) }),
		},
		{
			"topic by expression",
			Config{TopicExpr: `"payments." + status`, Topics: []string{"payments.ok"}, KeepHeaders: true},
			with(func(m *sink.Message) { m.Topic = "payments.ok" }),
		},
		{
			"same partition",
			Config{Topic: "out", Partition: "same", KeepHeaders: true},
			with(func(m *sink.Message) { m.Partition = 3 }),
		},
		{
			"timestamp, a time",
			Config{Topic: "out", Timestamp: "timestamp(at)", KeepHeaders: true},
			with(func(m *sink.Message) { m.Timestamp = 1_772_366_400_250 }),
		},
		{
			"timestamp, milliseconds",
			Config{Topic: "out", Timestamp: "ms", KeepHeaders: true},
			with(func(m *sink.Message) { m.Timestamp = 1_700_000_000_123 }),
		},
		{
			"headers set in place of kept ones",
			Config{
				Topic: "out", KeepHeaders: true, SourceHeaders: true,
				Headers: map[string]string{"kind": "status", "b": `b"\x01"`, "amount": "amount", "none": "null"},
			},
			with(func(m *sink.Message) {
				m.Headers = header("trace", "t", "amount", "1.10", "b", "\x01", "kind", "ok", "exactly-source", "payments.raw-3@42")
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := sample()
			marker := sink.Message{Topic: "before"}
			got, err := mustNew(t, tt.c, Deps{}).Route([]sink.Message{marker}, &in)
			if err != nil {
				t.Fatal(err)
			}
			if want := []sink.Message{marker, tt.want}; !reflect.DeepEqual(got, want) {
				t.Errorf("route:\ngot  %+v\nwant %+v", got, want)
			}
			if !reflect.DeepEqual(in, sample()) {
				t.Errorf("the record was changed: %+v", in)
			}
		})
	}
}

// A tombstone stays one, with the record's key, whatever is computed for others.
func TestRouteTombstone(t *testing.T) {
	t.Parallel()
	in := sample()
	in.Value = nil
	c := Config{
		TopicExpr: `"payments." + key`, Key: "payment_id", Value: "amount", Timestamp: "ms",
		Headers: map[string]string{"kind": "status"}, KeepHeaders: true,
	}
	got, err := mustNew(t, c, Deps{}).Route(nil, &in)
	want := []sink.Message{{Topic: "payments.k1", Partition: -1, Key: in.Key, Headers: in.Headers, Timestamp: in.Timestamp}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("route: got %+v, %v; want %+v", got, err, want)
	}
	if got[0].Value != nil {
		t.Errorf("value: got %q, want nil", got[0].Value)
	}
}

// A value that is empty, or no JSON, is passed on where nothing reads it.
func TestRouteRawValues(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "\xff\x00", "{"} {
		in := sample()
		in.Value = []byte(value)
		got, err := mustNew(t, Config{Topic: "out"}, Deps{}).Route(nil, &in)
		if err != nil || got[0].Value == nil || string(got[0].Value) != value {
			t.Errorf("route %q: got %+v, %v; want the value as it is", value, got, err)
		}
	}
}

func TestRoutePoison(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		value string // "": the sample's
		c     Config
		code  string
		want  string
	}{
		{"missing field", "", Config{Topic: "out", Key: "nope"}, "expression", "sink enriched: kafka.key: field nope is missing"},
		{"not JSON", "{", Config{Topic: "out", Key: "payment_id"}, "not_json", "kafka.key: "},
		{"key, a list", "", Config{Topic: "out", Key: "items"}, "wrong_type", "kafka.key: gives a list"},
		{"value, null", "", Config{Topic: "out", Value: "null"}, "wrong_type", "kafka.value: gives a null_type"},
		{"value fails", "", Config{Topic: "out", Value: "big / 0"}, "expression", "kafka.value: "},
		{"header, a map", "", Config{Topic: "out", Headers: map[string]string{"h": "value"}}, "wrong_type", "kafka.headers.h: gives a map"},
		{"timestamp, a string", "", Config{Topic: "out", Timestamp: "at"}, "wrong_type", "kafka.timestamp: gives a string"},
		{"timestamp, null", "", Config{Topic: "out", Timestamp: "null"}, "wrong_type", "kafka.timestamp: gives a null_type"},
		{"timestamp before 1970", "", Config{Topic: "out", Timestamp: "-1"}, "wrong_type", "kafka.timestamp: -1 is before 1970"},
		{"topic, no string", "", Config{TopicExpr: "big"}, "wrong_type", "kafka.topic_expr: "},
		{"topic outside the list", "", Config{TopicExpr: "payment_id", Topics: []string{"a"}}, "topic", `kafka.topic_expr: gives "p-1", which is not among topics`},
		{"topic that cannot be", "", Config{TopicExpr: `"a b"`}, "topic", `"a b" cannot be the name`},
		{"topic of the cluster", "", Config{TopicExpr: `"__consumer_offsets"`}, "topic", "belongs to the cluster"},
		{"topic of the pipeline", "", Config{TopicExpr: `"exactly.payments.g1.journal"`}, "topic", "belongs to the pipeline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := sample()
			if tt.value != "" {
				in.Value = []byte(tt.value)
			}
			r := mustNew(t, tt.c, Deps{Reserved: []string{"exactly.payments."}})
			dst := []sink.Message{{Topic: "before"}}
			got, err := r.Route(dst, &in)
			if sink.Classify(err) != sink.ClassPoison || sink.Code(err) != tt.code {
				t.Fatalf("route: got %v (%s, code %s), want poison with code %s", err, sink.Classify(err), sink.Code(err), tt.code)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error: got %q, want %q in it", err, tt.want)
			}
			if !reflect.DeepEqual(got, dst) {
				t.Errorf("messages beside the error: got %+v, want those from before", got)
			}
		})
	}
}

func TestWhatTheEngineAsks(t *testing.T) {
	t.Parallel()
	one := mustNew(t, Config{Topic: "a", Create: true, Partition: "same"}, Deps{})
	list := mustNew(t, Config{TopicExpr: `"x"`, Topics: []string{"x", "y"}}, Deps{})
	free := mustNew(t, Config{TopicExpr: `"x"`}, Deps{})
	for _, tt := range []struct {
		name         string
		r            *Router
		topics       []string
		create, same bool
	}{{"one", one, []string{"a"}, true, true}, {"list", list, []string{"x", "y"}, false, false}, {"free", free, nil, false, false}} {
		if got := tt.r.Topics(); !slices.Equal(got, tt.topics) {
			t.Errorf("%s: topics: got %v, want %v", tt.name, got, tt.topics)
		}
		if tt.r.CreateTopics() != tt.create || tt.r.SamePartitions() != tt.same {
			t.Errorf("%s: create, same: got %v, %v", tt.name, tt.r.CreateTopics(), tt.r.SamePartitions())
		}
		if err := tt.r.Check(t.Context()); err != nil {
			t.Errorf("%s: Check: %v", tt.name, err)
		}
	}
	for r, rejects := range map[*Router]bool{one: false, list: true} {
		if f := r.Features(); !f.Deletes || !f.Keyless || f.Rejects != rejects {
			t.Errorf("features: got %+v, want Rejects %v", f, rejects)
		}
	}
}

// Tasks share a router: each must get the fields of its own record.
func TestRouteFromManyTasks(t *testing.T) {
	t.Parallel()
	r := mustNew(t, Config{TopicExpr: `"t" + string(n % 3)`, Key: "n", Headers: map[string]string{"n": "n"}}, Deps{})
	var wg sync.WaitGroup
	for task := range 8 {
		wg.Go(func() {
			var dst []sink.Message
			for i := range 500 {
				n := task*1000 + i
				in := record.Record{Value: fmt.Appendf(nil, `{"n":%d}`, n)}
				var err error
				if dst, err = r.Route(dst[:0], &in); err != nil {
					t.Error(err)
					return
				}
				m, want := dst[0], fmt.Sprint(n)
				if string(m.Key) != want || string(m.Headers[0].Value) != want || m.Topic != fmt.Sprintf("t%d", n%3) {
					t.Errorf("record %d was routed as %+v", n, m)
					return
				}
			}
		})
	}
	wg.Wait()
}
