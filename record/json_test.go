package record

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestDocResetRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	tests := []struct {
		name, raw string
		want      DocKind
	}{
		{"nothing", "", EmptyValue},
		{"white space", " \n", NotJSON},
		{"text", "hello", NotJSON},
		{"cut off", `{"a":1`, NotJSON},
		{"trailing garbage", `{"a":1}x`, NotJSON},
		{"second value", `{"a":1} {"b":2}`, NotJSON},
		{"trailing comma", `{"a":1,}`, NotJSON},
		{"single quotes", `{'a':1}`, NotJSON},
		{"comment", `{"a":1/*x*/}`, NotJSON},
		{"byte order mark", "\xef\xbb\xbf{}", NotJSON},
		{"invalid UTF-8 in a value", "{\"a\":\"\xff\"}", NotJSON},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", NotJSON},
		{"half a surrogate pair", `{"a":"\ud800"}`, NotJSON},
		{"NaN", `{"a":NaN}`, NotJSON},
		{"leading zero", `{"a":01}`, NotJSON},
		{"too deep", `{"a":` + deep + `}`, NotJSON},
		{"duplicate", `{"a":1,"a":1}`, DuplicateKey},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, DuplicateKey},
		{"duplicate inside", `{"a":{"b":[{"c":1,"c":2}]}}`, DuplicateKey},
		{"array", `[1]`, NotObject},
		{"null", `null`, NotObject},
		{"number", ` 5 `, NotObject},
		{"string", `"x"`, NotObject},
	}
	var d Doc // shared: a refusal must leave nothing behind
	for _, tt := range tests {
		err := d.Reset([]byte(tt.raw))
		var de *DocError
		if !errors.As(err, &de) || de.Kind != tt.want {
			t.Errorf("%s: Reset gave %v, want kind %v", tt.name, err, tt.want)
		}
		if got := string(d.Append(nil)); got != "{}" {
			t.Errorf("%s: after the refusal the Doc is %s, want {}", tt.name, got)
		}
		if err := d.Reset([]byte(`{"a":{"a":1},"b":[{"a":1},{"a":2}]}`)); err != nil {
			t.Errorf("%s: the next document is refused: %v", tt.name, err)
		}
	}
}

func TestDocReads(t *testing.T) {
	t.Parallel()
	raw := ` { "a" : 1.50 ,"b":"x\"}{","c":{"d":[1,{"e":"]"}],"f":null},"\u00e9":true, "g":[] } `
	var d Doc
	if err := d.Reset([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path []string
		want string
		ok   bool
	}{
		{[]string{"a"}, "1.50", true},
		{[]string{"b"}, `"x\"}{"`, true},
		{[]string{"c"}, `{"d":[1,{"e":"]"}],"f":null}`, true},
		{[]string{"c", "d"}, `[1,{"e":"]"}]`, true},
		{[]string{"c", "f"}, `null`, true},
		{[]string{"é"}, `true`, true},
		{[]string{"g"}, `[]`, true},
		{[]string{"x"}, "", false},
		{[]string{"c", "x"}, "", false},
		{[]string{"a", "x"}, "", false},
		{nil, "", false},
	}
	for _, tt := range tests {
		got, ok := d.Get(tt.path...)
		if string(got) != tt.want || ok != tt.ok {
			t.Errorf("Get(%v) = %s, %v, want %s, %v", tt.path, got, ok, tt.want, tt.ok)
		}
	}
	names := slices.Collect(maps.Keys(maps.Collect(d.All())))
	slices.Sort(names)
	if want := []string{"a", "b", "c", "g", "é"}; !slices.Equal(names, want) || d.Len() != len(want) {
		t.Errorf("All has %q, Len %d, want %q", names, d.Len(), want)
	}
	if got := string(d.Append([]byte(">"))); got != ">"+raw {
		t.Errorf("an unedited Append gave %s", got)
	}
}

func TestDocEdits(t *testing.T) {
	t.Parallel()
	set := func(path, value string) func(*Doc) error {
		return func(d *Doc) error { return d.Set(mustPath(t, path), []byte(value)) }
	}
	remove := func(path string) func(*Doc) error {
		return func(d *Doc) error { d.Remove(mustPath(t, path)); return nil }
	}
	type edits = []func(*Doc) error
	tests := []struct {
		name, raw string
		edits     edits
		want      string
	}{
		{"replace keeps the rest", `{"a": 1.10,"b" :2 , "c":3}`, edits{set("b", `"x"`)}, `{"a": 1.10,"b" :"x" , "c":3}`},
		{"add", `{"a":1}`, edits{set("b", "2"), set("c", "3")}, `{"a":1,"b":2,"c":3}`},
		{"add to an empty object", `{ }`, edits{set("b", "2")}, `{"b":2}`},
		{"add before the closing line", "{\n  \"a\": 1\n}\n", edits{set("b", "2")}, "{\n  \"a\": 1,\"b\":2\n}\n"},
		{"add a name to escape", `{}`, edits{set(`q"`, "2")}, `{"q\"":2}`},
		{"add, replace", `{"a":1}`, edits{set("b", "2"), set("b", "3")}, `{"a":1,"b":3}`},
		{"remove the first", `{"a":1, "b":2}`, edits{remove("a")}, `{ "b":2}`},
		{"remove the middle", `{"a":1, "b":2 ,"c":3}`, edits{remove("b")}, `{"a":1,"c":3}`},
		{"remove the last", `{"a":1, "b":2 }`, edits{remove("b")}, `{"a":1}`},
		{"remove all", `{"a":1, "b":2 }`, edits{remove("a"), remove("b")}, `{}`},
		{"remove what is not there", `{"a":1, "b":2 }`, edits{remove("x"), remove("a.x"), remove("x.y")}, `{"a":1, "b":2 }`},
		{"remove and add again", `{"a":1,"b":2}`, edits{remove("a"), set("a", "3")}, `{"b":2,"a":3}`},
		{"add and remove", `{"a":1}`, edits{set("b", "3"), remove("b")}, `{"a":1}`},
		{"nested replace", `{"a":{"x":1, "y": 2.0},"b":1}`, edits{set("a.x", "9")}, `{"a":{"x":9, "y": 2.0},"b":1}`},
		{"nested add", `{"a":{"x":1}}`, edits{set("a.y", "9")}, `{"a":{"x":1,"y":9}}`},
		{"nested make", `{"a":1}`, edits{set("b.c.d", "9")}, `{"a":1,"b":{"c":{"d":9}}}`},
		{"nested twice", `{"a":{"b":{"c":1}}}`, edits{set("a.b.d", "2"), set("a.b.c", "3"), remove("a.b.d")}, `{"a":{"b":{"c":3}}}`},
		{"nested remove", `{"a":{"x":1,"y":2}}`, edits{remove("a.x")}, `{"a":{"y":2}}`},
		{"escaped name", `{"\u0061":1,"b":2}`, edits{set("a", "2")}, `{"\u0061":2,"b":2}`},
		{"dot in a name", `{"a.b":1}`, edits{set(`a\.b`, "2")}, `{"a.b":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			raw := []byte(tt.raw)
			var d Doc
			if err := d.Reset(raw); err != nil {
				t.Fatal(err)
			}
			for _, e := range tt.edits {
				if err := e(&d); err != nil {
					t.Fatal(err)
				}
			}
			if got := string(d.Append(nil)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if string(raw) != tt.raw {
				t.Errorf("the input was changed to %s", raw)
			}
		})
	}
}

func TestDocSetInsideWhatIsNoObject(t *testing.T) {
	t.Parallel()
	var d Doc
	if err := d.Reset([]byte(`{"a":"s","b":{"c":[1]}}`)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a.x", "b.c.x"} {
		if err := d.Set(mustPath(t, path), []byte("1")); err == nil {
			t.Errorf("Set(%s) gave no error", path)
		}
	}
	if got, want := string(d.Append(nil)), `{"a":"s","b":{"c":[1]}}`; got != want || d.Edited() {
		t.Errorf("after refused edits: %s, edited %v", got, d.Edited())
	}
}

func TestZeroDoc(t *testing.T) {
	t.Parallel()
	var d Doc
	if got := string(d.Append(nil)); got != "{}" {
		t.Errorf("got %s, want {}", got)
	}
	if err := d.Set(Path{"a", "b"}, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got, want := string(d.Append(nil)), `{"a":{"b":1}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want Path // nil: an error
	}{
		{"a", Path{"a"}},
		{"a.b", Path{"a", "b"}},
		{`a\.b.c\\`, Path{"a.b", `c\`}},
		{"", nil},
		{"a..b", nil},
		{".a", nil},
		{"a.", nil},
		{`a\`, nil},
		{`a\x`, nil},
		{"\xff", nil},
	}
	for _, tt := range tests {
		got, err := ParsePath(tt.in)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("ParsePath(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
		if err == nil && got.String() != tt.in {
			t.Errorf("%q prints as %q", tt.in, got.String())
		}
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want []string
	}{
		{`[]`, nil},
		{` [ ] `, nil},
		{`[1, "a,]" ,{"b":[2]},[3]]`, []string{"1", `"a,]"`, `{"b":[2]}`, "[3]"}},
		{`{"a":1}`, nil},
		{`5`, nil},
	}
	for _, tt := range tests {
		var got []string
		for e := range Elements([]byte(tt.in)) {
			got = append(got, string(e))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Elements(%s) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func mustPath(t *testing.T, s string) Path {
	t.Helper()
	p, err := ParsePath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
