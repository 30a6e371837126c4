// Package sqlite is an outbox sink that writes decided records into a table of
// an SQLite file, one row per key (upsert) or one per record (append).
//
// Exactly once comes from a ledger in the same file: a row per task, moved in
// the same transaction as the data. Apply takes exactly the next batch: what
// the ledger has passed already is skipped, a gap is refused
// (sink.ErrLedgerBehind), and so is the mark of another incarnation of the
// pipeline (sink.ErrForeignMark). So a batch that is applied twice, by whoever,
// has its effect once. Commits are durable (WAL, synchronous=FULL) before Apply
// returns, since the outbox is trimmed afterwards.
//
// Rows that the database refuses (a constraint, a type in a STRICT table, a
// trigger) become verdicts, without their neighbours. Verdicts are stored beside
// the ledger in the same transaction, until the journal has confirmed them.
//
// A row of a key is never overwritten by an older record: the ledger applies
// each task's records once and in order, the setting version compares what the
// user calls newer, and a column exactly_order, where the table has it (create
// makes it), keeps the place of the last write beside the row, for the case that
// somebody removes the ledger and replays the past.
//
// With sink.AtLeastOnce there is no ledger and no order: plain writes.
//
// The package does not migrate tables, and writes to one table of one file per
// sink. All tasks of a sink share one connection; processes on one machine may
// share the file.
package sqlite
