package postgres

import (
	"encoding/hex"
	"strings"
	"testing"

	"exactly/sink"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"t", `"t"`},
		{"s.t", `"s"."t"`},
		{`"a.b".c`, `"a.b"."c"`},
		{`"a""b"`, `"a""b"`},
		{`T; DROP TABLE x`, `"T; DROP TABLE x"`},
		{"", ""},
		{"a.b.c", ""},
		{".t", ""},
		{"t.", ""},
		{`"t`, ""},
		{`"t"x`, ""},
		{`""`, ""},
	}
	for _, tt := range tests {
		n, err := parseName(tt.in)
		if got := n.String(); (err != nil) != (tt.want == "") || err == nil && got != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

// FuzzParseName: whatever is taken for a name comes back as the same name.
func FuzzParseName(f *testing.F) {
	f.Add(`"a.b"."c""d"`)
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseName(s)
		if err != nil {
			return
		}
		if again, err := parseName(n.String()); err != nil || again != n {
			t.Errorf("%q is %+v, which is read as %+v, %v", s, n, again, err)
		}
	})
}

func TestJSONValue(t *testing.T) {
	t.Parallel()
	number := func(scale int) *column { return &column{kind: kindNumeric, scale: scale} }
	tests := []struct {
		name, raw string
		col       *column
		want      string // "!" and a code: refused
	}{
		{"digits stay", "1.10000000000000000000000000001", number(anyScale), "1.10000000000000000000000000001"},
		{"within the scale", "1.500", number(1), "1.500"},
		{"beyond the scale", "1.55", number(1), "!value"},
		{"exponent", "15e-1", number(1), "15e-1"},
		{"huge exponent", "1e999999999", &column{kind: kindInteger}, "!value"},
		{"whole", "5.0", &column{kind: kindInteger}, "5"},
		{"thousand", "1e3", &column{kind: kindInteger}, "1000"},
		{"half", "0.5", &column{kind: kindInteger}, "!value"},
		{"string", `"a\"b"`, &column{}, `a"b`},
		{"JSON string", `"a"`, &column{kind: kindJSON}, `"a"`},
		{"object", `{"a": 1}`, &column{kind: kindText}, `{"a": 1}`},
		{"array", `["a","\\",null,[1,true],{"x":"y"}]`, &column{kind: kindArray}, `{"a","\\",NULL,{"1","true"},"{\"x\":\"y\"}"}`},
		{"array as text", `[1]`, &column{kind: kindText}, `[1]`},
	}
	for _, tt := range tests {
		got, err := jsonValue([]byte(tt.raw), tt.col)
		if code, refused := strings.CutPrefix(tt.want, "!"); refused {
			if err == nil || sink.Code(err) != code {
				t.Errorf("%s: got %s, %v, want code %s", tt.name, got, err, code)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
	if v, err := jsonValue([]byte("null"), &column{kind: kindJSON}); v != nil || err != nil {
		t.Errorf("null: got %q, %v", v, err)
	}
}

func TestWireFormats(t *testing.T) {
	t.Parallel()
	rows := [][][]byte{{[]byte("a\tb\\\n\r"), nil}, {[]byte(""), []byte("ü")}}
	if got, want := string(copyText(rows)), "a\\tb\\\\\\n\\r\t\\N\n\tü\n"; got != want {
		t.Errorf("COPY: got %q, want %q", got, want)
	}
	const want = "00000001" + "00000001" + "00000019" + "00000002" + "00000001" + "ffffffff" + "00000002c3bc"
	if got := hex.EncodeToString(textArray(rows, 1)); got != want {
		t.Errorf("array: got %s, want %s", got, want)
	}
}

// several edits a sink of two tables.
func several(edit func(*Config)) func(*Config) {
	return func(c *Config) {
		*c = Config{DSN: c.DSN, Tables: []Table{
			{Table: "a", Key: []string{"id"}, Columns: map[string]string{"id": "id"}},
			{Table: "b", Key: []string{"id", "n"}, Each: "items", Columns: map[string]string{"id": "id", "n": "each.index"}},
		}}
		edit(c)
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	ok := Config{DSN: "postgres://h/d", Table: "t", Key: []string{"id"}}
	tests := []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"fine", func(*Config) {}, ""},
		{"no dsn", func(c *Config) { c.DSN = "" }, "dsn is missing"},
		{"bad dsn", func(c *Config) { c.DSN = "postgres://h:x/d" }, "dsn"},
		{"no table", func(c *Config) { c.Table = "" }, "table is missing"},
		{"bad table", func(c *Config) { c.Table = "a.b.c" }, "schema.table"},
		{"mode", func(c *Config) { c.Mode = "merge" }, "upsert, append, statement, two_phase or replace"},
		{"no key", func(c *Config) { c.Key = nil }, "key is missing"},
		{"key twice", func(c *Config) { c.Key = []string{"id", "id"} }, "twice"},
		{"key without expression", func(c *Config) { c.Columns = map[string]string{"v": "v"} }, "lacks the key"},
		{"bad expression", func(c *Config) { c.Columns = map[string]string{"id": "id +"} }, "columns.id"},
		{"create without schema", func(c *Config) { c.Create = true }, "needs schema"},
		{"schema without create", func(c *Config) { c.Schema = map[string]string{"id": "int"} }, "without create"},
		{"schema without key", func(c *Config) { c.Create, c.Schema = true, map[string]string{"v": "int"} }, `lacks the column "id"`},
		{"audit twice", func(c *Config) { c.Audit = Audit{Epoch: "x", Offset: "x"} }, "both name"},
		{"audit of the key", func(c *Config) { c.Audit = Audit{Epoch: "id"} }, "fill already"},
		{"count in append", func(c *Config) { c.Mode, c.Audit.InsertCount = "append", "n" }, "no meaning in mode append"},
		{"statement without mode", func(c *Config) { c.Statement = "SELECT 1" }, "without mode: statement"},
		{"statement with table", func(c *Config) { c.Mode, c.Statement = "statement", "SELECT 1" }, "says it all"},
		{"query without mode", func(c *Config) { c.Query = "SELECT 1 FROM affected" }, "without mode: replace"},
		{"replace without query", func(c *Config) { c.Mode, c.From = "replace", []string{"raw"} }, "holds only part"},
		{"tables beside table", several(func(c *Config) { c.Table = "t" }), "beside tables"},
		{"tables and a mode", several(func(c *Config) { c.Mode = "append" }), "beside tables"},
		{"two phases", several(func(c *Config) { c.Mode = "two_phase" }), ""},
		{"tables without a name", several(func(c *Config) { c.Tables[1].Table = "" }), "tables[1]: table is missing"},
		{"a table twice", several(func(c *Config) { c.Tables[1].Table = "a" }), "are both a"},
		{"each without a list", several(func(c *Config) { c.Tables[1].Each = "5" }), "tables[1].each: "},
		{"each in one only", several(func(c *Config) { c.Tables[0].Columns = map[string]string{"id": "each.item"} }), ""},
		{"an element's expression", several(func(c *Config) { c.Tables[1].Columns["n"] = "each.itm" }), "tables[1].columns.n: 1:5: there is no each.itm"},
		{"parent without each", several(func(c *Config) { c.Tables[0].Parent = []string{"id"} }), "without each"},
		{"parent without key", several(func(c *Config) { c.Tables[1].Key, c.Tables[1].Parent = nil, []string{"id"} }), "without key"},
		{"statement that ends it", func(c *Config) { *c = Config{DSN: c.DSN, Mode: "statement", Statement: "/* a */ COMMIT"} }, "must begin with INSERT"},
		{"statement behind a comment", func(c *Config) { *c = Config{DSN: c.DSN, Mode: "statement", Statement: "-- a\n ( select 1)"} }, ""},
		{"mode without statement", func(c *Config) { *c = Config{DSN: c.DSN, Mode: "statement"} }, "statement is missing"},
	}
	for _, tt := range tests {
		c := ok
		tt.edit(&c)
		_, err := New("out", c)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestNotations: numbers as PostgreSQL 16 takes them in a text.
func TestNotations(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0x10": "16", " 0X1_0 ": "16", "-0o17": "-15", "0b101": "5", "1_6": "16", "010": "10", "+7": "7", "0": "0", "x": "x", "": "", "0x": "0x", "-": "-",
	} {
		if got := string(canonical([]byte(in), &column{kind: kindInteger})); got != want {
			t.Errorf("canonical(%q) = %q, want %q", in, got, want)
		}
	}
	for in, c := range map[string]*column{
		"1_000.005": {scale: 2}, "0x4D2": {scale: -2}, "1_234": {scale: -2}, "1_0.0_05": {scale: 2},
	} {
		if err := fits([]byte(in), c); sink.Code(err) != codeValue {
			t.Errorf("%s fits: %v", in, err)
		}
	}
	for in, c := range map[string]*column{"0x4B0": {scale: -2}, "0xE5": {scale: 2}, "1_000.05": {scale: 2}, "NaN": {scale: 2}} {
		if err := fits([]byte(in), c); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}
