package cel

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"exactly/record"
)

const testValue = `{"payment_id":"p-1","amount_cents":1000,"a":0.1,"b":0.2,"price":1.10,"big":9007199254740993,` +
	`"max":9223372036854775807,"huge":18446744073709551615,"toobig":18446744073709551616,"type":"x","exp":1e3,"five":5.0,` +
	`"items":[{"q":1.10},{"q":2}],"m":{"z":1,"a":2},"s":"o\u006b","t":"2026-01-02T03:04:05.678Z","n":null,"yes":true,"odd-name":1,"key":"field"}`

func testVars() *Vars {
	v := &Vars{}
	v.Reset(&record.Record{
		Key: []byte("k1"), Value: []byte(testValue),
		Headers: []record.Header{{Key: "h", Value: []byte("1")}, {Key: "bin", Value: []byte{0xff}}, {Key: "h", Value: []byte("2")}, {Key: "nil"}},
		Source:  record.Position{Topic: "in", Partition: 3, Offset: 42, Timestamp: 1767225600123},
	})
	v.SetEpoch(Epoch{Number: 7, Attempt: 2, Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)})
	return v
}

func mustEnv(t testing.TB, o Options) *Env {
	t.Helper()
	env, err := NewEnv(o)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func TestEval(t *testing.T) {
	t.Parallel()
	env := mustEnv(t, Options{Epoch: true})
	tests := []struct{ src, want string }{
		// integers
		{`amount_cents * 29 / 1000 + 30`, `59`},
		{`big + 1`, `9007199254740994`},
		{`max`, `9223372036854775807`},
		{`huge`, `18446744073709551615`},
		{`huge - 1`, `18446744073709551614`},
		{`huge - max`, `9223372036854775808`},
		{`huge % 10`, `5`},
		{`-9223372036854775808`, `-9223372036854775808`},
		{`(-9223372036854775807 - 1) % -1`, `0`},
		{`-7 / 2`, `-3`},
		{`-7 % 2`, `-1`},
		{`7u - 2u`, `5`},
		{`-amount_cents`, `-1000`},
		// decimals
		{`a + b`, `0.3`},
		{`0.1 + 0.2`, `0.3`},
		{`0.1 + 0.2 == 0.3`, `true`},
		{`price`, `1.10`},
		{`price * 3`, `3.30`},
		{`3 * price`, `3.30`},
		{`price - 1`, `0.10`},
		{`-price`, `-1.10`},
		{`amount_cents * 1.19`, `1190.00`},
		{`max * 1.0`, `9223372036854775807.0`},
		{`huge + 0.5`, `18446744073709551615.5`},
		{`decimal(1) / 3`, `0.3333333333333333333333333333333333`},
		{`decimal(2) / 3`, `0.6666666666666666666666666666666667`},
		{`7.5 % 2`, `1.5`},
		{`exp`, `1000`},
		{`1.5e3`, `1500`},
		{`1e30`, `1E+30`},
		{`decimal("1.10")`, `1.10`},
		{`decimal(5)`, `5`},
		{`decimal(0.5)`, `0.5`},
		{`decimal(double("0.1"))`, `0.1`},
		{`string(price)`, `"1.10"`},
		{`int(five)`, `5`},
		{`uint(5.0)`, `5`},
		{`double(price)`, `1.1`},
		{`round(2.345, 2)`, `2.34`},
		{`round(2.355, 2)`, `2.36`},
		{`round(2.345, 2, "half_up")`, `2.35`},
		{`round(-2.345, 2, "floor")`, `-2.35`},
		{`round(2.341, 2, "up")`, `2.35`},
		{`round(1234, -2)`, `1200`},
		{`decimal(5) / 2`, `2.5`},
		{`price / 1`, `1.10`},
		{`decimal(100) / 1`, `100`},
		{`decimal(100) / 5`, `20`},
		{`1.00 / 0.5`, `2.0`},
		{`"a-b".replace("-", "+")`, `"a+b"`},
		{`"aaa".replace("a", "bc", 2)`, `"bcbca"`},
		{`["a", s].join("/") + [s].join()`, `"a/okok"`},
		{`s.matches("^o[k]$")`, `true`},
		{`int(round(2.5, 0))`, `2`},
		{`round(amount_cents * 0.029, 0, "half_up")`, `29`},
		// comparisons between kinds of numbers
		{`five == 5`, `true`},
		{`5 == five`, `true`},
		{`5 != five`, `false`},
		{`1 == 1.0`, `true`},
		{`1.10 == 1.1`, `true`},
		{`price > 1`, `true`},
		{`1 < price`, `true`},
		{`huge > max`, `true`},
		{`price <= 1.10`, `true`},
		{`five in [4, 5]`, `true`},
		{`5 in [4.0, 5.0]`, `true`},
		{`double(1) < double(2)`, `true`},
		// doubles
		{`double(0.1) + double(0.2)`, `0.30000000000000004`},
		{`double(1e21)`, `1e+21`},
		// strings, bytes, times
		{`s == "ok"`, `true`},
		{`s in ["ok", "x"]`, `true`},
		{`"no" in ["ok", "x"]`, `false`},
		{`type == "x"`, `true`},
		{`s + "-" + payment_id`, `"ok-p-1"`},
		{`bytes("ab\u00e9")`, `"YWLDqQ=="`},
		{`b"\xff\x00"`, `"/wA="`},
		{`base64.encode(b"abc")`, `"YWJj"`},
		{`" X ".trim().lowerAscii()`, `"x"`},
		{`timestamp(t)`, `"2026-01-02T03:04:05.678Z"`},
		{`timestamp("2026-01-02T03:04:05+02:00")`, `"2026-01-02T01:04:05.000Z"`},
		{`timestamp(t) + duration("1h")`, `"2026-01-02T04:04:05.678Z"`},
		{`timestamp(t) - timestamp("2026-01-02T03:04:04Z")`, `"1.678s"`},
		{`timestamp(t) > timestamp("2025-01-01T00:00:00Z")`, `true`},
		// fields that may be missing
		{`has(nope)`, `false`},
		{`has(s)`, `true`},
		{`has(value.s)`, `true`},
		{`has(n)`, `true`},
		{`has(m.z) && !has(m.y)`, `true`},
		{`value.?nope.orValue("d")`, `"d"`},
		{`value.?m.?z.orValue(0)`, `1`},
		{`value[?"nope"].hasValue()`, `false`},
		{`n == null`, `true`},
		{`yes || nope`, `true`},
		// the other variables
		{`key`, `"k1"`},
		{`value.key`, `"field"`},
		{`value["odd-name"]`, `1`},
		{`"s" in value`, `true`},
		{`size(value)`, `20`},
		{`headers.h`, `"2"`},
		{`headers.bin`, `"/w=="`},
		{`headers["nil"] == null`, `true`},
		{`headers`, `{"h":"2","bin":"/w==","nil":null}`},
		{`source.topic + string(source.partition) + string(source.offset)`, `"in342"`},
		{`source.timestamp`, `"2026-01-01T00:00:00.123Z"`},
		{`[epoch.number, epoch.attempt]`, `[7,2]`},
		{`epoch.time`, `"2026-01-02T03:04:05.006Z"`},
		// lists and maps, in a fixed order
		{`items`, `[{"q":1.10},{"q":2}]`},
		{`m`, `{"z":1,"a":2}`},
		{`items[0].q + items[1].q`, `3.10`},
		{`items.map(i, i.q)`, `[1.10,2]`},
		{`items.filter(i, i.q > 1.5)`, `[{"q":2}]`},
		{`items.exists(i, i.q == 2)`, `true`},
		{`items + [{"q": 3}]`, `[{"q":1.10},{"q":2},{"q":3}]`},
		{`items.all(source, has(source.q))`, `true`},
		{`m.map(k, k)`, `["z","a"]`},
		{`m.transformList(k, v, k + string(v))`, `["z1","a2"]`},
		{`{"z": 1, "a": 2, "m": 3}.map(k, k)`, `["a","m","z"]`},
		{`m.transformMap(k, v, v + 1).map(k, k)`, `["a","z"]`},
		{`{"z": price, "a": [s, n], 1: true}`, `{"1":true,"a":["ok",null],"z":1.10}`},
		{`m == {"a": 2, "z": 1}`, `true`},
		{`{"a": 2.0, "z": 1} == m`, `true`},
		{`cel.bind(x, s + s, x + x)`, `"okokokok"`},
		{`amount_cents >= 100000 ? "review" : "ok"`, `"ok"`},
		{`optional.of(price)`, `1.10`},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			x, err := env.Compile(tt.src, TypeAny)
			if err != nil {
				t.Fatal(err)
			}
			v := testVars()
			for range 2 {
				got, ok, err := x.AppendJSON(nil, v)
				if err != nil || !ok || string(got) != tt.want {
					t.Fatalf("got %s, %v, %v, want %s", got, ok, err, tt.want)
				}
			}
		})
	}
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	env := mustEnv(t, Options{})
	tests := []struct{ src, code string }{
		{`toobig`, CodeIntegerRange},
		{`max + 1`, CodeIntegerRange},
		{`max * -2`, CodeIntegerRange},
		{`-max - 2`, CodeIntegerRange},
		{`(-max - 1) / -1`, CodeIntegerRange},
		{`-(-max - 1)`, CodeIntegerRange},
		{`huge * huge`, CodeIntegerRange},
		{`0u - 1u`, CodeIntegerRange},
		{`int(huge * 1.0)`, CodeIntegerRange},
		{`uint(-price * 10)`, CodeIntegerRange},
		{`int(price)`, CodeWrongType},
		{`amount_cents + s`, CodeWrongType},
		{`s + 1`, CodeWrongType},
		{`s < 1`, CodeWrongType},
		{`-s`, CodeWrongType},
		{`price * double(1.5)`, CodeWrongType},
		{`price < double(1.5)`, CodeWrongType},
		{`!a`, CodeWrongType},
		{`a && yes`, CodeWrongType},
		{`s ? 1 : 2`, CodeWrongType},
		{`1 in s`, CodeWrongType},
		{`type(s)`, CodeWrongType},
		{`nope`, CodeExpression},
		{`nope == 1`, CodeExpression},
		{`yes && nope`, CodeExpression},
		{`m.nope`, CodeExpression},
		{`items[2]`, CodeExpression},
		{`1 / (amount_cents - 1000)`, CodeExpression},
		{`price / (amount_cents - 1000)`, CodeExpression},
		{`huge % (amount_cents - 1000)`, CodeExpression},
		{`decimal(s)`, CodeExpression},
		{`round(price, 2, s)`, CodeExpression},
		{`round(price, 5000)`, CodeExpression},
		{`exp * decimal("1e999") * decimal("1e999")`, CodeExpression},
		{`double("NaN")`, CodeExpression},
		{`{1: s, "1": s}`, CodeExpression},
		{`timestamp(s)`, CodeExpression},
		{`long.replace("0", long)`, CodeExpression},
		{`cel.bind(a, long + long, cel.bind(b, a + a + a + a, cel.bind(c, b + b + b + b, c + c + c + c)))`, CodeExpression},
		{`[1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, long + long).join()`, CodeExpression},
		{`[s, 1].join()`, CodeWrongType},
		{`items.map(i, items.map(j, items.map(k, i.q + j.q + k.nope)))`, CodeExpression},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			x, err := env.Compile(tt.src, TypeAny)
			if err != nil {
				t.Fatal(err)
			}
			v := testVars()
			if strings.Contains(tt.src, "long") {
				v.Reset(&record.Record{Value: []byte(`{"long":"` + strings.Repeat("0", 1<<20) + `"}`)})
			}
			got, ok, err := x.AppendJSON(nil, v)
			var ee *EvalError
			if !errors.As(err, &ee) || ee.Code != tt.code || ok || len(got) != 0 {
				t.Errorf("got %s, %v, %v (%+v), want code %s", got, ok, err, ee, tt.code)
			}
		})
	}
}

func TestCostLimit(t *testing.T) {
	t.Parallel()
	env := mustEnv(t, Options{CostLimit: 10_000})
	for _, src := range []string{
		`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, a + b + c + d + amount_cents > 0))))`,
		`[1,2,3,4,5,6,7,8,9].map(i, text + text).size() > 0`,
	} {
		x, err := env.Compile(src, TypeAny)
		if err != nil {
			t.Fatal(err)
		}
		var v Vars
		v.Reset(&record.Record{Value: fmt.Appendf(nil, `{"amount_cents":1,"text":"%0100000d"}`, 7)})
		_, _, err = x.Any(&v)
		var ee *EvalError
		if !errors.As(err, &ee) || ee.Code != CodeExpression {
			t.Errorf("%s: got %v, want an error", src, err)
		}
	}
}

func TestTypedResults(t *testing.T) {
	t.Parallel()
	env := mustEnv(t, Options{})
	eval := func(src string, want Type) (string, error) {
		x, err := env.Compile(src, want)
		if err != nil {
			return "", err
		}
		v := testVars()
		switch want {
		case TypeBool:
			b, err := x.Bool(v)
			return fmt.Sprint(b), err
		case TypeString:
			return x.StringValue(v)
		case TypeInt:
			n, err := x.Int(v)
			return fmt.Sprint(n), err
		case TypeBytes:
			b, err := x.Bytes(v)
			return string(b), err
		default:
			l, err := x.List(v)
			return fmt.Sprintf("%s", l), err
		}
	}
	tests := []struct {
		src  string
		typ  Type
		want string
		code string // of the error; "compile" for one of Compile
	}{
		{`yes`, TypeBool, "true", ""},
		{`s`, TypeBool, "", CodeWrongType},
		{`s`, TypeString, "ok", ""},
		{`value.?s`, TypeString, "ok", ""},
		{`value.?nope`, TypeString, "", CodeWrongType},
		{`n`, TypeString, "", CodeWrongType},
		{`amount_cents`, TypeString, "", CodeWrongType},
		{`amount_cents`, TypeInt, "1000", ""},
		{`7u`, TypeInt, "7", ""},
		{`huge`, TypeInt, "", CodeIntegerRange},
		{`price`, TypeInt, "", CodeWrongType},
		{`key`, TypeBytes, "k1", ""},
		{`b"\x00"`, TypeBytes, "\x00", ""},
		{`m`, TypeBytes, "", CodeWrongType},
		{`items`, TypeList, `[{"q":1.10} {"q":2}]`, ""},
		{`[m, {"b": price}]`, TypeList, `[{"z":1,"a":2} {"b":1.10}]`, ""},
		{`m`, TypeList, "", CodeWrongType},
		{`[double("NaN")]`, TypeList, "", CodeExpression},
		{`nope`, TypeList, "", CodeExpression},
		{`1`, TypeBool, "", "compile"},
		{`"a"`, TypeInt, "", "compile"},
		{`1.5`, TypeInt, "", "compile"},
		{`1`, TypeString, "", "compile"},
		{`null`, TypeString, "", "compile"},
		{`duration("1s")`, TypeInt, "", "compile"},
		{`"a"`, TypeList, "", "compile"},
	}
	for _, tt := range tests {
		got, err := eval(tt.src, tt.typ)
		code := ""
		var (
			ee *EvalError
			ce *CompileError
		)
		switch {
		case errors.As(err, &ee):
			code, got = ee.Code, ""
		case errors.As(err, &ce):
			code = "compile"
		}
		if got != tt.want || code != tt.code {
			t.Errorf("%s as %s: got %q, %v, want %q, %q", tt.src, tt.typ, got, err, tt.want, tt.code)
		}
	}
}

func TestDeclaredFields(t *testing.T) {
	t.Parallel()
	env := mustEnv(t, Options{Fields: map[string]Type{
		"i": TypeInt, "u": TypeUint, "d": TypeDecimal, "s": TypeString, "yes": TypeBool, "raw": TypeBytes,
		"at": TypeTime, "any": TypeAny, "l": TypeList, "m": TypeMap, "int": TypeInt,
	}})
	value := `{"i":-1,"u":1,"d":5,"s":"x","yes":true,"raw":"AP8=","at":"2026-01-02T03:04:05.1+01:00","any":[1],"l":[1,2],"m":{"a":1},"int":8}`
	for src, want := range map[string]string{
		`i + 1`:                 `0`,
		`u`:                     `1`,
		`d / 2`:                 `2.5`,
		`raw == b"\x00\xff"`:    `true`,
		`raw`:                   `"AP8="`,
		`at + duration("1s")`:   `"2026-01-02T02:04:06.100Z"`,
		`any[0] + 1`:            `2`,
		`l.map(x, x * 2)`:       `[2,4]`,
		`m.a`:                   `1`,
		`value.d / 2`:           `2.5`,
		`int + 1`:               `9`,
		`s + (yes ? "y" : "n")`: `"xy"`,
		`d == i`:                `false`,
		`value.at == at`:        `true`,
		`int(at.getFullYear()) == 2026 && u < 2u`: `true`,
	} {
		x, err := env.Compile(src, TypeAny)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		var v Vars
		v.Reset(&record.Record{Value: []byte(value)})
		got, _, err := x.AppendJSON(nil, &v)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", src, got, err, want)
		}
	}
}

// TestVarsShared: one Vars serves expressions of different environments, sees
// edits of its document and forgets the last record.
func TestVarsShared(t *testing.T) {
	t.Parallel()
	plain, err := mustEnv(t, Options{}).Compile("x", TypeAny)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := mustEnv(t, Options{Fields: map[string]Type{"x": TypeDecimal}}).Compile("x", TypeAny)
	if err != nil {
		t.Fatal(err)
	}
	var v Vars
	check := func(x *Expr, want Type, json string) {
		t.Helper()
		res, _, err := x.Any(&v)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := AppendJSON(nil, res)
		if typeName(res) != string(want) || string(got) != json {
			t.Errorf("got %s %s, want %s %s", typeName(res), got, want, json)
		}
	}
	v.Reset(&record.Record{Value: []byte(`{"x":1}`)})
	check(plain, TypeInt, "1")
	check(typed, TypeDecimal, "1")
	check(plain, TypeInt, "1")
	doc, err := v.Doc()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Set(record.Path{"x"}, []byte("2")); err != nil {
		t.Fatal(err)
	}
	check(plain, TypeInt, "2")
	v.Reset(&record.Record{Value: []byte(`{"x":3}`)})
	check(typed, TypeDecimal, "3")
	v.Reset(&record.Record{})
	if _, _, err := plain.Any(&v); err == nil {
		t.Error("a field of a tombstone gave no error")
	}
}

func TestExprIsConcurrent(t *testing.T) {
	t.Parallel()
	x, err := mustEnv(t, Options{Epoch: true}).Compile(`items.map(i, i.q * amount_cents)[0] + (has(nope) ? 1 : 2) + max`, TypeAny)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			v := testVars()
			for range 200 {
				got, _, err := x.AppendJSON(nil, v)
				if want := "9223372036854776909.00"; err != nil || string(got) != want {
					t.Errorf("got %s, %v, want %s", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestEach: expressions see an element of a list beside the record, and a field of
// the same name where there is none.
func TestEach(t *testing.T) {
	t.Parallel()
	v := testVars()
	eval := func(o Options, src string) string {
		t.Helper()
		x, err := mustEnv(t, o).Compile(src, TypeAny)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := x.AppendJSON(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	list, err := mustEnv(t, Options{}).Compile("items", TypeList)
	if err != nil {
		t.Fatal(err)
	}
	elems, err := list.List(v)
	if err != nil {
		t.Fatal(err)
	}
	for i, raw := range elems {
		v.SetItem(raw, i)
		got := eval(Options{Each: true}, `[each.item.q, each.index, amount_cents, items.map(each, each.q).size()]`)
		if want := []string{"[1.10,0,1000,2]", "[2,1,1000,2]"}[i]; got != want {
			t.Errorf("element %d: %s, want %s", i, got, want)
		}
		if got := eval(Options{Each: true}, `each.item`); got != string(raw) {
			t.Errorf("element %d: %s, want %s", i, got, raw)
		}
	}
	v.Reset(&record.Record{Value: []byte(`{"each":{"item":{"q":7}}}`)})
	if got := eval(Options{}, `each.item.q`); got != "7" {
		t.Errorf("a field named each: %s", got)
	}
}
