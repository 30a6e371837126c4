package object

import (
	"strings"
	"testing"

	"exactly/sink"
)

func TestNameString(t *testing.T) {
	t.Parallel()
	n := Name{
		Pipeline: "pay-ments", Sink: "la.ke/%", Generation: 1, Task: 10,
		From: sink.Pos{}, Through: sink.Pos{Epoch: 5, Index: 22}, Incarnation: "00c0ffee00c0ffee", Ext: "jsonl.gz",
	}
	want := "pay-ments.la%2Eke%2F%25.g1.t10.000000000000-00000000.000000000005-00000022.00c0ffee00c0ffee.p0.jsonl.gz"
	if got := n.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	n.Nonce, n.Part = "0badcafe", 3
	if got, want := n.String(), strings.Replace(want, ".p0.", ".p3.r0badcafe.", 1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNamesSort: the names of one task sort by range.
func TestNamesSort(t *testing.T) {
	t.Parallel()
	last := ""
	for _, p := range []sink.Pos{{}, {Epoch: 1}, {Epoch: 1, Index: 9}, {Epoch: 1, Index: 10}, {Epoch: 2}, {Epoch: 10}, {Epoch: 999999}, {Epoch: 1000000}} {
		s := Name{Pipeline: "p", Sink: "s", From: p, Through: p, Incarnation: "i", Ext: "jsonl"}.String()
		if s <= last {
			t.Errorf("%s does not sort behind %s", s, last)
		}
		last = s
	}
}

func TestParseNameRefuses(t *testing.T) {
	t.Parallel()
	good := Name{Pipeline: "p", Sink: "s", Incarnation: "i", Through: sink.Pos{Epoch: 1}, Ext: "jsonl"}.String()
	if _, err := ParseName(good); err != nil {
		t.Fatal(err)
	}
	bad := []string{
		"", ".", "a.jsonl", strings.Repeat(".", 20), good + "x", "x" + good[1:] + ".bak", good[:len(good)-1],
		strings.Replace(good, "g0", "g00", 1), strings.Replace(good, "g0", "g-1", 1), strings.Replace(good, "g0", "G0", 1),
		strings.Replace(good, "t0", "t99999999999", 1), strings.Replace(good, "000000000001", "1", 1),
		strings.Replace(good, "p0", "p+0", 1), strings.Replace(good, "p.s", "p%41.s", 1), strings.Replace(good, "p.s", "p%2.s", 1),
		strings.Replace(good, "jsonl", "csv", 1), strings.Replace(good, "jsonl", "r12345678", 1),
	}
	for _, s := range bad {
		if n, err := ParseName(s); err == nil {
			t.Errorf("ParseName(%q) = %+v, want an error", s, n)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("payments", "lake", int32(1), int32(0), int64(1), int64(2), int64(3), int64(4), "00c0ffee00c0ffee", 0, "", "parquet", "x")
	f.Add("a.b", "r", int32(0), int32(7), int64(0), int64(0), int64(1), int64(0), "", 9, "0badcafe", "jsonl.zst", "p.s.g0.t0.0-0.1-1.i.p0.jsonl")
	f.Fuzz(func(t *testing.T, pipeline, snk string, g, task int32, fe, fi, te, ti int64, inc string, part int, nonce, ext, garbage string) {
		if n, err := ParseName(garbage); err == nil && n.String() != garbage {
			t.Fatalf("%q parses as %+v, which is written as %q", garbage, n, n)
		}
		n := Name{
			Pipeline: pipeline, Sink: snk, Generation: g, Task: task, From: sink.Pos{Epoch: fe, Index: fi},
			Through: sink.Pos{Epoch: te, Index: ti}, Incarnation: inc, Part: part, Nonce: nonce, Ext: ext,
		}
		if !exts[ext] || min(int64(g), int64(task), fe, fi, te, ti, int64(part)) < 0 || int64(int32(part)) != int64(part) {
			return
		}
		got, err := ParseName(n.String())
		if err != nil || got != n {
			t.Fatalf("%+v is written as %q and read as %+v, %v", n, n, got, err)
		}
	})
}

func FuzzStagedName(f *testing.F) {
	f.Add("payments", "lake", int32(1), int32(0), "00c0ffee00c0ffee", int64(3), int64(0), "x")
	f.Add("", ".", int32(1), int32(0), "%", int64(3), int64(0), "p.s.g1.t1.i.a1.n1.part")
	f.Fuzz(func(t *testing.T, pipeline, snk string, g, task int32, inc string, attempt, seq int64, garbage string) {
		if n, err := parseStaged(garbage); err == nil && n.String() != garbage {
			t.Fatalf("%q parses as %+v, which is written as %q", garbage, n, n)
		}
		if min(int64(g), int64(task), attempt, seq) < 0 {
			return
		}
		n := stagedName{pipeline, snk, g, task, inc, attempt, seq}
		got, err := parseStaged(n.String())
		if err != nil || got != n {
			t.Fatalf("%+v is written as %q and read as %+v, %v", n, n, got, err)
		}
	})
}

func TestFolder(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"date=2026-01-01", "date=2026-01-01"},
		{"a/b c/d", "a/b c/d"},
		{"..", "%2E%2E"},
		{"../x", "%2E%2E/x"},
		{"_exactly/staging", "%5Fexactly/staging"},
		{".git", "%2Egit"},
		{"a.b_c.", "a.b_c%2E"},
		{"x:y\\z*?\"<>|\n\x00", "x%3Ay%5Cz%2A%3F%22%3C%3E%7C%0A%00"},
		{"münchen=%", "münchen=%25"},
	}
	for _, tt := range tests {
		if got, err := folderOf(tt.in); got != tt.want || err != nil {
			t.Errorf("folderOf(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"", "/", "/a", "a/", "a//b", strings.Repeat("x", 201), strings.Repeat("x/", 300) + "x"} {
		if got, err := folderOf(in); err == nil {
			t.Errorf("folderOf(%.20q) = %q, want an error", in, got)
		}
	}
}

// FuzzFolder: two values share a folder only if they are the same, and no value
// leads out of the root or hides.
func FuzzFolder(f *testing.F) {
	f.Add("a/b", "a%2Fb")
	f.Add("_x", "%5Fx")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errA := folderOf(a)
		y, errB := folderOf(b)
		if errA != nil || errB != nil {
			return
		}
		if (x == y) != (a == b) {
			t.Fatalf("%q and %q lead to %q and %q", a, b, x, y)
		}
		for _, p := range strings.Split(x, "/") {
			if p == "" || p[0] == '.' || p[0] == '_' || strings.ContainsAny(p, "\\:\x00") {
				t.Fatalf("%q leads to %q", a, x)
			}
		}
	})
}
