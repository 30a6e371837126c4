package demo

import (
	"math/rand/v2"
	"slices"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// The phases that the demo's pipeline passes. Points of staging sinks are left
// out: it has none.
var (
	epochPhases = []failpoint.Point{
		failpoint.Filled, failpoint.FlushDone, failpoint.JournalBefore, failpoint.JournalAfter,
		failpoint.OffsetsBefore, failpoint.OffsetsAfter,
		failpoint.EndBefore, failpoint.EndAfter, failpoint.CommitBefore, failpoint.CommitAfter,
		failpoint.ApplyBefore, failpoint.ApplyAfter, failpoint.TrimAfter,
		failpoint.SinkTxnBefore, failpoint.SinkTxnAfter, failpoint.SinkStageAfter,
	}
	takeoverPhases = []failpoint.Point{
		failpoint.FenceBefore, failpoint.FenceA, failpoint.FenceB, failpoint.ReadAfter, failpoint.ClaimBefore, failpoint.ClaimAfter,
		failpoint.VerifyAfter, failpoint.RecoverAfter, failpoint.SweepAfter,
	}
)

// controlPhases are those of a run without the protocol.
var controlPhases = []failpoint.Point{
	failpoint.Filled, failpoint.FlushDone, failpoint.EndBefore, failpoint.EndAfter,
	failpoint.ApplyBefore, failpoint.ApplyAfter, failpoint.SinkTxnBefore, failpoint.SinkTxnAfter,
}

// randomKills is how many kills at random moments there are by default, beside
// one in each phase.
const randomKills = 4

// kind is how a kill finds its moment.
type kind int

const (
	random   kind = iota // at any moment
	inEpoch              // at a point of an epoch
	takeover             // at a point of the takeover that follows the step before
	restart              // no kill: stopped gracefully and started again
)

type step struct {
	kind  kind
	point failpoint.Point
}

// defaultKills is one per phase and a few at random.
var defaultKills = len(epochPhases) + len(takeoverPhases) + randomKills

// paymentsPerKill is how many payments a kill by default needs to have something
// to break.
const paymentsPerKill = 10

// makePlan orders the kills. Each takeover follows a kill in an epoch, at whose
// restart its point is armed. With fewer kills than phases the last phases are
// missed.
func makePlan(rng *rand.Rand, g sink.Guarantee, kills int) []step {
	epochs := append([]failpoint.Point(nil), epochPhases...)
	takeovers := append([]failpoint.Point(nil), takeoverPhases...)
	if g == sink.AtLeastOnce {
		epochs, takeovers = append([]failpoint.Point(nil), controlPhases...), nil
	}
	rng.Shuffle(len(epochs), func(i, j int) { epochs[i], epochs[j] = epochs[j], epochs[i] })
	rng.Shuffle(len(takeovers), func(i, j int) { takeovers[i], takeovers[j] = takeovers[j], takeovers[i] })
	var groups [][]step
	for i, p := range epochs {
		g := []step{{inEpoch, p}}
		if i < len(takeovers) {
			g = append(g, step{takeover, takeovers[i]})
		}
		groups = append(groups, g)
	}
	if kills < 0 { // the control has as many
		kills = defaultKills
	}
	for range kills - len(epochs) - len(takeovers) {
		at := rng.IntN(len(groups) + 1)
		groups = append(groups[:at:at], append([][]step{{{kind: random}}}, groups[at:]...)...)
	}
	var plan []step
	for _, g := range groups {
		plan = append(plan, g...)
	}
	return plan[:min(kills, len(plan))]
}

// again gives at most n kills to try once more, of phases that were missed.
func again(g sink.Guarantee, kills []Kill, n int) []step {
	var plan []step
	for _, p := range missed(g, kills) {
		if n--; n < 0 {
			break
		}
		if slices.Contains(takeoverPhases, p) {
			plan = append(plan, step{kind: restart}, step{takeover, p})
		} else {
			plan = append(plan, step{inEpoch, p})
		}
	}
	return plan
}

// missed gives the phases of the guarantee that no kill hit.
func missed(g sink.Guarantee, kills []Kill) []failpoint.Point {
	hit := map[string]bool{}
	for _, k := range kills {
		if !k.Random {
			hit[k.Phase] = true
		}
	}
	all := append(append([]failpoint.Point(nil), epochPhases...), takeoverPhases...)
	if g == sink.AtLeastOnce {
		all = controlPhases
	}
	out := []failpoint.Point{}
	for _, p := range all {
		if !hit[string(p)] {
			out = append(out, p)
		}
	}
	return out
}
