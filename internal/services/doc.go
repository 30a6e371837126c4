// Package services gives tests the real thing: Kafka clusters, PostgreSQL, Redis,
// stores of objects and documents, and processes of the exactly binary, which can
// be killed, frozen and started again.
//
// A test binary that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(services.Main(m)) }
//
// and asks with [Kafka], [Postgres], [Redis], [S3], [OpenSearch], [Azure] or [GCS]
// for what it needs, and that for a topic, database, bucket or index of the test's
// own. What is asked for twice is started once per test binary; [Stores] starts
// several at a time. Every server is a child of the test binary
// and dies with it, also when that is killed (on Linux by the parent death
// signal). Ports are taken outside of the range from which the kernel hands
// out ports to clients, so that a broker which was killed finds its own port
// free, and are locked against other test binaries.
//
// Programs are installed by the scripts in test/services when they are first
// needed, into the folder that [Dir] names. Nothing is ever skipped: what
// cannot be started fails the test, with the log of the server.
//
// It holds no test of its own that needs a service; those are in test/harness.
// Only tests import it.
package services
