// Package httpsink is the outbox sink that makes one HTTP call for each decided
// record.
//
// It has no transaction and no ledger at its side, so "exactly once" is a
// contract with the partner: every call carries an idempotency key that is the
// same in every attempt, process and generation, and the partner carries a key
// out once. The package upholds its half:
//
//   - I: the key and the bytes of a record never change. The body is the decided
//     record, verbatim, in every attempt; no key contains attempt, epoch or
//     generation (draft-ietf-httpapi-idempotency-key).
//   - II: an unknown outcome (time-out, cut connection, lost answer) is asked
//     again with the same key; only an answer settles a record.
//   - III: records of one Kafka key, or of one idempotency key, form a lane:
//     their calls never overlap and never overtake each other. A record that
//     failed or was refused stops its lane, not the others.
//   - IV: only the record that failed is repeated. What was done beyond the
//     contiguous prefix is remembered until the prefix has passed it.
//
// It keeps no verdict durably (Features.DurableVerdicts is false): the rest of a
// lane is sent only after the engine has decided the verdict and calls again.
//
// It does not keep responses, and does not batch records into one call. The
// engine calls it through sink.Outbox; internal/catalog makes it from a pipeline
// file. The folder is called http; the package has a name of its own, so that it
// can be used beside net/http.
package httpsink
