// Package sim runs the whole engine, with the broker client and an embedded
// Kafka, in virtual time on a virtual network, under seeded schedules of
// crashes, zombies, lost, late, repeated and rewritten answers, rebalances,
// broker errors, time-outs, outages and new generations, and checks the promise
// of docs/protocol.md after each. See docs/simulation.md.
package sim
