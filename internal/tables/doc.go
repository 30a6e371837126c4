// Package tables is what sinks for tables have in common: which column gets what
// of a record, which of two records of a key is newer, and how a run of records
// is taken in transactions that each move the ledger.
package tables
