//go:build synctests

package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"exactly/internal/mutation"
)

var (
	mutations   = flag.Int("sim.mutations", 0, "how many schedules a broken rule may survive; 0: by EXACTLY_TEST_SIZE, 800 or 3,000")
	outputsOnly = flag.Int("sim.outputs", 300, "up to how many schedules are looked at by their outputs alone")
	one         = flag.String("sim.rule", "", "this rule only")
)

// TestMutations breaks one rule of the protocol at a time: the simulation has
// to notice each. The table also says what looking at outputs alone would have
// noticed, since a check that looks inside may know more than a user ever sees.
func TestMutations(t *testing.T) {
	n := *mutations
	if n == 0 {
		n = sized(t, 800, 3000)
	}
	if !mutation.Built {
		t.Fatal("built without the tag mutations")
	}
	var table strings.Builder
	table.WriteString("| broken rule | noticed in schedule | by | by outputs alone | as |\n| --- | ---: | --- | ---: | --- |\n")
	for _, rule := range mutation.Rules() {
		if *one != "" && string(rule) != *one {
			continue
		}
		at, why := notice(t, n, how{rule: rule})
		if why == "" {
			t.Errorf("rule %s: broken and not noticed in %d schedules", rule, at)
			continue
		}
		outAt, outWhy := "", ""
		if m, w := notice(t, min(n, *outputsOnly), how{rule: rule, outputs: true}); w != "" {
			outAt, outWhy = fmt.Sprint(m), w
		} else {
			outAt = fmt.Sprintf("not in %d", m)
		}
		t.Logf("%-20s noticed in schedule %d: %s; by outputs alone: %s %s", rule, at, why, outAt, outWhy)
		fmt.Fprintf(&table, "| %s | %d | %s | %s | %s |\n", rule, at, cell(why), outAt, cell(outWhy))
	}
	if *out != "" && !t.Failed() {
		if err := os.WriteFile(*out, []byte(table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// notice lives up to n schedules until one is wrong, and gives how many there
// were and the first line of what is wrong.
func notice(t *testing.T, n int, h how) (schedules int, why string) {
	var y tally
	y.each(t.Context(), *seed, n, h, func(_ schedule, r result) bool {
		if r.Wrong != "" && why == "" {
			why, _, _ = strings.Cut(r.Wrong, "\n")
		}
		return r.Wrong == ""
	})
	return y.n, why
}

// cell shortens a text for a table.
func cell(s string) string {
	const most = 240
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strings.ReplaceAll(s, "|", "\\|")
}
