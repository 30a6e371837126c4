// Command suites runs every test there is, suite by suite, each within its
// budget of minutes, and says what each took:
//
//	go run ./test/suites [-results DIR] [-list] [SUITE...]
//
// Without arguments it runs all suites in the order of the table in table.go.
// It fails when a test fails, when a test is skipped, when a suite ran no
// test, and when a suite took longer than its budget. EXACTLY_TEST_SIZE chooses
// the size: small (an ordinary run) or full. With -results each suite's row is
// also written to DIR/suites.md, where the rows of other suites stay, and tests
// find DIR in EXACTLY_RESULTS_DIR.
package main
