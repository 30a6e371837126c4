package demo

import (
	"strings"
	"testing"

	"exactly/internal/audit"
	"exactly/internal/watch"
	"exactly/sink"
)

func TestRight(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change  func(r *Result)
		exactly bool
		control bool
	}{
		"all right":         {func(*Result) {}, true, true},
		"missing":           {func(r *Result) { r.Sinks[0].Missing = 1 }, false, false},
		"changed":           {func(r *Result) { r.Sinks[0].Changed = 1 }, false, false},
		"unexpected":        {func(r *Result) { r.Sinks[0].Unexpected = 1 }, false, false},
		"dead-lettered":     {func(r *Result) { r.Sinks[0].DeadLettered = 1 }, false, false},
		"duplicate":         {func(r *Result) { r.Sinks[0].Duplicate = 1 }, false, true},
		"conflicting write": {func(r *Result) { r.Sinks[0].ConflictingWrites = 1 }, false, true},
		"out of order":      {func(r *Result) { r.Sinks[0].OutOfOrder = 1 }, false, true},
		"seen undecided":    {func(r *Result) { r.Sinks[0].Watched = &watch.Seen{Violations: 1} }, false, true},
		"problem":           {func(r *Result) { r.Problems = []string{"x"} }, false, false},
	} {
		for g, want := range map[sink.Guarantee]bool{sink.ExactlyOnce: tt.exactly, sink.AtLeastOnce: tt.control} {
			r := &Result{Guarantee: g, Sinks: []Row{{Row: audit.Row{Sink: "enriched", Kind: "kafka"}}}}
			tt.change(r)
			if r.Right = r.right(); r.Right != want {
				t.Errorf("%s, %s: right %v, want %v", name, g, r.Right, want)
			}
			var b strings.Builder
			if err := r.Print(&b); err != nil {
				t.Fatal(err)
			}
			if said := !strings.Contains(b.String(), "WRONG"); said != want {
				t.Errorf("%s, %s: it prints\n%s", name, g, b.String())
			}
		}
	}
}
