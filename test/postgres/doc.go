// Package postgres runs the conformance suite of sinks against sink/postgres on
// a real server, and what is special about PostgreSQL.
package postgres
