// Package failpoint names the points between the durable acts of the protocol,
// so that a test, the simulation or the demo can kill, freeze, delay or fail a
// worker exactly there. A nil *Set is valid and does nothing: that is what a
// worker runs with unless it was started with --unsafe-failpoints.
package failpoint
