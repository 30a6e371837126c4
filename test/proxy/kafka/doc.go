// Package kafka is a proxy between Kafka clients and the brokers of a plaintext
// cluster, for tests that do to single requests and answers what networks and
// brokers do at the worst moment: see the acts of package proxy.
//
// A [Proxy] has one listener per broker, and rewrites the addresses of brokers
// in the answers that have some (Metadata, FindCoordinator, DescribeCluster,
// and Produce and Fetch after a move of leadership, KIP-951), so that a client
// which was given [Proxy.Bootstrap] never finds a way around it. Rules are
// added and removed while it runs.
//
// Messages of an api version that kmsg does not know pass unread.
package kafka
