package model

import (
	"testing"
)

// worlds are those small enough for every run.
func worlds() map[string]Bounds {
	return map[string]Bounds{
		"staging":     {Kind: Staging, Records: 2, Workers: 1},
		"old owner":   {Kind: Staging, Records: 2, Workers: 1, Old: true},
		"ledger":      {Kind: Outbox, Records: 2, Workers: 1, Ledger: true, Refused: 2},
		"object":      {Kind: Outbox, Records: 2, Object: true, Losses: 1},
		"both":        {Kind: Outbox, Records: 2, Ledger: true, Object: true, Refused: 2, Losses: 1},
		"generations": {Kind: Generations, Records: 2, Workers: 1, Bumps: 1, Next: 1},
	}
}

// TestPromise visits every state of small worlds.
func TestPromise(t *testing.T) {
	t.Parallel()
	for name, b := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rep, err := Explore(b)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Ends == 0 {
				t.Error("no end was reached")
			}
			t.Logf("%d states, %d projected, %d ends", rep.States, len(rep.Projected), rep.Ends)
		})
	}
}

// TestBrokenRules: each rule that is switched off must be noticed, by the same
// switch that makes the Spin model fail.
func TestBrokenRules(t *testing.T) {
	t.Parallel()
	ledger, object := worlds()["ledger"], worlds()["object"]
	object.Workers, object.Refused = 1, 0
	bumps := worlds()["generations"]
	bumps.Bumps = 2
	two := worlds()["staging"]
	two.Workers = 2
	tests := []struct {
		b     Bounds
		rules []string
	}{
		{worlds()["staging"], []string{"NO_CLAIM", "NO_CHAIN", "SWEEP_ALL", "READ_EARLY", "NO_PENDING"}},
		{two, []string{"RENEW"}},
		{ledger, []string{"NO_CLAIM", "LEDGER_ANY", "NO_LEDGER", "CURSOR_LOST", "VERDICT_DROP", "VERDICT_EARLY", "VERDICT_APART", "TRIM_EARLY"}},
		{object, []string{"CURSOR_LOST", "CURSOR_EARLY", "TRIM_TAIL", "TRIM_RANGE", "ITEM_LOST", "ITEM_EARLY", "GONE_IS_DONE", "SWEEP_LISTED"}},
		{bumps, []string{"NO_SEAL", "SEAL_UNSEEN", "FENCE_ONE", "META_EARLY", "SWEEP_ANY_GEN", "SWEEP_OWN_GEN", "MARK_ANY_GEN", "NO_RESWEEP"}},
	}
	// CARRY_EARLY needs more states: the suite "model" has it.
	for _, tt := range tests {
		for _, rule := range tt.rules {
			t.Run(rule, func(t *testing.T) {
				t.Parallel()
				b := tt.b
				b.Break = rule
				rep, err := Explore(b)
				if err == nil {
					t.Fatalf("nothing was noticed in %d states", rep.States)
				}
				t.Logf("%.200s", err)
			})
		}
	}
}
