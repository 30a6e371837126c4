// Package epoch is the commit protocol as a pure state machine: one Machine is
// one attempt of one task. It takes events ("the journal record is in the
// transaction") and answers with actions ("end the transaction of epoch 7"). It
// has no I/O, no clock and no goroutine; internal/engine carries its actions
// out, and testdata/*.txt tell crash stories against it.
//
// The caller's duties:
//
//  1. Start only after a heartbeat has just proved the membership.
//  2. Carry actions out in the order given; report each with its event, or
//     report Failed. Actions of one Step may run side by side where they name
//     different epochs or sinks.
//  3. After Over touch no sink and no producer of this attempt again; begin
//     anew with a new Machine, if the task is still ours.
//  4. Produce records of an epoch only between Begin and Barrier, and only
//     while CanFill.
//
// What it upholds (numbers as in docs/invariants.md):
//
//   - I1: nothing is published, committed or confirmed before Decided.
//   - I2: epochs are decided in order, without gaps, two open at most.
//   - I3: a journal record lists every decided committable not known as done.
//   - I4: the claim carries over exactly what was read after both fences, and
//     nothing starts before it was seen that nobody decided in between.
//   - I5: cursors and their verdicts move in the same decision.
//   - I6: records of n+1 are produced only after those of n were acknowledged.
//   - I7: an outcome other than "committed" ends the attempt.
//   - I8: the outbox is trimmed only below every decided cursor and every
//     unconfirmed committable.
package epoch
