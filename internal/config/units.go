package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type unit[T any] struct {
	name string
	size T
}

var durationUnits = []unit[time.Duration]{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"ns", 1},
}

const durationPattern = `([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d|w))+`

var (
	durationForm = regexp.MustCompile(`^` + durationPattern + `$`)
	durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d|w)`)
)

// parseDuration reads 100ms, 1h30m, 7d, 2w; 0 needs no unit.
func parseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("a time span cannot be negative")
	}
	if !durationForm.MatchString(s) {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, errors.New("the unit is missing")
		}
		return 0, errors.New("not a time span")
	}
	total := new(big.Rat)
	for _, m := range durationPart.FindAllStringSubmatch(s, -1) {
		n, ok := new(big.Rat).SetString(m[1])
		if !ok {
			return 0, errors.New("not a time span")
		}
		name := strings.ReplaceAll(m[2], "µ", "u")
		for _, u := range durationUnits {
			if u.name == name {
				total.Add(total, n.Mul(n, new(big.Rat).SetInt64(int64(u.size))))
			}
		}
	}
	if !total.IsInt() {
		return 0, errors.New("finer than a nanosecond")
	}
	if !total.Num().IsInt64() {
		return 0, errors.New("longer than 292 years")
	}
	return time.Duration(total.Num().Int64()), nil
}

// formatDuration writes what parseDuration reads, in units up to days.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	if d < 0 {
		return d.String()
	}
	for _, u := range durationUnits {
		if u.name == "w" {
			continue
		}
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

var sizeUnits = []unit[int64]{
	{"EiB", 1 << 60},
	{"PiB", 1 << 50},
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"EB", 1e18},
	{"PB", 1e15},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"B", 1},
}

var sizeForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)

// parseSize reads 128MB, 16MiB, 1.5GiB, 4096; the result is in bytes.
func parseSize(s string) (int64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("a size cannot be negative")
	}
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, errors.New("not a size")
	}
	factor := int64(1)
	if m[2] != "" {
		factor = 0
		for _, u := range sizeUnits {
			if strings.EqualFold(u.name, m[2]) {
				factor = u.size
			}
		}
	}
	if factor == 0 {
		if len(m[2]) == 1 || len(m[2]) == 2 && (m[2][1] == 'i' || m[2][1] == 'I') {
			p := strings.ToUpper(m[2][:1])
			return 0, fmt.Errorf("unit %q: write %sB (powers of 1000) or %siB (powers of 1024)", m[2], p, p)
		}
		return 0, fmt.Errorf("there is no unit %q", m[2])
	}
	n, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return 0, errors.New("not a size")
	}
	n.Mul(n, new(big.Rat).SetInt64(factor))
	if !n.IsInt() {
		return 0, errors.New("not a whole number of bytes")
	}
	if !n.Num().IsInt64() || n.Num().Int64() == math.MaxInt64 {
		return 0, errors.New("larger than 8 EiB")
	}
	return n.Num().Int64(), nil
}

// formatSize writes what parseSize reads, in the unit that gives the smallest
// whole number.
func formatSize(n int64) string {
	best := unit[int64]{"B", 1}
	for _, u := range sizeUnits {
		if n > 0 && n%u.size == 0 && u.size > best.size {
			best = u
		}
	}
	return strconv.FormatInt(n/best.size, 10) + best.name
}
