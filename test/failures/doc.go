// Package failures shows on real brokers that the Kafka entries of
// docs/failure-modes.md cannot happen here: worker processes of the built
// binary behind a proxy that holds, drops, cuts, repeats and rewrites single
// requests and answers, with brokers and workers killed and frozen. The number
// of the entry stands at each test; where it is not obvious that a test could
// fail, a control beside it does what the product does not, and fails.
//
// Every test ends with `exactly audit`, and with a reader that has nothing in
// common with the product (librdkafka), which has to agree.
//
//	go test -count=1 -tags services ./test/failures
//
// EXACTLY_TEST_SIZE=full runs the same tests with the sizes of a release.
package failures
