// Package sink is the contract between the engine and the systems that a
// pipeline writes to.
//
// There are three kinds, by how an epoch's effects become visible:
//
//   - Transactional: the records ride inside the epoch's Kafka transaction
//     (Kafka topics). Nothing else is to be done.
//   - Staging: the sink prepares the epoch at its barrier, durable and
//     invisible, and commits after the decision (PREPARE TRANSACTION).
//   - Outbox: the sink never sees an undecided record. Decided records reach it
//     through the outbox topic, and it keeps a mark (its ledger) of how far it
//     has come, in the same sink transaction as the data. A sink that collects
//     records of many epochs into one file implements OutboxStager as well.
//
// The caller's duties, which the engine upholds:
//
//  1. One task of a sink is used by one attempt at a time in this process; an
//     older attempt in another process (a zombie) may still be calling.
//  2. Apply and Commit are called with decided work only, in epoch order.
//  3. Every call may be repeated after a crash with the same arguments.
//
// The sink's duties:
//
//  1. Commit, Abort, Sweep and Apply are idempotent, also across processes.
//  2. A mark written for another incarnation stops the start (ErrForeignMark).
//  3. "Not found" is never taken for "done" without a positive mark.
//  4. Errors are classed with Transient, Poison, InDoubt or Fatal; an unclassed
//     error counts as transient, since a dead letter or a stop by mistake is
//     worse than a retry.
package sink
