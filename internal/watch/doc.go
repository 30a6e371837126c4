// Package watch is a reader that polls the sinks of a running pipeline all the
// time and tells whether any of them ever showed an effect of an epoch that was
// not decided.
//
// It knows no engine, journal or ledger, only what brokers tell everybody: the
// group's committed source offsets and the state of the pipeline's
// transactions. The offsets of an epoch are committed by its transaction, so an
// effect of a record below the committed offset is decided. The order of looking
// makes the rest of the proof:
//
//  1. new effects in a sink, then
//  2. the committed offsets: an effect below them is decided. Above, the offsets
//     may only be late, since brokers write them after the decision; so, then
//  3. the state of the task's transactions. A transaction that is still Ongoing
//     now was undecided when the effect was seen.
//
// The effect is cleared if the offset passes it while every transaction that
// was Ongoing then still is: another one, decided before, moved it. It is a
// violation if the offset passes only when one of them has ended, although at
// some look before nothing was being committed and the offset did not pass; or
// if it never passes. If neither can be told, because a transaction was just
// being committed or ended between two looks, the effect is counted as
// undetermined, which is not a violation.
//
// So a violation is a proof, and its absence is as good as the polling is
// frequent. The demo uses it, and the tests on real brokers.
package watch
