// Package acceptance tests the whole product as its users run it: worker
// processes of the built binary against real Kafka brokers, killed, frozen and
// restarted, brokers as well. Every test ends with `exactly audit`, which
// compares source and sinks by itself, and most are watched all the while by a
// reader that would see effects of undecided epochs. That audit and reader can
// fail is shown by TestAuditFinds and TestAtLeastOnceDoubles.
//
//	go test -count=1 -tags services ./test/acceptance
//
// EXACTLY_TEST_SIZE=full runs the same tests with the sizes of a release.
// EXACTLY_TEST_SEED repeats the random choices of a run, which are logged.
package acceptance
