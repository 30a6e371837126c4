package bench

import (
	"fmt"
	"strings"
	"time"
)

// Markdown writes the result for people.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`exactly bench`, %s, %d CPUs (%s), %s, %s, one broker on the same machine; median (least to most) of %d rounds.\n",
		r.Started.Format(time.DateOnly), r.Machine.CPUs, r.Machine.CPU, r.Machine.OS, r.Machine.Go, r.Rounds)
	if len(r.Throughput) > 0 {
		fmt.Fprintf(&b, "\n## Throughput, a backlog of %d\n\n| contestant | records/s | CPU s per million | peak MiB | start ms | duplicates | missing |\n| --- | --- | --- | --- | --- | --- | --- |\n", r.Records)
		for _, t := range r.Throughput {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", t.Contestant, t.Rate.text(0), t.CPU.text(2), t.Peak.text(0), t.Start.text(0), t.Counts.text())
		}
	}
	if len(r.Latency) > 0 {
		b.WriteString("\n## Latency, payment made to read_committed reader\n\n| contestant | records/s | p50 ms | p99 ms | max ms | duplicates | missing |\n| --- | --- | --- | --- | --- | --- | --- |\n")
		for _, l := range r.Latency {
			fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s | %s |\n", l.Contestant, l.Rate, l.P50.text(1), l.P99.text(1), l.Max.text(1), l.Counts.text())
		}
	}
	if len(r.Restart) > 0 {
		b.WriteString("\n## SIGKILL to new committed output\n\n| contestant | kills | ms | duplicates | missing |\n| --- | --- | --- | --- | --- |\n")
		for _, k := range r.Restart {
			fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", k.Contestant, k.Kills, k.Took.text(0), k.Counts.text())
		}
	}
	if len(r.Wanted) > 0 {
		b.WriteString("\n## Wanted\n\n| figure | wanted | got | |\n| --- | --- | --- | --- |\n")
		for _, w := range r.Wanted {
			b.WriteString(w.row())
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\nWRONG: %s\n", p)
	}
	return b.String()
}

func (s Spread) text(digits int) string {
	if s.Min == s.Max {
		return fmt.Sprintf("%.*f", digits, s.Median)
	}
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}

// text is the last two columns of a table.
func (c Counts) text() string { return fmt.Sprintf("%d | %d", c.Duplicates, c.Inputs-c.Unique) }

func (w Wanted) row() string {
	reached := "not reached"
	if w.Reached {
		reached = "reached"
	}
	return fmt.Sprintf("| %s | %s | %.2f | %s |\n", w.What, w.Want, w.Got, reached)
}
