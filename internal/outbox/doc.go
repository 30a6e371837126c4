// Package outbox is the format of outbox records, and Tail, the bounded memory
// of the newest decided ones, from which sinks that keep up are served without
// reading Kafka. It does no I/O.
package outbox
