// Package kafka is the transactional sink: it turns a record into messages that
// ride inside the epoch's Kafka transaction, which is the decision itself.
//
// It only routes: topic, partition, key, value, headers and timestamp are taken
// from the record or computed by expressions. It holds no connection; the
// engine produces the messages, creates topics and asks the cluster what
// exists. So there is nothing to prepare, commit, or mark.
//
// A record that cannot be routed (an expression fails, a topic outside the
// list) is poison and becomes a dead letter of the same transaction. A name
// that Kafka would refuse never reaches the producer, where it would fail the
// whole transaction, and with it the task.
//
// Route may be called from the goroutines of several tasks at once.
package kafka
