// Package step holds the steps between source and sinks: where, set, drop and
// flat_map, and the chain that runs them. Steps are deterministic: the same
// record gives the same result on replay, except for what is derived from
// Epoch, which the decision freezes.
package step
