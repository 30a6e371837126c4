package jsonl_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/encode"
	"exactly/sink/object/jsonl"
)

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func rec(value string) *record.Record {
	return &record.Record{
		Key: []byte("k"), Value: []byte(value), Timestamp: 17,
		Source: record.Position{Topic: "t", Partition: 1, Offset: 2, LeaderEpoch: -1, Timestamp: 16},
	}
}

func write(t testing.TB, f jsonl.Format, rs ...*record.Record) []byte {
	t.Helper()
	var buf bytes.Buffer
	e := f.New(&buf)
	for _, r := range rs {
		if err := e.Add(r); err != nil {
			t.Fatalf("add %s: %v", r.Value, err)
		}
	}
	if err := e.Close(encode.Meta{}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func read(t testing.TB, f jsonl.Format, b []byte) ([]encode.Row, error) {
	t.Helper()
	var rows []encode.Row
	for row, err := range f.Reader()(t.Context(), memory{bytes.NewReader(b)}) {
		if err != nil {
			return rows, err
		}
		row.Value = bytes.Clone(row.Value)
		rows = append(rows, row)
	}
	return rows, nil
}

func TestLines(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{`{"a":1}`, `{"a":1}`},
		{` {"a" : 1.10 } `, ` {"a" : 1.10 } `}, // verbatim
		{"{\n \"a\" :\r\n [1.10, 1e5,\t\"x\\n\\u00e9\"]\n}\n", `{"a":[1.10,1e5,"x\n\u00e9"]}`},
		{`1`, `1`},
		{`null`, `null`},
		{`{"a":1,"a":2}`, `{"a":1,"a":2}`},
		{`"` + strings.Repeat("x", 200_000) + `"`, `"` + strings.Repeat("x", 200_000) + `"`},
	}
	for _, z := range []jsonl.Compression{jsonl.None, jsonl.Gzip, jsonl.Zstd} {
		t.Run(string(z), func(t *testing.T) {
			t.Parallel()
			f := jsonl.Format{Compression: z}
			var rs []*record.Record
			for _, tt := range tests {
				rs = append(rs, rec(tt.in))
			}
			rows, err := read(t, f, write(t, f, rs...))
			if err != nil || len(rows) != len(tests) {
				t.Fatalf("got %d rows, %v, want %d", len(rows), err, len(tests))
			}
			for i, tt := range tests {
				if string(rows[i].Value) != tt.want || rows[i].Index != int64(i) {
					t.Errorf("%.60q: got %.60q at %d, want %.60q", tt.in, rows[i].Value, rows[i].Index, tt.want)
				}
			}
		})
	}
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	binary := rec("{\n}")
	binary.Key, binary.Sub = []byte{0xff, 0}, 3
	binary.Headers = []record.Header{{Key: "h\"", Value: []byte("v")}, {Key: "b", Value: []byte{0xfe}}, {Key: "n"}}
	keyless := rec("null")
	keyless.Key = nil
	tests := []struct {
		r    *record.Record
		want string
	}{
		{rec(`{"a":1.0}`), `{"key":"k","value":{"a":1.0},"timestamp":17,"source":{"topic":"t","partition":1,"offset":2,"timestamp":16}}`},
		{binary, `{"key_base64":"/wA=","value":{},"timestamp":17,"headers":[{"key":"h\"","value":"v"},{"key":"b","value_base64":"/g=="},{"key":"n","value":null}],"source":{"topic":"t","partition":1,"offset":2,"timestamp":16,"sub":3}}`},
		{keyless, `{"value":null,"timestamp":17,"source":{"topic":"t","partition":1,"offset":2,"timestamp":16}}`},
	}
	f := jsonl.Format{Envelope: true}
	for _, tt := range tests {
		b := write(t, f, tt.r)
		if got := strings.TrimSuffix(string(b), "\n"); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
		rows, err := read(t, f, b)
		if err != nil || len(rows) != 1 {
			t.Fatalf("read %s: %d rows, %v", b, len(rows), err)
		}
		row := rows[0]
		if !bytes.Equal(row.Key, tt.r.Key) || (row.Key == nil) != (tt.r.Key == nil) || *row.Source != tt.r.Source || row.Timestamp != 17 {
			t.Errorf("read back key %q, source %v, timestamp %d", row.Key, row.Source, row.Timestamp)
		}
		if want := strings.ReplaceAll(string(tt.r.Value), "\n", ""); string(row.Value) != want {
			t.Errorf("read back value %s, want %s", row.Value, want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	e := jsonl.Format{}.New(&buf)
	for value, code := range map[string]string{
		"": "empty_value", "{": "not_json", "{}{}": "not_json", "x": "not_json", "\"\xff\"": "not_json", " ": "not_json", "\n": "not_json",
	} {
		err := e.Add(rec(value))
		if sink.Classify(err) != sink.ClassPoison || sink.Code(err) != code {
			t.Errorf("%q: got %v, want poison %s", value, err, code)
		}
	}
	if buf.Len() > 0 {
		t.Errorf("refused records wrote %q", buf.Bytes())
	}
}

func TestReaderOfBrokenFiles(t *testing.T) {
	t.Parallel()
	for _, z := range []jsonl.Compression{jsonl.None, jsonl.Gzip, jsonl.Zstd} {
		f := jsonl.Format{Compression: z}
		whole := write(t, f, rec(`{"a":1}`), rec(`{"b":"longer"}`))
		for _, cut := range []int{len(whole) - 1, len(whole) / 2, 3} {
			if _, err := read(t, f, whole[:cut]); err == nil {
				t.Errorf("%s: %d of %d bytes read without an error", z, cut, len(whole))
			}
		}
	}
	for _, line := range []string{"x\n", "\n", "{\n", "{}{}\n"} {
		if _, err := read(t, jsonl.Format{}, []byte(line)); err == nil {
			t.Errorf("%q reads without an error", line)
		}
	}
	for _, line := range []string{"{}\n", "1\n", `{"key":1,"value":2}` + "\n"} {
		if _, err := read(t, jsonl.Format{Envelope: true}, []byte(line)); err == nil {
			t.Errorf("%q reads as an envelope without an error", line)
		}
	}
}

func TestExt(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(jsonl.Format{}.Ext(), jsonl.Format{Compression: jsonl.Gzip}.Ext(), jsonl.Format{Compression: jsonl.Zstd}.Ext())
	if want := "jsonljsonl.gzjsonl.zst"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzLine: what is taken is one line that reads back as one value.
func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "[\n1]", `"\u2028"`, "", "\r"} {
		f.Add([]byte(s), []byte("k"), true)
	}
	f.Fuzz(func(t *testing.T, value, key []byte, envelope bool) {
		format := jsonl.Format{Envelope: envelope}
		var buf bytes.Buffer
		e := format.New(&buf)
		r := rec("")
		r.Value, r.Key = value, key
		if err := e.Add(r); err != nil {
			if sink.Classify(err) != sink.ClassPoison || buf.Len() > 0 {
				t.Fatalf("%q: %v, wrote %q", value, err, buf.Bytes())
			}
			return
		}
		if n := bytes.Count(buf.Bytes(), []byte("\n")); n != 1 {
			t.Fatalf("%q became %d lines", value, n)
		}
		rows, err := read(t, format, buf.Bytes())
		if err != nil || len(rows) != 1 {
			t.Fatalf("%q: %d rows, %v", value, len(rows), err)
		}
		if envelope && !bytes.Equal(rows[0].Key, key) {
			t.Fatalf("key %q became %q", key, rows[0].Key)
		}
	})
}
