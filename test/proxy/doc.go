// Package proxy is what proxies between a worker and the services it talks to
// have in common: the rules that say which message of a protocol meets which
// fault. A proxy cuts what passes into messages of a type of its own and asks
// its [Rules] about each; it needs to know how to forward a message and how to
// close a connection, nothing else.
//
// The faults: a message is held until it is released, delayed, dropped, sent
// again, rewritten, or its connection is cut in its place.
//
// The ones for Kafka, PostgreSQL and HTTP are in packages below this one. Only tests
// import it.
package proxy
