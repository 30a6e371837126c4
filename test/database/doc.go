// Package database holds pipelines into a real PostgreSQL from real brokers, under
// faults of both: it has tests only.
package database
