// Package rig is what tests of the whole product share: a payments pipeline of
// the built binary on real brokers, the stream of payments into it, its partner
// and other sinks, the reader that watches them all the while, chaos, and the
// audit at the end.
//
// Its functions fail the test at once when something is wrong with the rig, and
// go on where it is the product that is wrong.
//
// It holds no tests of its own.
package rig
