// Package harness holds the tests of internal/services against real brokers:
// before a test of the product fails on a cluster, one here shows whether the
// cluster is what it is said to be. Run them with
//
//	go test -count=1 -tags services ./test/harness
package harness
