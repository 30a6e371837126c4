// Package postgres is a proxy between a client and a PostgreSQL server that can
// hold, drop, cut, delay and rewrite single statements and the answers to them, by
// their text: the n-th COMMIT, the answer to a PREPARE TRANSACTION.
//
// It understands the framing of protocol 3 and which answer belongs to which
// statement, also in pipelines; connections have to be without TLS. What the server
// says of its transaction afterwards is not rewritten: behind an answer that was made
// an error it may well be whole. Only tests import it.
package postgres
