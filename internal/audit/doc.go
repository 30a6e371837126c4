// Package audit says whether the sinks of a pipeline hold what they must hold,
// by looking at nothing but the source and the sinks.
//
// It reads the source topics up to their end, runs the pipeline's steps on every
// record, and compares the results with what each sink holds: missing,
// duplicate, changed, unexpected, out of order, dead-lettered. It never asks the
// engine, the journal, the ledgers or the outbox, so that a mistake in any of
// them cannot hide itself. Fields that come from `epoch` differ by nature and
// are left out of the comparison; the report names them.
//
// Two records are the same if their identity is: the expression `audit.id`, else
// the sink's own key, else the value itself.
//
// Order is checked where the sink keeps it: the records of one source partition
// must stand in their order within one partition of a topic and within one
// file, and calls of one key in the order of their execution.
//
// # Memory
//
// Of each record that a sink must hold, 48 bytes are kept (16 of a SHA-256 over
// the identity, 16 over the value, the source coordinates and a counter), sinks
// that are filled alike do not share them. A sink with order per key (HTTP)
// costs up to 80 bytes more per key. So a million records in four sinks take
// about 200 MB, and 270 MB with a partner API among them.
//
// The package is used by `exactly audit`, the demo and the tests.
package audit
