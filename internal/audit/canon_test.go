package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"exactly/record"
)

func TestCanon(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b         string
		exact, loose bool // equal
	}{
		{`{"a":1,"b":"x"}`, ` { "b" : "x", "a":1 } `, true, true},
		{`{"a":"\u0041"}`, `{"a":"A"}`, true, true},
		{`{"a":{"y":1,"x":[1,{"q":2,"p":3}]}}`, `{"a":{"x":[1,{"p":3,"q":2}],"y":1}}`, true, true},
		{`{"a":1}`, `{"a":1.0}`, false, true},
		{`{"a":1}`, `{"a":"1"}`, false, true},
		{`{"a":true}`, `{"a":1}`, false, true},
		{`{"a":null}`, `{}`, false, true},
		{`{"a":[1,2]}`, `{"a":"[1, 2]"}`, false, true},
		{`{"a":"2026-01-02T03:04:05Z"}`, `{"a":"2026-01-02T04:04:05.000+01:00"}`, false, true},
		{`{"a":0.1}`, `{"a":0.10}`, false, true},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false, false},
		{`{"a":123456789012345678901234}`, `{"a":123456789012345678901235}`, false, false},
		{`{"a":0.1}`, `{"a":0.2}`, false, false},
		{`{"a":"001"}`, `{"a":1}`, false, false},
		{`{"a":"x"}`, `{"b":"x"}`, false, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false, false},
		{`{"a":""}`, `{"a":null}`, false, false},
		{`{"a":1} x`, `{"a":1}`, false, false},
		{`not json`, `not  json`, false, false},
		{`{"skip":1,"a":2}`, `{"skip":2,"a":2}`, true, true},
		{`{"a":{"skip":1}}`, `{"a":{"skip":2}}`, false, false},
	}
	for _, tt := range tests {
		for _, loose := range []bool{false, true} {
			c := newCanon(Shape{Loose: loose}, []string{"skip"})
			want := tt.exact
			if loose {
				want = tt.loose
			}
			a, b := string(c.value(nil, []byte(tt.a))), string(c.value(nil, []byte(tt.b)))
			if (a == b) != want {
				t.Errorf("loose %v: %s and %s become %s and %s, want equal: %v", loose, tt.a, tt.b, a, b, want)
			}
		}
	}
	c := newCanon(Shape{}, nil)
	if string(c.value(nil, nil)) == string(c.value(nil, []byte{})) {
		t.Error("a tombstone equals an empty value")
	}
	only := newCanon(Shape{Fields: []string{"a"}}, nil)
	if got := string(only.value(nil, []byte(`{"a":1,"b":2}`))); strings.Contains(got, "b") {
		t.Errorf("%s holds a field that the sink has no room for", got)
	}
}

func FuzzCanon(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"\u00e9","d":-1.5e300}`))
	f.Add([]byte(`{"a":"[1,2]","b":"{\"c\":1}"}`))
	f.Add([]byte(`{"a":1e999,"b":"1e-999"}`))
	f.Fuzz(func(t *testing.T, v []byte) {
		for _, loose := range []bool{false, true} {
			c := newCanon(Shape{Loose: loose}, nil)
			want := string(c.value(nil, v))
			if new(record.Doc).Reset(v) != nil {
				continue // taken as it is
			}
			other := jsontext.Value(slices.Clone(v))
			if err := other.Indent(); err != nil {
				t.Fatalf("indent %q: %v", v, err)
			}
			if got := string(c.value(nil, other)); got != want {
				t.Fatalf("loose %v: with other white space %q becomes %q, not %q", loose, v, got, want)
			}
		}
	})
}
