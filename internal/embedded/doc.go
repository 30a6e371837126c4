// Package embedded starts the Kafka in this process that the demo and fast tests
// run on.
package embedded
