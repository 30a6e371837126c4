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
	mutations = flag.Int("sim.mutations", 0, "how many schedules a broken rule may survive; 0: by EXACTLY_TEST_SIZE, 800 or 3,000")
	one       = flag.String("sim.rule", "", "this rule only")
)

// TestMutations breaks one rule of the protocol at a time: the simulation has
// to notice each.
func TestMutations(t *testing.T) {
	n := *mutations
	if n == 0 {
		n = sized(t, 800, 3000)
	}
	if !mutation.Built {
		t.Fatal("built without the tag mutations")
	}
	var table strings.Builder
	table.WriteString("| broken rule | noticed in schedule | by |\n| --- | ---: | --- |\n")
	for _, rule := range mutation.Rules() {
		if *one != "" && string(rule) != *one {
			continue
		}
		var y tally
		var first schedule
		why := ""
		y.each(t.Context(), *seed, n, rule, func(s schedule, r result) bool {
			if r.Wrong != "" && why == "" {
				first, why = s, r.Wrong
			}
			return r.Wrong == ""
		})
		if why == "" {
			t.Errorf("rule %s: broken and not noticed in %d schedules", rule, y.n)
			continue
		}
		why, _, _ = strings.Cut(why, "\n")
		t.Logf("%-20s noticed in schedule %d (seed %d): %s", rule, y.n, first.Seed, why)
		fmt.Fprintf(&table, "| %s | %d | %s |\n", rule, y.n, strings.ReplaceAll(why, "|", "\\|"))
	}
	if *out != "" && !t.Failed() {
		if err := os.WriteFile(*out, []byte(table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}
