package cel

import (
	"testing"

	"exactly/record"
)

func TestText(t *testing.T) {
	t.Parallel()
	const doc = `{"id":"p-1","empty":"","esc":"a\n","n":7,"none":null}`
	tests := []struct {
		src    string
		fields map[string]Type
		want   string
		ok     bool
	}{
		{src: "id", want: "p-1", ok: true},
		{src: "empty", ok: true},
		{src: "id", fields: map[string]Type{"id": TypeString}, want: "p-1", ok: true},
		{src: "id", fields: map[string]Type{"id": TypeBytes}},
		{src: "id", fields: map[string]Type{"id": TypeTime}},
		{src: "esc"},
		{src: "n"},
		{src: "none"},
		{src: "missing"},
		{src: "key"},
		{src: "value.id"},
		{src: `id + ""`},
		{src: `"id"`},
	}
	for _, tt := range tests {
		env, err := NewEnv(Options{Fields: tt.fields})
		if err != nil {
			t.Fatal(err)
		}
		x, err := env.Compile(tt.src, TypeAny)
		if err != nil {
			t.Fatalf("%s: %v", tt.src, err)
		}
		for _, checked := range []bool{false, true} {
			x.checked = checked
			var v Vars
			v.Reset(&record.Record{Key: []byte("k"), Value: []byte(doc)})
			got, ok := x.Text(&v)
			if string(got) != tt.want || ok != tt.ok || ok && got == nil {
				t.Errorf("%s with fields %v, checked %t: %q, %t; want %q, %t", tt.src, tt.fields, checked, got, ok, tt.want, tt.ok)
			}
			v.Reset(&record.Record{})
			if got, ok := x.Text(&v); ok {
				t.Errorf("%s of a tombstone, checked %t: %q", tt.src, checked, got)
			}
		}
	}
}

// TestFieldsAreHidden: what a comprehension names hides a field of that name,
// and a field is read again behind it.
func TestFieldsAreHidden(t *testing.T) {
	t.Parallel()
	env, err := NewEnv(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		`[1, 2].map(a, a)`:                `[1,2]`,
		`[1, 2].map(x, a)`:                `["f","f"]`,
		`string([1].map(a, a)[0]) + a`:    `"1f"`,
		`o.a + a`:                         `"if"`,
		`[o].map(a, a.a + string(n))`:     `["i3"]`,
		`n > 2 && has(o.a) ? o : {"a":a}`: `{"a":"i"}`,
	} {
		x, err := env.Compile(src, TypeAny)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		var v Vars
		v.Reset(&record.Record{Value: []byte(`{"a":"f","o":{"a":"i"},"n":3}`)})
		got, _, err := x.AppendJSON(nil, &v)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", src, got, err, want)
		}
	}
}
