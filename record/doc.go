// Package record holds the unit that flows through a pipeline: a Kafka record
// over its raw bytes, with the place in the source that it came from.
//
// It does not decode more than it is asked for: fields of a JSON value are
// found lazily (see Doc). Nothing here does I/O. Every other package of the
// data path builds on it; it imports none of them.
package record
