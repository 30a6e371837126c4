package model

import (
	"testing"
)

// worlds are those small enough for every run.
func worlds() map[string]Bounds {
	return map[string]Bounds{
		"staging":     {Kind: Staging, Records: 2, Workers: 1},
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
