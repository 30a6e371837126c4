// Package sinktest is the conformance suite for sinks: the same scenarios
// against every one, steered by the interfaces that a sink implements and the
// features that it claims. One call runs it:
//
//	func TestConformance(t *testing.T) {
//		sinktest.Run(t, sinktest.Subject{Open: func(t sinktest.TB, variant string) sinktest.Target {
//			path := filepath.Join(t.TempDir(), "x.db")
//			return sinktest.Target{
//				New:  func(t sinktest.TB) sink.Sink { return mustOpen(t, path) },
//				Read: func(t sinktest.TB) []sinktest.Row { return readAll(t, path) },
//			}
//		}})
//	}
//
// The suite plays the engine: it decides epochs, remembers what a journal
// would remember, calls the sink as sink.Sink's caller does, and crashes, loses
// answers, wakes zombies and races second owners in between. After each
// scenario an ordinary reader of the target must see the effect of every
// decided record exactly once, in order, and every refused record must have
// exactly one verdict.
//
// A crash is a panic out of a fail point, after which the sink is abandoned
// and a new one is built on the same target; therefore a sink must hit its fail
// points (sink.BeforeCommit and so on) on the goroutine that was called.
// RunKilled does the same with real processes and SIGKILL.
//
// The package also holds model sinks over an in-memory Server: ModelOutbox,
// ModelStaging and ModelStager. They show the contract at its shortest, serve
// the simulation and the engine's tests, and prove that the suite can fail:
// each Defect that they can be given turns it red.
//
// Memory is that of the process: what the heap grows by while records pass
// through, and while the service is down. Call Run without t.Parallel before it.
//
// It does not test what needs Kafka: that a Transactional sink's messages are
// part of the decision is the engine's affair.
package sinktest
