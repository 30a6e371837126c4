package parquet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/encode"
	"exactly/sink/object/parquet"
)

// allTypes declares one column of each type.
var allTypes = map[string]string{
	"i": "int64", "s": "string", "d": "double", "b": "bool", "y": "bytes", "t": "timestamp_ms",
	"d4": "decimal(4,2)", "d18": "decimal(18,6)", "d38": "decimal(38,10)", "j": "json",
}

func format(t testing.TB, types map[string]string, source bool, z parquet.Compression) *parquet.Format {
	t.Helper()
	cols := parquet.Columns{}
	for name, s := range types {
		typ, err := parquet.ParseType(s)
		if err != nil {
			t.Fatal(err)
		}
		if typ.String() != s {
			t.Errorf("type %q is written as %q", s, typ)
		}
		cols[name] = typ
	}
	f, err := parquet.NewFormat(cols, source, z)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func rec(value string, offset int64) *record.Record {
	return &record.Record{
		Key: []byte{'k', 0xff}, Value: []byte(value), Timestamp: 1_700_000_000_123,
		Source: record.Position{Topic: "päy", Partition: 3, Offset: offset, LeaderEpoch: -1},
	}
}

// memory is a store.Reader over bytes.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

var meta = encode.Meta{
	Incarnation: "00c0ffee00c0ffee", Pipeline: "pay", Sink: "lake", Generation: 2, Task: 7,
	From: sink.Pos{Epoch: 1, Index: 2}, Through: sink.Pos{Epoch: 3, Index: 4},
}

// write makes a file with a row group for every two rows.
func write(t testing.TB, f *parquet.Format, rows ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	e := f.New(&buf)
	for i, v := range rows {
		if err := e.Add(rec(v, int64(i))); err != nil {
			t.Fatalf("add %s: %v", v, err)
		}
		if i%2 == 0 {
			continue
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(meta); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func read(t testing.TB, b []byte) []encode.Row {
	t.Helper()
	var rows []encode.Row
	for row, err := range parquet.Reader()(t.Context(), memory{bytes.NewReader(b)}) {
		if err != nil {
			t.Fatal(err)
		}
		row.Value = bytes.Clone(row.Value)
		if row.Source != nil {
			pos := *row.Source
			row.Source = &pos
		}
		rows = append(rows, row)
	}
	return rows
}

const nulls = `{"b":null,"d":null,"d18":null,"d38":null,"d4":null,"i":null,"j":null,"s":null,"t":null,"y":null}`

var columnTests = []struct{ in, want string }{
	{
		`{"i":-9223372036854775808,"s":"ü\"\n","d":1.5e300,"b":true,"y":"AAH/","t":1700000000123,` +
			`"d4":-99.99,"d18":123456789012.345678,"d38":-1234567890123456789012345678.0123456789,"j":{"a":[1,2.50]},"other":1}`,
		`{"b":true,"d":1.5e+300,"d18":123456789012.345678,"d38":-1234567890123456789012345678.0123456789,"d4":-99.99,` +
			`"i":-9223372036854775808,"j":{"a":[1,2.50]},"s":"ü\"\n","t":1700000000123,"y":"AAH/"}`,
	},
	{`{}`, nulls},
	{`{"i":null,"j":null,"s":null,"d4":null}`, nulls},
	{
		`{"b":false,"d":0,"d4":"1.5","d18":1e3,"d38":0.0,"i":0,"j":"x","s":"","t":"2023-11-14T23:13:20.123+01:00","y":""}`,
		`{"b":false,"d":0,"d18":1000.000000,"d38":0.0000000000,"d4":1.50,"i":0,"j":"x","s":"","t":1700000000123,"y":""}`,
	},
	{
		`{"d4":-0.01,"d18":-1,"d38":-0.0000000001,"d":-1,"b":null,"i":9223372036854775807}`,
		`{"b":null,"d":-1,"d18":-1.000000,"d38":-0.0000000001,"d4":-0.01,"i":9223372036854775807,"j":null,"s":null,"t":null,"y":null}`,
	},
}

func TestColumns(t *testing.T) {
	t.Parallel()
	var in []string
	for _, tt := range columnTests {
		in = append(in, tt.in)
	}
	for _, z := range []parquet.Compression{parquet.None, parquet.Snappy, parquet.Zstd} {
		for _, source := range []bool{false, true} {
			t.Run(fmt.Sprint(z, source), func(t *testing.T) {
				t.Parallel()
				rows := read(t, write(t, format(t, allTypes, source, z), in...))
				if len(rows) != len(columnTests) {
					t.Fatalf("got %d rows, want %d", len(rows), len(columnTests))
				}
				for i, tt := range columnTests {
					if got := string(rows[i].Value); got != tt.want {
						t.Errorf("%s\n got %s\nwant %s", tt.in, got, tt.want)
					}
					if rows[i].Index != int64(i) {
						t.Errorf("row %d has index %d", i, rows[i].Index)
					}
					if got := rows[i].Source; source != (got != nil) || got != nil && *got != position(i) {
						t.Errorf("row %d: source %v", i, got)
					}
				}
			})
		}
	}
}

// position is what a file keeps of the source of row i.
func position(i int) record.Position { return rec("", int64(i)).Source }

// TestPhysical looks at the file as any other reader does.
func TestPhysical(t *testing.T) {
	t.Parallel()
	b := write(t, format(t, allTypes, true, parquet.Zstd), `{"i":1}`, `{"s":"x"}`, `{"d4":1}`)
	f, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"b": "BOOLEAN", "d": "DOUBLE", "i": "INT(64,true)", "s": "STRING", "y": "BYTE_ARRAY", "j": "JSON",
		"t":  "TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)",
		"d4": "DECIMAL(4,2)", "d18": "DECIMAL(18,6)", "d38": "DECIMAL(38,10)",
		"source_topic": "STRING", "source_partition": "INT(32,true)", "source_offset": "INT(64,true)",
	}
	for _, c := range f.Root().Columns() {
		if got := c.Type().String(); got != want[c.Name()] {
			t.Errorf("column %s is %s, want %s", c.Name(), got, want[c.Name()])
		}
		delete(want, c.Name())
	}
	if len(want) > 0 {
		t.Errorf("columns missing: %v", want)
	}
	for k, v := range map[string]string{
		"incarnation": "00c0ffee00c0ffee", "pipeline": "pay", "sink": "lake", "generation": "2", "task": "7",
		"from": "1/2", "through": "3/4", "layout": "columns", "source_columns": "true",
	} {
		if got, _ := f.Lookup("exactly." + k); got != v {
			t.Errorf("metadata exactly.%s is %q, want %q", k, got, v)
		}
	}
	if n := len(f.RowGroups()); n != 2 {
		t.Errorf("%d row groups, want 2", n)
	}
}

func TestWholeRecords(t *testing.T) {
	t.Parallel()
	in := []string{`{"a":1.10}`, `[1]`, ` {"a" : 2} `, `"x"`, `{"a":1,"a":2}`}
	b := write(t, format(t, nil, false, parquet.Zstd), in...)
	rows := read(t, b)
	if len(rows) != len(in) {
		t.Fatalf("got %d rows, want %d", len(rows), len(in))
	}
	for i, row := range rows {
		if string(row.Value) != in[i] {
			t.Errorf("value %s, want %s", row.Value, in[i])
		}
		if string(row.Key) != "k\xff" || row.Timestamp != 1_700_000_000_123 || *row.Source != position(i) {
			t.Errorf("row %d: got %q %d %v", i, row.Key, row.Timestamp, row.Source)
		}
	}
	f, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := "[[key] [source_offset] [source_partition] [source_topic] [timestamp] [value]]"
	if got := fmt.Sprint(f.Schema().Columns()); got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
}

func TestNullKey(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	e := format(t, nil, false, parquet.Zstd).New(&buf)
	for _, key := range [][]byte{nil, {}} {
		r := rec("1", 0)
		r.Key = key
		if err := e.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(meta); err != nil {
		t.Fatal(err)
	}
	rows := read(t, buf.Bytes())
	if rows[0].Key != nil || rows[1].Key == nil || len(rows[1].Key) != 0 {
		t.Errorf("keys %#v %#v, want nil and empty", rows[0].Key, rows[1].Key)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ value, code string }{
		{``, "empty_value"},
		{`{"i":1`, "not_json"},
		{`{"i":1}{}`, "not_json"},
		{`{"i":1,"i":1}`, "duplicate_key"},
		{`[1]`, "wrong_type"},
		{`{"i":1.0}`, "wrong_type"},
		{`{"i":1e3}`, "wrong_type"},
		{`{"i":"1"}`, "wrong_type"},
		{`{"i":9223372036854775808}`, "integer_range"},
		{`{"s":1}`, "wrong_type"},
		{`{"d":"1"}`, "wrong_type"},
		{`{"d":1e999}`, "wrong_type"},
		{`{"b":1}`, "wrong_type"},
		{`{"y":"A"}`, "wrong_type"},
		{`{"y":1}`, "wrong_type"},
		{`{"t":"yesterday"}`, "wrong_type"},
		{`{"t":true}`, "wrong_type"},
		{`{"t":1.5}`, "wrong_type"},
		{`{"d4":100}`, "wrong_type"},
		{`{"d4":0.001}`, "wrong_type"},
		{`{"d4":1e1000000000000}`, "wrong_type"},
		{`{"d4":"x"}`, "wrong_type"},
		{`{"d4":""}`, "wrong_type"},
		{`{"d4":{}}`, "wrong_type"},
	}
	var buf bytes.Buffer
	e := format(t, allTypes, false, parquet.Zstd).New(&buf)
	for _, tt := range tests {
		err := e.Add(rec(tt.value, 1))
		if sink.Classify(err) != sink.ClassPoison || sink.Code(err) != tt.code {
			t.Errorf("%s: got %v (%s), want poison %s", tt.value, err, sink.Code(err), tt.code)
		}
		if err := e.Add(rec(`{"i":1}`, 2)); err != nil {
			t.Errorf("the record behind a refused one: %v", err)
		}
	}
	if err := e.Close(meta); err != nil {
		t.Fatal(err)
	}
	if rows := read(t, buf.Bytes()); len(rows) != len(tests) {
		t.Errorf("%d rows, want the %d that were not refused", len(rows), len(tests))
	}
	whole := format(t, nil, false, parquet.Zstd).New(&buf)
	for value, code := range map[string]string{"": "empty_value", "{": "not_json", "\xff": "not_json"} {
		if err := whole.Add(rec(value, 1)); sink.Code(err) != code {
			t.Errorf("%q: got %v, want %s", value, err, code)
		}
	}
}

func TestParseType(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "int", "INT64", "decimal", "decimal()", "decimal(0,0)", "decimal(39,1)", "decimal(3,4)", "decimal(3)", "decimal(-1,0)", "decimal(111,1)"} {
		if got, err := parquet.ParseType(s); err == nil {
			t.Errorf("ParseType(%q) = %v, want an error", s, got)
		}
	}
	if got, err := parquet.ParseType("decimal( 18 , 2 )"); err != nil || got.Precision != 18 || got.Scale != 2 {
		t.Errorf("ParseType with spaces = %v, %v", got, err)
	}
}

func TestNewFormatRefuses(t *testing.T) {
	t.Parallel()
	for name, cols := range map[string]parquet.Columns{
		"no name":       {"": {}},
		"source column": {"source_offset": {}},
	} {
		if _, err := parquet.NewFormat(cols, true, parquet.Zstd); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReaderOfBrokenFiles(t *testing.T) {
	t.Parallel()
	b := write(t, format(t, nil, false, parquet.Zstd), `1`, `2`)
	for _, broken := range [][]byte{nil, b[:len(b)/2], b[:len(b)-1], []byte("PAR1PAR1"), []byte(strings.Repeat("x", 100))} {
		failed := false
		for _, err := range parquet.Reader()(t.Context(), memory{bytes.NewReader(broken)}) {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("a file of %d bytes of garbage reads without an error", len(broken))
		}
	}
}

// FuzzDecimal: what is written is either refused or reads back as the same
// value.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0", "1", "-1.50", "1e2", "1E-2", "123456789.123456789", "1e400", "00", "-", "1.", ".5", "9e28", "1e-400"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var buf bytes.Buffer
		e := format(t, map[string]string{"x": "decimal(38,9)"}, false, parquet.None).New(&buf)
		value := `{"x":` + s + `}`
		if err := e.Add(rec(value, 0)); err != nil {
			if sink.Classify(err) != sink.ClassPoison {
				t.Fatalf("%q: %v is not poison", s, err)
			}
			return
		}
		if err := e.Close(meta); err != nil {
			t.Fatal(err)
		}
		var got, want map[string]json.Number
		row := read(t, buf.Bytes())[0]
		if err := json.Unmarshal(row.Value, &got); err != nil {
			t.Fatalf("%q became %s: %v", s, row.Value, err)
		}
		if err := json.Unmarshal([]byte(value), &want); err != nil {
			return // a string with spaces around the number
		}
		a, _ := got["x"].Float64()
		b, _ := want["x"].Float64()
		if math.Abs(a-b) > math.Abs(b)*1e-15 {
			t.Fatalf("%q became %s", s, row.Value)
		}
	})
}
