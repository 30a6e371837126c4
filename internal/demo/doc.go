// Package demo runs a pipeline in worker processes, kills them over and over,
// and shows what comes of it; it is what `exactly demo` does.
//
// The parent process holds everything that is not killed: an embedded Kafka
// (kfake, on real TCP ports) unless a real cluster is given, a partner with an
// HTTP API that misbehaves, a folder with a SQLite database and a lake of
// Parquet files. Workers are processes of this very program (`exactly run`),
// started with fail points under the parent's control: the parent arms a point
// in one worker, waits until the worker holds there, and sends SIGKILL, so that
// every phase of an epoch and of a takeover is hit. One worker is frozen right
// before its decision until another has taken over, and then wakes as a zombie.
//
// Meanwhile a reader (package watch) polls all sinks for effects of undecided
// epochs, and at the end an audit (package audit) compares every sink with the
// source. Neither knows anything of the engine.
//
// All choices come from one seed, which is printed. The moment at which a
// process dies is the scheduler's, so two runs of one seed are alike, not equal.
package demo
