// Package exercise is the classic one: payments from Kafka into PostgreSQL, a worker
// killed in the middle, and three queries that show whether anything was lost or
// doubled. It runs on a real cluster and a real database, under the names that
// people know.
package exercise
