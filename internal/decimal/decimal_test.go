package decimal

import (
	"math"
	"strconv"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"1e18", "1000000000000000000", "1.000E+18", "10e17", "0.1e19"},
		{"1.5", "1.50", "15e-1", "0.015e2", "001.5"},
		{"0", "-0", "0.000", "0e5"},
		{"-12", "-1.2e1"},
		{"9007199254740993.5", "90071992547409935e-1"},
	} {
		for _, s := range same {
			a, ok := Parse(same[0])
			b, ok2 := Parse(s)
			if !ok || !ok2 || a != b {
				t.Errorf("%s and %s: %+v, %+v", same[0], s, a, b)
			}
		}
	}
	for _, s := range []string{"", "-", ".", "1e", "1e999999999999999999", "1x", "NaN", "--1"} {
		if d, ok := Parse(s); ok {
			t.Errorf("%q was read as %+v", s, d)
		}
	}
}

func TestInteger(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"1e18": "1000000000000000000", "-1.2e1": "-12", "0.0": "0", "1.5": "", "1e40": "", "1e-1": ""} {
		d, ok := Parse(in)
		if !ok {
			t.Fatal(in)
		}
		got, ok := d.Integer(40)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %s, %t, want %q", in, got, ok, want)
		}
	}
}

func TestDoubled(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"0.1": true, "1e19": true, "12345678.91": true, "1e-400": false, "9007199254740993.5": false,
		"0.1000000000000000055511151231257827021181583404541015625": true, "0.10000000000000000556": false, "1e-300": true,
	} {
		d, ok := Parse(in)
		if !ok {
			t.Fatal(in)
		}
		f, err := strconv.ParseFloat(in, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Doubled(f); got != want {
			t.Errorf("%s: got %t", in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1.50e3")
	f.Add("-0.00")
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := Parse(s)
		if !ok || len(s) > 100 {
			return
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(x, 0) {
			return
		}
		if again := OfFloat(x); d.Negative != again.Negative && len(d.Digits) > 0 && x != 0 {
			t.Errorf("%q: sign of %+v and %+v", s, d, again)
		}
	})
}
