//go:build model

package model

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	centre      = "protocol.pml"
	outbox      = "protocol-outbox.pml"
	generations = "protocol-generations.pml"
)

// TestModelsHold searches each model for a violation, the larger ones by
// bit-state search.
func TestModelsHold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		small, full spec
	}{
		{"owner and zombie", spec{file: centre, defs: "-DM=2 -DNW=1 -DTIMEOUTS=1"}, spec{file: centre, defs: "-DM=3 -DNW=1 -DTIMEOUTS=1"}},
		{
			"old owner and two new ones",
			spec{file: centre, defs: "-DM=2 -DNW=2 -DTIMEOUTS=0 -DOLD"},
			spec{file: centre, defs: "-DM=2 -DNW=2 -DTIMEOUTS=0 -DOLD -DRETAKES=1 -DAMAX=8", bits: true, run: bitstate()},
		},
		{
			"three owners",
			spec{file: centre, defs: "-DM=1 -DNW=2 -DTIMEOUTS=0"},
			spec{file: centre, defs: "-DM=2 -DNW=2 -DTIMEOUTS=0", bits: true, run: bitstate()},
		},
		{"ledger sink", spec{file: outbox, defs: "-DSINKS=1 -DNW=1"}, spec{file: outbox, defs: "-DSINKS=1 -DNW=1 -DN=3 -DP=2"}},
		{"object sink", spec{file: outbox, defs: "-DSINKS=2 -DNW=1"}, spec{file: outbox, defs: "-DSINKS=2 -DNW=1 -DTIMEOUTS=1", bits: true, run: bitstate()}},
		{"both sinks", spec{file: outbox, defs: "-DSINKS=3 -DNW=0"}, spec{file: outbox, defs: "-DSINKS=3 -DNW=1", bits: true, run: bitstate()}},
		{"generations", spec{file: generations, defs: "-DOLD=1 -DBUMPS=2 -DNEW=1"}, spec{file: generations, defs: "-DOLD=1 -DBUMPS=1 -DNEW=2"}},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := tt.small
			if full(t) {
				s = tt.full
			}
			begun := time.Now()
			r := s.verify(t)
			if r.violated != "" {
				t.Errorf("%s %s: %s", s.file, s.defs, r.violated)
			}
			how := "every state"
			if s.bits {
				how = "bit-state search"
			}
			if r.stopped {
				how += ", until it was stopped"
			}
			report(t, "model.md", fmt.Sprintf("| %s | `%s` | `%s` | %d | %s | %.0f s |", tt.name, s.file, s.defs, r.states, how, time.Since(begun).Seconds()))
		})
	}
}

// bitstate: 2^32 bits, three hash functions, at most 15 minutes each.
func bitstate() []string { return []string{"-w32", "-k3", "-Q15"} }

// switches are the rules of each model, by the smallest constants that show what
// happens without.
func switches() []struct{ file, defs, names string } {
	return []struct{ file, defs, names string }{
		{centre, "-DM=2 -DNW=1 -DTIMEOUTS=1", "NO_CLAIM CARRY_EARLY RENEW NO_CHAIN SWEEP_ALL READ_EARLY NO_PENDING NO_LEDGER"},
		{outbox, "-DSINKS=1 -DNW=1", "NO_CLAIM LEDGER_ANY NO_LEDGER CURSOR_LOST VERDICT_DROP VERDICT_EARLY VERDICT_APART TRIM_EARLY"},
		{outbox, "-DSINKS=2 -DNW=1", "CURSOR_LOST CURSOR_EARLY TRIM_TAIL TRIM_RANGE ITEM_LOST ITEM_EARLY GONE_IS_DONE SWEEP_LISTED"},
		{generations, "-DOLD=1 -DBUMPS=2 -DNEW=1", "NO_SEAL SEAL_UNSEEN FENCE_ONE META_EARLY SWEEP_ANY_GEN SWEEP_OWN_GEN MARK_ANY_GEN NO_RESWEEP"},
	}
}

// TestSwitchesFail: a rule that is switched off must be noticed.
func TestSwitchesFail(t *testing.T) {
	t.Parallel()
	for _, tt := range switches() {
		for name := range strings.FieldsSeq(tt.names) {
			t.Run(strings.TrimSuffix(tt.file, ".pml")+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := spec{file: tt.file, defs: tt.defs + " -D" + name, quick: true}.verify(t)
				if r.violated == "" {
					t.Fatalf("nothing was noticed in %d states", r.states)
				}
				t.Log(r.violated)
			})
		}
	}
}

// TestEverySwitchIsListed: what a model documents as a switch is tested.
func TestEverySwitchIsListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, tt := range switches() {
		for name := range strings.FieldsSeq(tt.names) {
			listed[tt.file+" "+name] = true
		}
	}
	for _, file := range []string{centre, outbox, generations} {
		for _, name := range documented(t, file) {
			if !listed[file+" "+name] {
				t.Errorf("%s documents the switch %s, which no test throws", file, name)
			}
			delete(listed, file+" "+name)
		}
	}
	for left := range listed {
		t.Errorf("the test throws a switch that is not documented: %s", left)
	}
}
