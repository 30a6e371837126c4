// Package cel compiles and runs the expressions of a pipeline, in the Common
// Expression Language (cel.dev), over the lazy record of package record.
//
// What an expression sees:
//
//   - the top-level fields of the record, by name; one that is missing is an
//     error of the record (has(field) asks, value.?field.orValue(x) stands in)
//   - value: the whole record as a map, for names that are no identifiers
//     (value["payment-id"]) or that the variables here hide (value.key)
//   - key: the Kafka key, a string, or bytes if it is not UTF-8; null: none
//   - headers: a map of the last value per name, strings or bytes likewise
//   - source.topic, source.partition, source.offset, source.timestamp
//   - epoch.number, epoch.attempt, epoch.time, where Options allow it
//
// There is no clock and no randomness, and maps are walked in a fixed order:
// the same record gives the same result on every machine and every replay.
//
// Numbers are exact. An integer is an int (or a uint, beyond the int range and
// within 64 bits); a number with a fraction or an exponent, in a record as in
// an expression, is a decimal and never passes through a double. decimal(x),
// string(x), int(x) and round(x, places[, mode]) convert. A double comes only
// from double(x) and does not mix with decimals.
//
// The package does no I/O and does not change records; package step does.
package cel
