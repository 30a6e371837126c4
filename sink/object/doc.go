// Package object is the sink that writes files: JSON Lines or Parquet, below a
// url. It is an outbox sink that stages (sink.OutboxStager): a file collects
// decided records of one or many epochs, is finished when it is ripe, handed to
// the engine as a committable, and gets its final name after the decision that
// lists it. So files of hundreds of MB go with epochs of 50 ms, and a reader
// never sees a part of a file, a record twice, or one that was not decided.
//
// # Ranges
//
// A task's files form groups. A group holds every record for this sink in a
// range of the outbox, From (exclusive) through Through (inclusive); the ranges
// of successive groups join without gap or overlap, and a group is one
// sink.Committable. Without partition_by a group is one file. With it, it is
// all files that were open at once, since one cursor cannot stand at different
// places for different files.
//
// Three kinds of records are inside a range and in no file: those that were not
// for this sink, tombstones, and those that were refused. A group that holds
// nothing else is a committable without files: it only moves the cursor, so
// that the outbox can be trimmed when nothing matches. It becomes ripe by age,
// as others do.
//
// # Verdicts
//
// The sink has no ledger, so Features.DurableVerdicts is false. A verdict is
// given by Apply when the record is taken in, and given again by the next
// attempt if that one collects the record again. The caller therefore makes a
// verdict durable in the decision that lists the committable whose range holds
// its position, not earlier (else a crash in between gives the dead letter
// twice) and not later. The verdicts that wait are bounded: a group with
// maxVerdicts of them is ripe.
//
// # What the caller has to know
//
//  1. Apply may stop short without verdict or error (Result.Through): then
//     enough groups wait for Stage.
//  2. Stage has to be called also when nothing comes: age counts from the
//     first Stage that found something in the group.
//  3. A Stage that failed may be repeated and gives the same committables.
//  4. What a dead worker collected and had not staged, or had staged and not
//     decided, is collected again by the next attempt, from the cursor on.
//  5. An error of class fatal ends the attempt; the cursor has not moved.
//
// A mark below the url binds a pipeline's sink to one incarnation.
//
// For AtLeastOnce a final name has a random part: a replay is a second file.
//
// Readers of the files, for audits: Files, ReadFile and Rows.
package object
