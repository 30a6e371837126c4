//go:build model

package model

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"exactly/internal/model"
)

// pair is a Spin model and the world of internal/model that it shows.
type pair struct {
	spec  spec
	world model.Bounds
	// broken are switches whose states must be other ones in each of the two.
	// Only such as leave the number of states finite when nothing stops at the
	// first violation.
	broken string
	// alike are those of them whose states must be the same ones in both.
	alike string
}

func pairs() map[string]pair {
	return map[string]pair{
		"owner and zombie": {
			spec{file: centre, defs: "-DM=2 -DNW=1 -DTIMEOUTS=0"},
			model.Bounds{Kind: model.Staging, Records: 2, Workers: 1},
			"NO_CHAIN NO_PENDING", "NO_CHAIN NO_PENDING",
		},
		"a time-out": {
			spec{file: centre, defs: "-DM=2 -DNW=1 -DTIMEOUTS=1"},
			model.Bounds{Kind: model.Staging, Records: 2, Workers: 1, Timeouts: 1},
			"", "",
		},
		"old owner": {
			spec{file: centre, defs: "-DM=2 -DNW=1 -DTIMEOUTS=0 -DOLD"},
			model.Bounds{Kind: model.Staging, Records: 2, Workers: 1, Old: true},
			"RENEW", "",
		},
		"ledger": {
			spec{file: outbox, defs: "-DSINKS=1 -DNW=1 -DLOSSES=0"},
			model.Bounds{Kind: model.Outbox, Records: 2, Workers: 1, Ledger: true, Refused: 2},
			"NO_CLAIM VERDICT_EARLY", "NO_CLAIM",
		},
		"object": {
			spec{file: outbox, defs: "-DSINKS=2 -DNW=0"},
			model.Bounds{Kind: model.Outbox, Records: 2, Object: true, Losses: 1},
			"ITEM_LOST ITEM_EARLY GONE_IS_DONE", "ITEM_LOST ITEM_EARLY GONE_IS_DONE",
		},
		"object and zombie": {
			spec{file: outbox, defs: "-DSINKS=2 -DNW=1 -DLOSSES=0"},
			model.Bounds{Kind: model.Outbox, Records: 2, Workers: 1, Object: true},
			"", "",
		},
		"both sinks": {
			spec{file: outbox, defs: "-DSINKS=3 -DNW=0"},
			model.Bounds{Kind: model.Outbox, Records: 2, Ledger: true, Object: true, Refused: 2, Losses: 1},
			"", "",
		},
		"generations": {
			spec{file: generations, defs: "-DOLD=1 -DBUMPS=1 -DNEW=1"},
			model.Bounds{Kind: model.Generations, Records: 2, Workers: 1, Bumps: 1, Next: 1},
			"SEAL_UNSEEN META_EARLY MARK_ANY_GEN", "MARK_ANY_GEN",
		},
	}
}

// TestSameStates: Spin and the relation visit the same states, as far as both
// see them; and a rule that is switched off in one of them shows.
func TestSameStates(t *testing.T) {
	t.Parallel()
	for name, p := range pairs() {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			spin := p.states(t, "")
			relation := explore(t, p.world, "")
			if diff := compare(spin, relation); diff != "" {
				t.Fatalf("%s %s: %s", p.spec.file, p.spec.defs, diff)
			}
			t.Logf("%d states in both", len(spin))
			for rule := range strings.FieldsSeq(p.broken) {
				other := p.states(t, rule)
				if compare(other, relation) == "" {
					t.Errorf("%s in the Spin model shows no other states", rule)
				}
				broken := explore(t, p.world, rule)
				if compare(spin, broken) == "" {
					t.Errorf("%s in the relation shows no other states", rule)
				}
				if diff := compare(other, broken); diff != "" && slices.Contains(strings.Fields(p.alike), rule) {
					t.Errorf("%s: %s", rule, diff)
				}
				t.Logf("%s: %d states in Spin, %d in the relation", rule, len(other), len(broken))
			}
		})
	}
}

// states are those that the Spin model prints; assertions and ends do not stop it.
func (p pair) states(t *testing.T, rule string) map[string]struct{} {
	t.Helper()
	s := p.spec
	s.all, s.emitting, s.quick = true, true, true
	if rule != "" {
		s.defs += " -D" + rule
		s.run = []string{"-A", "-E"}
	}
	r := s.verify(t)
	if r.violated != "" {
		t.Fatalf("%s %s: %s", s.file, s.defs, r.violated)
	}
	return r.emitted
}

func explore(t *testing.T, b model.Bounds, rule string) map[string]struct{} {
	t.Helper()
	b.Break, b.Lax = rule, rule != ""
	rep, err := model.Explore(b)
	if err != nil {
		t.Fatal(err)
	}
	return rep.Projected
}

// compare says which states only one of two sets holds.
func compare(spin, relation map[string]struct{}) string {
	lack := func(a, b map[string]struct{}) (out []string) {
		for s := range a {
			if _, ok := b[s]; !ok {
				out = append(out, s)
			}
		}
		slices.Sort(out)
		return out
	}
	var out []string
	if l := lack(spin, relation); len(l) > 0 {
		out = append(out, fmt.Sprintf("%d states are in Spin alone, as %s", len(l), l[0]))
	}
	if l := lack(relation, spin); len(l) > 0 {
		out = append(out, fmt.Sprintf("%d states are in the relation alone, as %s", len(l), l[0]))
	}
	return strings.Join(out, "; ")
}

var documentedSwitch = regexp.MustCompile(`(?m)^ \*   ([A-Z_]+)  `)

// documented are the switches that the comment of a model lists.
func documented(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(source(t, file))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range documentedSwitch.FindAllStringSubmatch(string(b), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s documents no switches", file)
	}
	return out
}
