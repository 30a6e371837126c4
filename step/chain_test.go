package step

import (
	"errors"
	"slices"
	"testing"
	"time"

	"exactly/record"
	"exactly/step/cel"
)

var testEpoch = Epoch{Number: 7, Attempt: 2, Time: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)}

func payment() record.Record {
	return record.Record{
		Key:       []byte("7c9e6679"),
		Value:     []byte(`{"payment_id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","amount_cents":1000,"merchant_id":"merchant-003","event_time":"2026-01-01T00:00:00.000Z"}`),
		Timestamp: 1767225600000,
		Source:    record.Position{Topic: "payments.raw", Partition: 3, Offset: 42, Timestamp: 1767225600000},
	}
}

func paymentSteps() []Spec {
	return []Spec{
		{Where: "amount_cents > 0"},
		{Set: []Assign{
			{"status", `amount_cents >= 100000 ? "review" : "ok"`},
			{"fee_cents", "amount_cents * 29 / 1000 + 30"},
			{"processed_at", "epoch.time"},
		}},
	}
}

func mustCompile(t testing.TB, specs []Spec, opts Options) *Program {
	t.Helper()
	p, err := Compile(specs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func values(rs []record.Record) []string {
	var vs []string
	for _, r := range rs {
		vs = append(vs, string(r.Value))
	}
	return vs
}

func TestPaymentsJob(t *testing.T) {
	t.Parallel()
	c := mustCompile(t, paymentSteps(), Options{}).NewChain()
	r := payment()
	for range 2 { // the second run shows that nothing is left of the first
		got, err := c.Apply(nil, r, testEpoch)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"payment_id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","amount_cents":1000,"merchant_id":"merchant-003","event_time":"2026-01-01T00:00:00.000Z","status":"ok","fee_cents":59,"processed_at":"2026-01-02T03:04:05.678Z"}`
		if vs := values(got); !slices.Equal(vs, []string{want}) {
			t.Fatalf("got %s\nwant %s", vs, want)
		}
		if g := got[0]; string(g.Key) != string(r.Key) || g.Source != r.Source || g.Timestamp != r.Timestamp || g.Sub != 0 {
			t.Fatalf("key, source or timestamp changed: %+v", g)
		}
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	set := func(field, expr string) Spec { return Spec{Set: []Assign{{field, expr}}} }
	tests := []struct {
		name  string
		steps []Spec
		in    string
		want  []string
	}{
		{"no steps: the same bytes", nil, " {\"a\" : 1.10}\n", []string{" {\"a\" : 1.10}\n"}},
		{"where keeps", []Spec{{Where: "a > 0"}}, `{"a":1}`, []string{`{"a":1}`}},
		{"where drops", []Spec{{Where: "a > 0"}}, `{"a":0}`, nil},
		{"drop drops", []Spec{{Drop: `s == "test"`}}, `{"s":"test"}`, nil},
		{"drop keeps", []Spec{{Drop: `s == "test"`}}, `{"s":"live"}`, []string{`{"s":"live"}`}},
		{"all of a set see the input", []Spec{{Set: []Assign{{"a", "b"}, {"b", "a"}}}}, `{"a":1,"b":2}`, []string{`{"a":2,"b":1}`}},
		{"steps see those before", []Spec{set("a", "a + 1"), set("b", "a * 10"), {Where: "b == 20"}}, `{"a":1}`, []string{`{"a":2,"b":20}`}},
		{"untouched numbers keep their bytes", []Spec{set("b", "1")}, `{"x":1.0e+02,"y":-0,"z":123456789012345678901234567890}`, []string{`{"x":1.0e+02,"y":-0,"z":123456789012345678901234567890,"b":1}`}},
		{"integers beyond 2^53", []Spec{set("a", "a + 1")}, `{"a":9007199254740993}`, []string{`{"a":9007199254740994}`}},
		{"decimals", []Spec{set("c", "a + b")}, `{"a":0.1,"b":0.2}`, []string{`{"a":0.1,"b":0.2,"c":0.3}`}},
		{"an object passed on keeps its bytes", []Spec{set("b", "a")}, `{"a":{"x": 1.50 }}`, []string{`{"a":{"x": 1.50 },"b":{"x": 1.50 }}`}},
		{"the whole value", []Spec{set("copy", "value")}, `{"a": 1}`, []string{`{"a": 1,"copy":{"a": 1}}`}},
		{"nested set", []Spec{set("a.b", "1"), set("c.d", "2")}, `{"a":{"x":0}}`, []string{`{"a":{"x":0,"b":1},"c":{"d":2}}`}},
		{"an absent optional removes", []Spec{set("a", "value.?x")}, `{"a":1,"b":2}`, []string{`{"b":2}`}},
		{"a present optional sets", []Spec{set("a", "value.?b")}, `{"a":1,"b":2}`, []string{`{"a":2,"b":2}`}},
		{"unset", []Spec{{Unset: []string{"a", "b.c", "nope"}}}, `{"a":1,"b":{"c":1,"d":2}}`, []string{`{"b":{"d":2}}`}},
		{"flat_map", []Spec{{FlatMap: "items"}}, `{"o":1,"items":[{"q": 1.10},{"q":2}]}`, []string{`{"q": 1.10}`, `{"q":2}`}},
		{"flat_map of nothing", []Spec{{FlatMap: "items"}}, `{"items":[]}`, nil},
		{"flat_map that makes objects", []Spec{set("n", "2"), {FlatMap: `items.map(i, {"id": id, "n": n, "i": i})`}}, `{"id":"x","items":[1.10,2]}`, []string{`{"i":1.10,"id":"x","n":2}`, `{"i":2,"id":"x","n":2}`}},
		{"flat_map of what was set", []Spec{set("l", `[{"a":1},{"a":2}]`), {FlatMap: "l"}}, `{}`, []string{`{"a":1}`, `{"a":2}`}},
		{"flat_map, then steps", []Spec{{FlatMap: "items"}, {Where: "q > 1"}, set("p", "q * 2")}, `{"items":[{"q":1},{"q":2},{"q":3}]}`, []string{`{"q":2,"p":4}`, `{"q":3,"p":6}`}},
		{"flat_map in flat_map", []Spec{{FlatMap: "a"}, {FlatMap: "b"}}, `{"a":[{"b":[{"n":1},{"n":2}]},{"b":[]},{"b":[{"n":3}]}]}`, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}},
		{"key, headers and source", []Spec{set("k", `key + source.topic + string(source.partition) + string(source.offset) + headers.h + string(source.timestamp)`)}, `{}`, []string{`{"k":"7c9e6679payments.raw342v2026-01-01T00:00:00Z"}`}},
		{"epoch", []Spec{set("e", "[epoch.number, epoch.attempt]")}, `{}`, []string{`{"e":[7,2]}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := payment()
			r.Value = []byte(tt.in)
			r.Headers = []record.Header{{Key: "h", Value: []byte("old")}, {Key: "h", Value: []byte("v")}}
			c := mustCompile(t, tt.steps, Options{}).NewChain()
			before := []record.Record{{Value: []byte("before")}}
			got, err := c.Apply(before, r, testEpoch)
			if err != nil {
				t.Fatal(err)
			}
			if vs := values(got[1:]); !slices.Equal(vs, tt.want) {
				t.Errorf("got %q\nwant %q", vs, tt.want)
			}
			for i, g := range got[1:] {
				if g.Sub != int32(i) {
					t.Errorf("result %d has Sub %d", i, g.Sub)
				}
			}
			if string(r.Value) != tt.in {
				t.Errorf("the input was changed to %s", r.Value)
			}
		})
	}
}

// TestFates is the table of issue 3: each kind of bad record and its code.
func TestFates(t *testing.T) {
	t.Parallel()
	where := []Spec{{Where: "a > 0"}}
	set := func(expr string) []Spec { return []Spec{{Set: []Assign{{"x", expr}}}} }
	declared := map[string]string{"a": "int", "b": "bytes", "t": "time", "u": "uint", "d": "decimal"}
	tests := []struct {
		name   string
		steps  []Spec
		fields map[string]string
		in     string
		step   string
		code   string
	}{
		{"not JSON", nil, nil, "hello", "decode", "not_json"},
		{"JSON cut off", where, nil, `{"a":1`, "decode", "not_json"},
		{"trailing garbage", nil, nil, `{"a":1} x`, "decode", "not_json"},
		{"invalid UTF-8", nil, nil, "{\"a\":\"\xff\"}", "decode", "not_json"},
		{"duplicate key", nil, nil, `{"a":1,"a":2}`, "decode", "duplicate_key"},
		{"duplicate key inside", nil, nil, `{"x":[{"a":1,"a":2}]}`, "decode", "duplicate_key"},
		{"empty value", nil, nil, "", "decode", "empty_value"},
		{"not an object", nil, nil, `[1]`, "decode", "wrong_type"},
		{"the JSON null", nil, nil, `null`, "decode", "wrong_type"},
		{"text for a number", where, nil, `{"a":"1"}`, "steps[0].where", "wrong_type"},
		{"null for a number", where, nil, `{"a":null}`, "steps[0].where", "wrong_type"},
		{"a condition that is none", []Spec{{Where: "a"}}, nil, `{"a":1}`, "steps[0].where", "wrong_type"},
		{"an operand that is no condition", []Spec{{Where: "a && b"}}, nil, `{"a":true,"b":1}`, "steps[0].where", "wrong_type"},
		{"not what is declared: int", where, declared, `{"a":"1"}`, "steps[0].where", "wrong_type"},
		{"not what is declared: int, fraction", where, declared, `{"a":1.5}`, "steps[0].where", "wrong_type"},
		{"not what is declared: bytes", set("b"), declared, `{"b":"%"}`, "steps[0].set.x", "wrong_type"},
		{"not what is declared: time", set("t"), declared, `{"t":"yesterday"}`, "steps[0].set.x", "wrong_type"},
		{"integer beyond 64 bit", where, nil, `{"a":18446744073709551616}`, "steps[0].where", "integer_range"},
		{"integer beyond a declared int", where, declared, `{"a":9223372036854775808}`, "steps[0].where", "integer_range"},
		{"negative for a declared uint", set("u"), declared, `{"u":-1}`, "steps[0].set.x", "integer_range"},
		{"product beyond 64 bit", set("a * a"), nil, `{"a":9223372036854775807}`, "steps[0].set.x", "integer_range"},
		{"sum beyond 64 bit", set("a + 1"), nil, `{"a":9223372036854775807}`, "steps[0].set.x", "integer_range"},
		{"decimal beyond an int", set("int(a)"), nil, `{"a":1e30}`, "steps[0].set.x", "integer_range"},
		{"a missing field", where, nil, `{"b":1}`, "steps[0].where", "expression"},
		{"division by zero", set("1 / a"), nil, `{"a":0}`, "steps[0].set.x", "expression"},
		{"a key that is not there", set("a.b"), nil, `{"a":{}}`, "steps[0].set.x", "expression"},
		{"a decimal too large to compute with", set("a + 1"), nil, `{"a":1e99999999}`, "steps[0].set.x", "expression"},
		{"set inside what is no object", []Spec{{Set: []Assign{{"a.b", "1"}}}}, nil, `{"a":1}`, "steps[0].set.a.b", "wrong_type"},
		{"flat_map of what is no list", []Spec{{FlatMap: "a"}}, nil, `{"a":{}}`, "steps[0].flat_map", "wrong_type"},
		{"flat_map of what are no objects", []Spec{{FlatMap: "a"}}, nil, `{"a":[{},5]}`, "steps[0].flat_map[1]", "wrong_type"},
		{"an error behind a flat_map", []Spec{{FlatMap: "a"}, {Where: "b > 0"}}, nil, `{"a":[{"b":1},{}]}`, "steps[1].where", "expression"},
		{"too much work", set(`a.all(x, a.all(y, a.all(z, a.all(w, a.all(v, x + y + z + w + v > 0)))))`), nil, "{\"a\":[" + manyOnes(100) + "]}", "steps[0].set.x", "expression"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := payment()
			r.Value = []byte(tt.in)
			c := mustCompile(t, tt.steps, Options{Fields: tt.fields}).NewChain()
			before := []record.Record{{}}
			got, err := c.Apply(before, r, testEpoch)
			var se *Error
			if !errors.As(err, &se) || se.Step != tt.step || se.Code != tt.code {
				t.Fatalf("got %+v (%v), want step %s, code %s", se, err, tt.step, tt.code)
			}
			if len(got) != 1 {
				t.Errorf("%d results beside the error, want none", len(got)-1)
			}
			good := payment() // a refusal must leave nothing behind
			good.Value = []byte(`{"a":1,"b":"AA==","t":"2026-01-01T00:00:00Z","u":1,"d":1}`)
			if tt.name == "an error behind a flat_map" || tt.name == "too much work" {
				return
			}
			again, _ := c.Apply(nil, good, testEpoch)
			fresh, _ := mustCompile(t, tt.steps, Options{Fields: tt.fields}).NewChain().Apply(nil, good, testEpoch)
			if !slices.Equal(values(again), values(fresh)) {
				t.Errorf("after the error the next record gives %q, want %q", values(again), values(fresh))
			}
		})
	}
}

func manyOnes(n int) string {
	b := []byte("1")
	for range n {
		b = append(b, ",1"...)
	}
	return string(b)
}

func TestTombstonesPass(t *testing.T) {
	t.Parallel()
	for _, opts := range []Options{{}, {Format: Raw}} {
		steps := []Spec{{Where: `key == "never"`}}
		r := payment()
		r.Value, r.Sub = nil, 9
		got, err := mustCompile(t, steps, opts).NewChain().Apply(nil, r, testEpoch)
		if err != nil || len(got) != 1 || !got[0].Tombstone() || got[0].Sub != 0 {
			t.Errorf("format %q: got %+v, %v, want the tombstone", opts.Format, got, err)
		}
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	steps := []Spec{{Where: `headers.kind == "a"`}, {Drop: `source.offset == 7 || key == b"\xff"`}}
	c := mustCompile(t, steps, Options{Format: Raw}).NewChain()
	tests := []struct {
		name, kind, value string
		key               []byte
		offset            int64
		want              int
		code              string
	}{
		{"kept", "a", "\x00not JSON", []byte("k"), 1, 1, ""},
		{"where", "b", "x", []byte("k"), 1, 0, ""},
		{"drop by offset", "a", "x", []byte("k"), 7, 0, ""},
		{"drop by binary key", "a", "x", []byte{0xff}, 1, 0, ""},
		{"empty", "a", "", []byte("k"), 1, 0, "empty_value"},
	}
	for _, tt := range tests {
		r := record.Record{Key: tt.key, Value: []byte(tt.value), Headers: []record.Header{{Key: "kind", Value: []byte(tt.kind)}}, Source: record.Position{Offset: tt.offset}}
		got, err := c.Apply(nil, r, testEpoch)
		var se *Error
		code := ""
		if errors.As(err, &se) {
			code = se.Code
		}
		if len(got) != tt.want || code != tt.code {
			t.Errorf("%s: %d results, %v; want %d, code %q", tt.name, len(got), err, tt.want, tt.code)
		}
		if tt.want == 1 && string(got[0].Value) != tt.value {
			t.Errorf("%s: value %q, want %q", tt.name, got[0].Value, tt.value)
		}
	}
}

// TestResultsAreIndependent: results keep their bytes while the chain goes on.
func TestResultsAreIndependent(t *testing.T) {
	t.Parallel()
	steps := []Spec{{Set: []Assign{{"l", `[{"n": n}, {"n": n + 1}]`}}}, {FlatMap: "l"}}
	c := mustCompile(t, steps, Options{}).NewChain()
	var all []record.Record
	for _, in := range []string{`{"n":100}`, `{"n":200}`, `{"n":300}`} {
		r := payment()
		r.Value = []byte(in)
		var err error
		if all, err = c.Apply(all, r, testEpoch); err != nil {
			t.Fatal(err)
		}
		copy(r.Value, "xxxxxxxxx")
	}
	want := []string{`{"n":100}`, `{"n":101}`, `{"n":200}`, `{"n":201}`, `{"n":300}`, `{"n":301}`}
	if got := values(all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, paymentSteps(), Options{Fields: map[string]string{"amount_cents": "int"}})
	f, err := NewFilter(p.Env(), "sinks.a.where", `status == "ok" && fee_cents > 50`)
	if err != nil {
		t.Fatal(err)
	}
	var v cel.Vars
	for _, tt := range []struct {
		value []byte
		want  bool
		code  string
	}{
		{[]byte(`{"status":"ok","fee_cents":51}`), true, ""},
		{[]byte(`{"status":"ok","fee_cents":50}`), false, ""},
		{nil, true, ""},
		{[]byte(`{"status":"ok"}`), false, "expression"},
	} {
		v.Reset(&record.Record{Value: tt.value})
		got, err := f.Keep(&v)
		var se *Error
		code := ""
		if errors.As(err, &se) {
			code = se.Code
		}
		if got != tt.want || code != tt.code {
			t.Errorf("%s: %v, %v; want %v, code %q", tt.value, got, err, tt.want, tt.code)
		}
	}
}

func BenchmarkChain(b *testing.B) {
	c := mustCompile(b, paymentSteps(), Options{}).NewChain()
	r := payment()
	b.SetBytes(int64(len(r.Value)))
	b.ReportAllocs()
	var out []record.Record
	for b.Loop() {
		var err error
		if out, err = c.Apply(out[:0], r, testEpoch); err != nil {
			b.Fatal(err)
		}
	}
}
