// Package journal is the record that decides: what one task's journal partition
// holds, its format versions and its codec. The last committed record of the
// partition is the truth about the task (protocol: "The idea").
//
// It does no I/O; internal/broker reads and writes the topic. The format is
// JSON, so that a person can read a journal with any Kafka tool.
package journal
