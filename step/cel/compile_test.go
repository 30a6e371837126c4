package cel

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	declared := map[string]Type{"amount_cents": TypeInt, "status": TypeString, "price": TypeDecimal}
	tests := []struct {
		name, src string
		opts      Options
		want      CompileError
	}{
		{"syntax", `1 +`, Options{}, CompileError{1, 4, "the expression ends too early", ""}},
		{"syntax, second line", "1 +\n  )", Options{}, CompileError{2, 3, "", ""}},
		{"reserved word", `package == 1`, Options{}, CompileError{1, 1, "reserved identifier: package", `package is a reserved word; a field of that name is value["package"]`}},
		{"function", `lowerAsci(status)`, Options{}, CompileError{1, 1, "there is no function lowerAsci", "did you mean lowerAscii?"}},
		{"method", `status.startWith("a")`, Options{}, CompileError{1, 17, "there is no function startWith", "did you mean startsWith?"}},
		{"macro", `items.exist(i, i > 0)`, Options{}, CompileError{1, 12, "there is no function exist", "did you mean exists?"}},
		{"clock", `now() > 1`, Options{}, CompileError{1, 1, "there is no function now", ""}},
		{"field", `amount_cent > 0`, Options{Fields: declared}, CompileError{1, 1, "there is no field amount_cent", "did you mean amount_cents?"}},
		{"field, letters swapped", `satus == "a"`, Options{Fields: declared}, CompileError{1, 1, "there is no field satus", "did you mean status?"}},
		{"field in the middle", "status == \"a\" &&\n  stauts == \"b\"", Options{Fields: declared}, CompileError{2, 3, "there is no field stauts", "did you mean status?"}},
		{"field by index", `value["prise"]`, Options{Fields: declared}, CompileError{1, 6, "there is no field prise", "did you mean price?"}},
		{"optional field", `value.?prise`, Options{Fields: declared}, CompileError{1, 6, "there is no field prise", "did you mean price?"}},
		{"field with no fields", `a`, Options{Fields: map[string]Type{}}, CompileError{1, 1, "there is no field a", ""}},
		{"types", `status + amount_cents`, Options{Fields: declared}, CompileError{1, 8, "found no matching overload for + applied to '(string, int)'", ""}},
		{"types: decimal and double", `price * double(1)`, Options{Fields: declared}, CompileError{1, 7, "found no matching overload for * applied to '(decimal, double)'", ""}},
		{"condition", `amount_cents && true`, Options{Fields: declared}, CompileError{1, 1, "found no matching overload for a condition applied to '(int)'", ""}},
		{"never equal", `status == 1`, Options{Fields: declared}, CompileError{1, 8, "a string never equals a int", ""}},
		{"epoch where it is not allowed", `epoch.time`, Options{}, CompileError{1, 6, "there is no epoch.time", "the epoch cannot be used here; a field of that name is value.epoch"}},
		{"epoch member", `epoch.tme`, Options{Epoch: true}, CompileError{1, 6, "there is no epoch.tme", "there are epoch.attempt, epoch.number, epoch.time; a field of that name is value.epoch"}},
		{"each where it is a field", `each.item.x`, Options{Fields: declared}, CompileError{1, 1, "there is no field each", ""}},
		{"each alone", `each`, Options{Each: true}, CompileError{1, 1, "each is not a value by itself", "there are each.index, each.item; a field of that name is value.each"}},
		{"each member", `each.itm`, Options{Each: true}, CompileError{1, 5, "there is no each.itm", "there are each.index, each.item; a field of that name is value.each"}},
		{"source alone", `source`, Options{Raw: true}, CompileError{1, 1, "source is not a value by itself", "there are source.offset, source.partition, source.timestamp, source.topic"}},
		{"raw field", `amount`, Options{Raw: true}, CompileError{1, 1, "there is no field amount: with source.format raw, only key, headers and source can be used", ""}},
		{"bad has", `has(1)`, Options{}, CompileError{1, 5, "has() takes a field, as in has(note) or has(customer.name)", ""}},
		{"message", `a.b{c: 1}`, Options{}, CompileError{1, 4, "there is no message type a.b", `a map is written {"name": value}`}},
		{"constant decimal", `1 + decimal("1.x")`, Options{}, CompileError{1, 12, `"1.x" is not a decimal number`, ""}},
		{"constant int", `int(5.5)`, Options{}, CompileError{1, 4, "5.5 is not a whole number; round(x, 0) makes it one", ""}},
		{"constant regular expression", `status.matches("(")`, Options{}, CompileError{1, 16, "", ""}},
		{"empty", "", Options{}, CompileError{1, 1, "the expression is empty", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := mustEnv(t, tt.opts).Compile(tt.src, TypeAny)
			var got *CompileError
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want %+v", err, tt.want)
			}
			if tt.want.Msg == "" { // cel-go's own words
				tt.want.Msg = got.Msg
			}
			if *got != tt.want {
				t.Errorf("got  %+v\nwant %+v", *got, tt.want)
			}
		})
	}
}

func TestExprFacts(t *testing.T) {
	t.Parallel()
	env := mustEnv(t, Options{Epoch: true})
	tests := []struct {
		src    string
		fields []string
		whole  bool
		epoch  bool
		typ    Type
	}{
		{`1 + 2`, nil, false, false, TypeInt},
		{`b + a + b`, []string{"a", "b"}, false, false, TypeAny},
		{`value.x == value["y"] && value.?z.hasValue()`, []string{"x", "y", "z"}, false, false, TypeBool},
		{`has(note)`, []string{"note"}, false, false, TypeBool},
		{`has(a.b)`, []string{"a"}, false, false, TypeBool},
		{`value`, nil, true, false, TypeMap},
		{`value[a]`, []string{"a"}, true, false, TypeAny},
		{`items.map(i, i.q + x)`, []string{"items", "x"}, false, false, TypeList},
		{`items.map(value, value.q)`, []string{"items"}, false, false, TypeList},
		{`epoch.time`, nil, false, true, TypeTime},
		{`[1].map(i, epoch.number)`, nil, false, true, TypeList},
		{`key + source.topic`, nil, false, false, TypeString},
		{`cel.bind(x, a, x + y)`, []string{"a", "y"}, false, false, TypeAny},
		{`base64.encode(b"a")`, nil, false, false, TypeString},
		{`0.5`, nil, false, false, TypeDecimal},
	}
	for _, tt := range tests {
		x, err := env.Compile(tt.src, TypeAny)
		if err != nil {
			t.Errorf("%s: %v", tt.src, err)
			continue
		}
		if !slices.Equal(x.Fields(), tt.fields) || x.UsesValue() != tt.whole || x.UsesEpoch() != tt.epoch || x.Type() != tt.typ {
			t.Errorf("%s: fields %q, value %v, epoch %v, type %s; want %q, %v, %v, %s", tt.src,
				x.Fields(), x.UsesValue(), x.UsesEpoch(), x.Type(), tt.fields, tt.whole, tt.epoch, tt.typ)
		}
		if x.String() != tt.src {
			t.Errorf("String gives %q, want %q", x, tt.src)
		}
	}
}

func TestParseType(t *testing.T) {
	t.Parallel()
	for name := range celTypes {
		if got, err := ParseType(string(name)); got != name || err != nil {
			t.Errorf("ParseType(%s) = %s, %v", name, got, err)
		}
	}
	if _, err := ParseType("strng"); err == nil || err.Error() != `unknown type "strng"; did you mean string?` {
		t.Errorf("got %v", err)
	}
	if _, err := NewEnv(Options{Fields: map[string]Type{"a": "nope"}}); err == nil {
		t.Error("NewEnv with an unknown type gave no error")
	}
}

// FuzzCompile: whatever the text, Compile gives an expression that runs without
// a panic, or a *CompileError with a place.
func FuzzCompile(f *testing.F) {
	env := mustEnv(f, Options{Epoch: true, CostLimit: 10_000})
	for _, s := range []string{
		`amount_cents * 29 / 1000 + 30`, `has(a) ? 1.10 : -2e3`, `items.map(i, i.q).filter(x, x > 0)[0]`, `value.?a["b"]`,
		`{"a": [1, b"x", null]}`, `epoch.time - timestamp("2020-01-01T00:00:00Z")`, `"é" + `, "1\n+\n(", `.a.b.c()`, `cel.bind(x, x, x)`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		x, err := env.Compile(src, TypeAny)
		if err != nil {
			var ce *CompileError
			if !errors.As(err, &ce) || ce.Line < 1 || ce.Col < 1 || ce.Msg == "" {
				t.Fatalf("%q: %#v", src, err)
			}
			return
		}
		if _, _, err = x.AppendJSON(nil, testVars()); err != nil && strings.Contains(err.Error(), "internal error") {
			t.Fatalf("%q panicked: %v", src, err) // cel-go recovers
		}
	})
}
