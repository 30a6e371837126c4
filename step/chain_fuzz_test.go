package step

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"exactly/record"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzChain: whatever the bytes, a chain gives valid objects or an *Error with
// a code, never both, leaves its input alone, and does the same twice.
func FuzzChain(f *testing.F) {
	p := mustCompile(f, []Spec{
		{Drop: `has(drop) && drop == true`},
		{Set: []Assign{
			{"a", "value.?a.orValue(0) == 0 ? 1.50 : a"},
			{"n.sum", "has(x) && has(y) ? optional.of(x + y * 2) : optional.none()"},
			{"at", "epoch.time"},
			{"all", "value"},
		}},
		{Unset: []string{"x", "o.p"}},
		{FlatMap: `has(items) ? items : [{"v": value}]`},
		{Set: []Assign{{"k", `[key, headers, size(value)]`}}},
	}, Options{})
	one, two := p.NewChain(), p.NewChain()
	f.Add([]byte("k"), payment().Value)
	f.Add([]byte{0xff}, []byte(`{"x":1.10,"y":9223372036854775807,"a":0,"o":{"p":1}}`))
	f.Add([]byte(nil), []byte(`{"items":[{"q":[1e5]},{}],"drop":false}`))
	f.Add([]byte(""), []byte(`{"x":"a","y":1e400}`))
	f.Add([]byte("k"), []byte(`[`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r := record.Record{Key: key, Value: value, Headers: []record.Header{{Key: "h", Value: key}}}
		before := bytes.Clone(value)
		got, err := one.Apply(nil, r, testEpoch)
		again, err2 := two.Apply(nil, r, testEpoch)
		if !bytes.Equal(value, before) {
			t.Fatalf("the input was changed from %q to %q", before, value)
		}
		if (err == nil) != (err2 == nil) || len(got) != len(again) {
			t.Fatalf("two runs differ: %v, %v", err, err2)
		}
		if err != nil {
			var se *Error
			if strings.Contains(err.Error(), "internal error") {
				t.Fatalf("a panic that cel-go recovered: %v", err)
			}
			if !errors.As(err, &se) || se.Code == "" || se.Step == "" || len(got) != 0 {
				t.Fatalf("error %#v with %d results", err, len(got))
			}
			return
		}
		for i, g := range got {
			if !bytes.Equal(g.Value, again[i].Value) || g.Sub != int32(i) {
				t.Fatalf("two runs differ: %s, %s", g.Value, again[i].Value)
			}
			if value != nil && (!jsontext.Value(g.Value).IsValid() || jsontext.Value(g.Value).Kind() != '{') {
				t.Fatalf("result %q is not a valid object", g.Value)
			}
		}
	})
}
