// Command exactly runs pipelines from Kafka to many systems, each effect exactly
// once. See its own help, and docs/tutorial.md.
package main
