// Package postgres is an outbox sink that writes decided records into a table of
// a PostgreSQL database: one row per key (upsert), one per record (append), or
// whatever a statement of the user's does with each record.
//
// Exactly once comes from a ledger in the same database: a row per task, locked
// first and moved last in the same database transaction as the data. Apply takes
// exactly the next batch: what the ledger has passed already is skipped, a gap is
// refused (sink.ErrLedgerBehind), and so is the mark of another incarnation of
// the pipeline (sink.ErrForeignMark). So a batch that is applied twice, by
// whoever, has its effect once, and a COMMIT whose answer was lost is settled by
// what the ledger says.
//
// Rows that the database refuses (a constraint, a type, a trigger) become
// verdicts without their neighbours: a batch that was refused is made again under
// savepoints and halved until the rows at fault are alone. Verdicts are stored
// beside the ledger in the same transaction, until the journal has confirmed them.
//
// A row of a key is never overwritten by an older record: the ledger applies each
// task's records once and in order; the setting version compares what the user
// calls newer; a column exactly_order, where the table has it (create makes it),
// keeps the place of the last write beside the row. A table with neither refuses
// a further generation, since that may replay the past.
//
// Values travel as text and the server reads them by the types of the columns,
// so that numbers of any size and precision arrive as they were.
package postgres
