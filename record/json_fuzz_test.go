package record

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzDoc: what Reset takes is valid JSON, edits keep it valid, the edited
// field has the new value, every other field keeps its bytes and its order, and
// the input is never written to.
func FuzzDoc(f *testing.F) {
	f.Add([]byte(`{"payment_id":"p-1","amount_cents":1000,"merchant_id":"merchant-003"}`), "amount_cents", "status", "x")
	f.Add([]byte("{ \"a\" : [1, {\"b\":\"}\"}] ,\n\t\"\\u0063\":{\"d\":1.0e5} }"), "c.d", "a", "a.b")
	f.Add([]byte(`{"a":1,"a":2}`), "a", "b", "c")
	f.Add([]byte(`{}`), "a.b.c", "a.b.d", "a")
	f.Add([]byte(`[]`), "a", "a", "a")
	f.Fuzz(func(t *testing.T, raw []byte, set, add, remove string) {
		before := bytes.Clone(raw)
		var d Doc
		if err := d.Reset(raw); err != nil {
			if jsontext.Value(raw).IsValid() && jsontext.Value(raw).Kind() == '{' {
				t.Fatalf("refused a valid object: %v", err)
			}
			return
		}
		if !jsontext.Value(raw).IsValid() {
			t.Fatalf("took what is not valid: %q", raw)
		}
		touched := map[string]bool{}
		for i, s := range []string{set, add, remove} {
			p, err := ParsePath(s)
			if err != nil {
				continue
			}
			touched[p[0]] = true
			if i == 2 {
				d.Remove(p)
				if _, ok := d.Get(p...); ok {
					t.Fatalf("%s is still there", p)
				}
				continue
			}
			value := []byte(`{"n":1.10}`)
			if err := d.Set(p, value); err != nil {
				continue
			}
			if got, _ := d.Get(p...); !bytes.Equal(got, value) {
				t.Fatalf("%s is %s after Set", p, got)
			}
		}
		checkUntouched(t, before, d.Append(nil), touched)
		if !bytes.Equal(raw, before) {
			t.Fatalf("the input was changed: %q to %q", before, raw)
		}
	})
}

func checkUntouched(t *testing.T, before, after []byte, touched map[string]bool) {
	t.Helper()
	if !jsontext.Value(after).IsValid() {
		t.Fatalf("the result is not valid: %q", after)
	}
	list := func(raw []byte) string {
		var b strings.Builder
		for name, v := range Members(raw) {
			if !utf8.ValidString(name) {
				t.Fatalf("name %q", name)
			}
			if !touched[name] {
				b.WriteString(name)
				b.WriteByte(0)
				b.Write(v)
				b.WriteByte(0)
			}
		}
		return b.String()
	}
	if was, is := list(before), list(after); was != is {
		t.Fatalf("untouched fields changed:\n%q\n%q", was, is)
	}
}

// FuzzQuick: what quick takes is what the strict decoder takes, and it finds
// the same members.
func FuzzQuick(f *testing.F) {
	for _, s := range []string{
		`{"payment_id":"p-1","amount_cents":1000,"at":"2026-01-01T00:00:00.000Z"}`,
		" {\t\"a\" : -0.5e+10 ,\r\n\"b\":true , \"c\":null,\"d\":false}\n",
		`{"a":1,"a":2}`, `{"a":01}`, `{"a":1.}`, `{"a":1e}`, `{"a":-}`, `{"a":tru}`, `{"a":1,}`, `{"a":1}}`, `{"a":1} x`, `{"a" 1}`,
		`{"é":"ü"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\x01\"}", `{"a":"\n"}`, `{"\u0061":1,"a":2}`, `{"a":{"b":1}}`, `{"a":"b`, `{"a":`, `{"a"`, `{`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var quick, strict Doc
		if !quick.quick(raw) {
			return
		}
		if err := strict.validate(raw); err != nil {
			t.Fatalf("took %q: %v", raw, err)
		}
		strict.index(raw)
		if quick.body != strict.body || quick.end != strict.end || !reflect.DeepEqual(quick.members, strict.members) {
			t.Fatalf("%q: got %+v, want %+v", raw, quick, strict)
		}
	})
}

func TestQuick(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"payment_id":"p-1","amount_cents":1000,"ok":true,"none":null,"é":-1.5e3}`: true,
		" { \"a\" : 1 , \"b\" : 2 } ": true,
		`{"a":1,"a":2}`:               false,
		`{"a":{}}`:                    false,
		`{"a":"\n"}`:                  false,
	} {
		var d Doc
		if got := d.quick([]byte(raw)); got != want {
			t.Errorf("%s: %t", raw, got)
		}
	}
}

func BenchmarkDoc(b *testing.B) {
	raw := []byte(`{"payment_id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","amount_cents":1000,"merchant_id":"merchant-003","event_time":"2026-01-01T00:00:00.000Z"}`)
	fee, status := []byte("59"), []byte(`"ok"`)
	var d Doc
	var out []byte
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Reset(raw); err != nil {
			b.Fatal(err)
		}
		_ = d.Set(Path{"fee_cents"}, fee)
		_ = d.Set(Path{"status"}, status)
		out = d.Append(out[:0])
	}
}
