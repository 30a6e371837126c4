package audit

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Kind is a kind of finding.
type Kind string

// The kinds of findings.
const (
	Missing    Kind = "missing"
	Duplicate  Kind = "duplicate"
	Changed    Kind = "changed"
	Unexpected Kind = "unexpected"
	OutOfOrder Kind = "out_of_order"
	Conflict   Kind = "conflicting_write"
)

// Finding is one thing that is wrong, with its coordinates.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Sink   string `json:"sink"`
	Table  string `json:"table,omitempty"` // of a sink with several
	ID     string `json:"id,omitempty"`
	Source string `json:"source,omitempty"` // topic-partition@offset
	Place  string `json:"place,omitempty"`  // in the sink
	Detail string `json:"detail,omitempty"`
}

// String is one line for people.
func (f Finding) String() string {
	s := f.Sink + ": "
	if f.Table != "" {
		s += f.Table + ": "
	}
	s += string(f.Kind)
	for _, part := range []struct{ label, text string }{
		{" ", f.ID}, {" from ", f.Source}, {" at ", f.Place}, {": ", f.Detail},
	} {
		if part.text != "" {
			s += part.label + part.text
		}
	}
	return s
}

// Row is what was found about one sink. Total is Unique + Duplicate +
// Unexpected.
type Row struct {
	Sink       string `json:"sink"`
	Kind       string `json:"kind"`
	Expected   int64  `json:"expected"`  // records that it must hold
	Total      int64  `json:"total"`     // records that it holds
	Unique     int64  `json:"unique"`    // expected ones that it holds, copies not counted
	Missing    int64  `json:"missing"`   // expected ones that it does not hold
	Duplicate  int64  `json:"duplicate"` // copies beyond the first
	Ordered    bool   `json:"ordered"`   // the sink tells in what order it got them: else none is compared
	OutOfOrder int64  `json:"out_of_order"`
	Changed    int64  `json:"changed"`    // held with another value
	Unexpected int64  `json:"unexpected"` // held, but not from the source

	DeadLettered      int64 `json:"dead_lettered"`      // refused by the sink: accounted for
	ConflictingWrites int64 `json:"conflicting_writes"` // writes beyond one per source record, where counted

	Notes    []string  `json:"notes,omitempty"`
	Findings []Finding `json:"findings,omitempty"` // the first of each kind

	kinds map[Kind]int
}

// Wrong counts everything that makes a row wrong.
func (r *Row) Wrong() int64 {
	return r.Missing + r.Duplicate + r.OutOfOrder + r.Changed + r.Unexpected + r.ConflictingWrites
}

// Report is the outcome of an audit.
type Report struct {
	Source     int64    `json:"source"` // records read from the source
	Partitions int      `json:"partitions"`
	Sinks      []Row    `json:"sinks"`
	Unverified []string `json:"unverified_fields,omitempty"` // not compared, since they come from the epoch
	Notes      []string `json:"notes,omitempty"`
}

// Severity is how bad an outcome is.
type Severity string

// The severities, as --fail-on names them.
const (
	Nothing Severity = "never"
	Warning Severity = "warning" // something could not be verified, or there are dead letters
	Error   Severity = "error"   // something is wrong
)

// Severity gives the worst that was found, or Nothing.
func (r *Report) Severity() Severity {
	worst := Nothing
	if len(r.Notes) > 0 {
		worst = Warning
	}
	for i := range r.Sinks {
		row := &r.Sinks[i]
		if row.Wrong() > 0 {
			return Error
		}
		if row.DeadLettered > 0 || len(row.Notes) > 0 || row.Kind == "topic" && row.Total > 0 {
			worst = Warning
		}
	}
	return worst
}

// Fails reports whether the outcome is at least as bad as failOn.
func (r *Report) Fails(failOn Severity) bool {
	switch failOn {
	case Nothing:
		return false
	case Warning:
		return r.Severity() != Nothing
	}
	return r.Severity() == Error
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "source: %d records in %d partitions\n", r.Source, r.Partitions)
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "sink\tkind\texpected\ttotal\tunique\tmissing\tduplicate\tout of order\tchanged\tunexpected\tdead-lettered\tconflicting writes\t")
	for i := range r.Sinks {
		row := &r.Sinks[i]
		fmt.Fprintf(tw, "%s\t%s\t", row.Sink, row.Kind)
		counts := func(ns ...int64) {
			for _, n := range ns {
				fmt.Fprint(tw, strconv.FormatInt(n, 10)+"\t")
			}
		}
		counts(row.Expected, row.Total, row.Unique, row.Missing, row.Duplicate)
		if row.Ordered {
			counts(row.OutOfOrder)
		} else {
			fmt.Fprint(tw, "-\t")
		}
		counts(row.Changed, row.Unexpected, row.DeadLettered, row.ConflictingWrites)
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	r.details(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) details(b *strings.Builder) {
	if len(r.Unverified) > 0 {
		fmt.Fprintf(b, "not compared, since they come from the epoch: %s\n", strings.Join(r.Unverified, ", "))
	}
	for _, n := range r.Notes {
		fmt.Fprintln(b, "note:", n)
	}
	for i := range r.Sinks {
		for _, n := range r.Sinks[i].Notes {
			fmt.Fprintf(b, "note: %s: %s\n", r.Sinks[i].Sink, n)
		}
		for _, f := range r.Sinks[i].Findings {
			fmt.Fprintln(b, f)
		}
	}
	switch r.Severity() {
	case Error:
		fmt.Fprintln(b, "WRONG: see above")
	case Warning:
		fmt.Fprintln(b, "right, with notes")
	default:
		fmt.Fprintln(b, "right")
	}
}
