// Package postgres is a proxy between a client and a PostgreSQL server that can
// hold, drop, cut and delay single statements and the answers to them, by their
// text: the n-th COMMIT, the answer to a PREPARE TRANSACTION.
//
// It understands the framing of protocol 3 and which answer belongs to which
// statement, also in pipelines; connections have to be without TLS. Only tests
// import it.
package postgres
