// Package bench measures the engine beside a hand-written loop, on one Kafka
// and in one run: throughput and CPU on a backlog, latency at fixed rates, the
// time from SIGKILL to new output, peak memory.
//
// Every contestant is a process of this program, so that CPU and memory are its
// own, and all of them run the same steps over the same payments. Rounds are
// interleaved, so that a machine that slows down slows all of them. After each
// round the output is counted: a figure of an output that is wrong is none.
//
// Called by `exactly bench`. It starts no Kafka and leaves none of its topics
// and groups behind. See docs/bench.md for how to read it.
package bench
