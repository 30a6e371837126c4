package demo

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"exactly/internal/failpoint"
	"exactly/sink"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestPlan(t *testing.T) {
	t.Parallel()
	everyPhase := len(epochPhases) + len(takeoverPhases)
	for _, tt := range []struct {
		name   string
		g      sink.Guarantee
		kills  int
		want   int // steps
		phases int // different ones
	}{
		{"default", sink.ExactlyOnce, -1, everyPhase + randomKills, everyPhase},
		{"many", sink.ExactlyOnce, 100, 100, everyPhase},
		{"few", sink.ExactlyOnce, 5, 5, 5},
		{"none", sink.ExactlyOnce, 0, 0, 0},
		{"control", sink.AtLeastOnce, -1, everyPhase + randomKills, len(controlPhases)},
	} {
		for seed := range uint64(50) {
			plan := makePlan(rng(seed), tt.g, tt.kills)
			phases := map[failpoint.Point]bool{}
			for i, st := range plan {
				if st.kind != random {
					phases[st.point] = true
				}
				if st.kind == takeover && (i == 0 || plan[i-1].kind == takeover) {
					t.Errorf("%s, seed %d: step %d hits a takeover, but no kill comes before it", tt.name, seed, i)
				}
			}
			if len(plan) != tt.want || len(phases) != tt.phases {
				t.Errorf("%s, seed %d: %d steps and %d phases, want %d and %d", tt.name, seed, len(plan), len(phases), tt.want, tt.phases)
			}
			if !reflect.DeepEqual(plan, makePlan(rng(seed), tt.g, tt.kills)) {
				t.Errorf("%s, seed %d: the same seed gave another plan", tt.name, seed)
			}
		}
	}
}

func TestMissedAndAgain(t *testing.T) {
	t.Parallel()
	var kills []Kill
	for _, p := range append(append([]failpoint.Point(nil), epochPhases...), takeoverPhases...) {
		if p != failpoint.Filled && p != failpoint.ClaimAfter {
			kills = append(kills, Kill{Phase: string(p)})
		}
	}
	kills = append(kills, Kill{Phase: string(failpoint.Filled), Random: true}) // does not count
	want := []failpoint.Point{failpoint.Filled, failpoint.ClaimAfter}
	if got := missed(sink.ExactlyOnce, kills); !reflect.DeepEqual(got, want) {
		t.Errorf("missed %v, want %v", got, want)
	}
	all := []step{{inEpoch, failpoint.Filled}, {kind: restart}, {takeover, failpoint.ClaimAfter}}
	if got := again(sink.ExactlyOnce, kills, 9); !reflect.DeepEqual(got, all) {
		t.Errorf("again %v, want %v", got, all)
	}
	if got := again(sink.ExactlyOnce, kills, 1); !reflect.DeepEqual(got, all[:1]) {
		t.Errorf("again, one kill left: %v, want %v", got, all[:1])
	}
}
