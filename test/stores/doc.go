// Package stores holds the tests of the stores of internal/services: before a sink
// fails on Redis, S3, OpenSearch, Azure or Google Cloud Storage, one here shows
// whether the server does what the sink stands on. Run them with
//
//	go test -count=1 -tags services ./test/stores
package stores
