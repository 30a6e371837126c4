package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"exactly/internal/audit"
	"exactly/internal/failpoint"
	"exactly/internal/watch"
	"exactly/sink"
)

// Result is the outcome of a demo; its JSON is part of the interface.
type Result struct {
	Right     bool           `json:"right"`
	Guarantee sink.Guarantee `json:"guarantee"`
	Seed      uint64         `json:"seed"`
	Payments  int64          `json:"payments"`
	Workers   int            `json:"workers"`
	Tasks     int            `json:"tasks"`
	Seconds   float64        `json:"seconds"`
	Dir       string         `json:"dir,omitempty"` // that was kept

	Sinks     []Row             `json:"sinks"`
	Merchants []Merchant        `json:"merchants"`
	Kills     []Kill            `json:"kills"`
	Missed    []failpoint.Point `json:"missed_phases"` // that no kill hit
	Zombie    *Zombie           `json:"zombie"`
	Faults    map[string]int    `json:"partner_faults"`
	Problems  []string          `json:"problems"` // beside what the rows say
}

// Row is what became of one sink.
type Row struct {
	audit.Row
	// Watched is what the reader saw that polled it all the time; nil where
	// nothing is ever undecided.
	Watched *watch.Seen `json:"watched,omitempty"`
}

func (r *Row) seen() int64 {
	if r.Watched == nil {
		return 0
	}
	return r.Watched.Violations
}

func (r *run) result(rep *audit.Report, stopped error) *Result {
	res := &Result{
		Guarantee: r.o.Guarantee, Seed: r.o.Seed, Payments: r.o.Payments, Workers: r.o.Workers, Tasks: r.o.Tasks,
		Seconds: time.Since(r.begin).Seconds(), Merchants: r.x.merchants(), Kills: r.chaos.kills,
		Missed: missed(r.o.Guarantee, r.chaos.kills), Zombie: r.chaos.zombie, Faults: r.part.injected(),
		Problems: append([]string{}, r.chaos.problems...),
	}
	for i := range res.Kills {
		k := &res.Kills[i]
		first, every := r.outs.measured(k.wait)
		k.NextMS, k.EveryMS = ms(first), ms(every)
	}
	watched := r.watch.Result()
	for _, row := range rep.Sinks {
		out := Row{Row: row}
		if seen, ok := watched[row.Sink]; ok && r.o.Guarantee == sink.ExactlyOnce {
			out.Watched = &seen
		}
		res.Sinks = append(res.Sinks, out)
	}
	if rep.Source != r.o.Payments {
		res.Problems = append(res.Problems, fmt.Sprintf("the source holds %d records, %d were written", rep.Source, r.o.Payments))
	}
	if stopped != nil {
		res.Problems = append(res.Problems, stopped.Error())
	}
	res.Right = res.right()
	if !r.temp || !res.Right {
		res.Dir = r.dir
	}
	return res
}

// right is the judgement behind the exit code. The control may show duplicates,
// but nothing else.
func (r *Result) right() bool {
	if len(r.Problems) > 0 {
		return false
	}
	for i := range r.Sinks {
		row := &r.Sinks[i]
		wrong := row.Wrong() + row.seen()
		if r.Guarantee == sink.AtLeastOnce {
			wrong = row.Missing + row.Changed + row.Unexpected
		}
		if wrong > 0 || row.DeadLettered > 0 {
			return false
		}
	}
	return true
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	r.table(&b)
	r.merchants(&b)
	r.kills(&b)
	for _, p := range r.Problems {
		fmt.Fprintln(&b, "PROBLEM:", p)
	}
	for i := range r.Sinks {
		row := &r.Sinks[i]
		for _, f := range row.Findings {
			if r.Guarantee == sink.ExactlyOnce {
				fmt.Fprintln(&b, f)
			}
		}
		if row.Watched != nil {
			for _, f := range row.Watched.First {
				fmt.Fprintf(&b, "%s: seen while undecided: %s\n", row.Sink, f)
			}
		}
	}
	r.conclude(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) table(b *strings.Builder) {
	fmt.Fprintf(b, "\n%d payments, %s, %d workers, %d tasks, %d kills, %.1f s (seed %d)\n\n",
		r.Payments, r.Guarantee, r.Workers, r.Tasks, len(r.Kills), r.Seconds, r.Seed)
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "sink\tkind\ttotal\tunique\tmissing\tduplicate\tout of order\tseen while undecided\tchanged\tunexpected\tconflicting writes\t")
	for i := range r.Sinks {
		row := &r.Sinks[i]
		seen := "-"
		if row.Watched != nil {
			seen = strconv.FormatInt(row.Watched.Violations, 10)
		}
		writes := "-"
		if row.Kind == "sqlite" {
			writes = strconv.FormatInt(row.ConflictingWrites, 10)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%s\t\n", row.Sink, row.Kind, row.Total, row.Unique,
			row.Missing, row.Duplicate, row.OutOfOrder, seen, row.Changed, row.Unexpected, writes)
	}
	_ = tw.Flush() // into memory
	r.watchedLines(b)
}

func (r *Result) watchedLines(b *strings.Builder) {
	var looks, effects, suspects, open int64
	for i := range r.Sinks {
		if s := r.Sinks[i].Watched; s != nil {
			looks, effects, suspects, open = looks+s.Looks, effects+s.Effects, suspects+s.Suspects, open+s.Undetermined
		}
	}
	if looks > 0 {
		fmt.Fprintf(b, "\nthe reader looked %d times and saw %d effects; %d were ahead of the committed offsets when seen, %d of these could not be told apart\n",
			looks, effects, suspects, open)
	}
	var faults []string
	for kind, n := range r.Faults {
		faults = append(faults, fmt.Sprintf("%d x %s", n, kind))
	}
	sort.Strings(faults)
	if len(faults) > 0 {
		fmt.Fprintf(b, "the partner misbehaved: %s\n", strings.Join(faults, ", "))
	}
}

func (r *Result) merchants(b *strings.Builder) {
	fmt.Fprint(b, "\n")
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "merchant\tpayments\t%s\t\n", strings.Join(sinkNames, "\t"))
	for _, m := range r.Merchants {
		fmt.Fprintf(tw, "%s\t%d\t", m.Merchant, m.Source)
		for _, name := range sinkNames {
			fmt.Fprintf(tw, "%d\t", m.Sinks[name])
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush() // into memory
}

func (r *Result) kills(b *strings.Builder) {
	if len(r.Kills) > 0 {
		fmt.Fprint(b, "\n")
		tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "kill\tworker\ttask\tepoch\tpayments out\tnext output\tevery task again\tphase\t")
		for _, k := range r.Kills {
			phase := k.Phase
			if k.Random {
				phase = "at random, after " + cmp.Or(phase, "its start")
			}
			fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", k.Number, k.Worker, k.Task, k.Epoch, k.Payments, millis(k.NextMS), millis(k.EveryMS), phase)
		}
		_ = tw.Flush() // into memory
		fmt.Fprintf(b, "from kill to next output: %s; until every task had output again: %s\n",
			spread(r.Kills, func(k Kill) float64 { return k.NextMS }), spread(r.Kills, func(k Kill) float64 { return k.EveryMS }))
	}
	if z := r.Zombie; z != nil {
		fmt.Fprintf(b, "zombie: worker %d was frozen before the decision of epoch %d of task %d; others had all tasks after %s; woken, it %s\n",
			z.Worker, z.Epoch, z.Task, millis(z.TakenOverMS), z.After)
	}
	if len(r.Missed) > 0 {
		fmt.Fprintf(b, "phases that no kill hit, of which this run shows nothing (more payments or kills will): %s\n", join(r.Missed))
	} else if len(r.Kills) > 0 {
		fmt.Fprintln(b, "every phase was hit by at least one kill")
	}
}

func join(ps []failpoint.Point) string {
	var names []string
	for _, p := range ps {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

func millis(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " ms"
}

// spread gives median and maximum of what was measured.
func spread(kills []Kill, of func(Kill) float64) string {
	var vs []float64
	for _, k := range kills {
		if v := of(k); v > 0 {
			vs = append(vs, v)
		}
	}
	if len(vs) == 0 {
		return "not measured"
	}
	slices.Sort(vs)
	return fmt.Sprintf("median %.0f ms, at most %.0f ms", vs[len(vs)/2], vs[len(vs)-1])
}

func (r *Result) conclude(b *strings.Builder) {
	if r.Dir != "" {
		fmt.Fprintf(b, "kept: %s\n", r.Dir)
	}
	var copies int64
	for i := range r.Sinks {
		copies += r.Sinks[i].Duplicate + r.Sinks[i].ConflictingWrites
	}
	switch {
	case !r.Right:
		fmt.Fprintln(b, "\nWRONG: see above")
	case r.Guarantee == sink.AtLeastOnce && copies == 0:
		fmt.Fprintln(b, "\nthe control: nothing is missing, and this time nothing was doubled; more kills will show it")
	case r.Guarantee == sink.AtLeastOnce:
		fmt.Fprintf(b, "\nthe control: nothing is missing, and without the protocol %d effects were doubled\n", copies)
	default:
		fmt.Fprintln(b, "\nRIGHT: every payment is in every sink exactly once")
	}
}
