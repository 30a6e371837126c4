package config

import (
	"math"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want time.Duration
		err  string
	}{
		{"0", 0, ""},
		{"0s", 0, ""},
		{"100ms", 100 * time.Millisecond, ""},
		{"1.5s", 1500 * time.Millisecond, ""},
		{"1h30m", 90 * time.Minute, ""},
		{"7d", 168 * time.Hour, ""},
		{"2w", 336 * time.Hour, ""},
		{"3us", 3000, ""},
		{"3µs", 3000, ""},
		{"9ns", 9, ""},
		{"0.000000001s", 1, ""},
		{"106751d", 106751 * 24 * time.Hour, ""},
		{"106752d", 0, "longer than 292 years"},
		{"99999999999999999999999w", 0, "longer than 292 years"},
		{"5", 0, "the unit is missing"},
		{"1.5", 0, "the unit is missing"},
		{"-1s", 0, "a time span cannot be negative"},
		{"", 0, "not a time span"},
		{"s", 0, "not a time span"},
		{"1 s", 0, "not a time span"},
		{"1e3s", 0, "not a time span"},
		{"0.5ns", 0, "finer than a nanosecond"},
		{"Inf", 0, "the unit is missing"},
	} {
		got, err := parseDuration(c.in)
		if reason(err) != c.err || got != c.want {
			t.Errorf("parseDuration(%q): got %v, %v; want %v, %q", c.in, got, err, c.want, c.err)
		}
		if err == nil {
			if again, err := parseDuration(formatDuration(got)); err != nil || again != got {
				t.Errorf("%q is written as %q, which is %v, %v", c.in, formatDuration(got), again, err)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in        string
		want      int64
		formatted string
		err       string
	}{
		{"0", 0, "0B", ""},
		{"4096", 4096, "4KiB", ""},
		{"128MB", 128e6, "128MB", ""},
		{"16MiB", 16 << 20, "16MiB", ""},
		{"1.5GiB", 3 << 29, "1536MiB", ""},
		{"10 kb", 10000, "10KB", ""},
		{"7EiB", 7 << 60, "7EiB", ""},
		{"999B", 999, "999B", ""},
		{"8EiB", 0, "", "larger than 8 EiB"},
		{"99999999999999999999", 0, "", "larger than 8 EiB"},
		{"-1", 0, "", "a size cannot be negative"},
		{"1M", 0, "", `unit "M": write MB (powers of 1000) or MiB (powers of 1024)`},
		{"1Gi", 0, "", `unit "Gi": write GB (powers of 1000) or GiB (powers of 1024)`},
		{"1XB", 0, "", `there is no unit "XB"`},
		{"", 0, "", "not a size"},
		{"MB", 0, "", "not a size"},
		{"1e6", 0, "", "not a size"},
		{"0.5B", 0, "", "not a whole number of bytes"},
	} {
		got, err := parseSize(c.in)
		if reason(err) != c.err || got != c.want {
			t.Errorf("parseSize(%q): got %d, %v; want %d, %q", c.in, got, err, c.want, c.err)
		}
		if err == nil && formatSize(got) != c.formatted {
			t.Errorf("formatSize(%d): got %s, want %s", got, formatSize(got), c.formatted)
		}
	}
	if got := formatSize(math.MaxInt64); got != "9223372036854775807B" {
		t.Errorf("got %s", got)
	}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"topics", "format", "start", "fields", "session_timeout"}
	for _, c := range []struct{ in, want string }{
		{"topcs", "topics"},
		{"topic", "topics"},
		{"strat", "start"},
		{"Format", "format"},
		{"sessionTimeout", "session_timeout"},
		{"session", "session_timeout"},
		{"startx", "start"},
		{"start_position", "start"},
		{"compression", ""},
		{"x", ""},
		{"", ""},
	} {
		if got := nearest(c.in, names); got != c.want {
			t.Errorf("nearest(%q): got %q, want %q", c.in, got, c.want)
		}
	}
}
