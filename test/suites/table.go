package main

import "time"

// suite is a row of the table: what to run and how long that may take.
type suite struct {
	name     string
	what     string
	needs    []string      // scripts of test/services whose install comes first, outside the budget
	small    time.Duration // budget of an ordinary run
	full     time.Duration // budget at full size
	prepare  [][]string    // commands that come before tests
	tests    []string      // arguments of go test; the last ones are packages
	commands [][]string    // or these, all of which must succeed
}

func (s suite) budget(full bool) time.Duration {
	if full {
		return s.full
	}
	return s.small
}

// table lists every suite. Each package under test/ that has tests belongs to
// exactly one: a test of this package sees to it.
func table() []suite {
	return []suite{
		{
			name: "lint", what: "format, vet, staticcheck",
			small: 10 * time.Minute, full: 10 * time.Minute,
			commands: [][]string{
				{"sh", "-c", `test -z "$(go tool gofumpt -l . | tee /dev/stderr)"`}, // it lists, and exits with 0
				{"go", "vet", "./..."},
				{"go", "vet", "-tags", "services,binsize,model,synctests,mutations", "./..."},
				{"go", "tool", "staticcheck", "./..."},
				{"go", "tool", "staticcheck", "-tags", "services,binsize,model,synctests,mutations", "./..."},
			},
		},
		{
			name: "unit", what: "every test that needs no service, with the race detector",
			small: 25 * time.Minute, full: 40 * time.Minute,
			tests: []string{"-race", "./..."},
		},
		{
			name: "sim", what: "the whole engine in virtual time under seeded schedules of faults; every broken rule noticed",
			small: 15 * time.Minute, full: 180 * time.Minute,
			prepare: [][]string{{"go", "run", "./test/sim/overlay", ".cache/sim"}},
			tests:   []string{"-overlay", ".cache/sim/overlay.json", "-tags", "synctests,mutations,netgo,osusergo", "./test/sim"},
		},
		{
			name: "model", what: "the Spin models, each switch of them, and the relation of internal/model beside them", needs: []string{"spin"},
			small: 6 * time.Minute, full: 100 * time.Minute,
			tests: []string{"-tags", "model", "./test/model"},
		},
		{
			name: "size", what: "the stripped binary against docs/binary-size.txt",
			small: 6 * time.Minute, full: 6 * time.Minute,
			tests: []string{"-tags", "binsize", "./test/binsize"},
		},
		{
			name: "harness", what: "the real brokers themselves", needs: []string{"kafka"},
			small: 12 * time.Minute, full: 12 * time.Minute,
			tests: []string{"-tags", "services", "./test/harness"},
		},
		{
			name: "broker", what: "internal/broker on real brokers: topics, rights, login, meta record", needs: []string{"kafka"},
			small: 8 * time.Minute, full: 8 * time.Minute,
			tests: []string{"-tags", "services", "./test/broker"},
		},
		{
			name: "postgres", what: "the PostgreSQL sink on a real server, also behind a pooler; each of its rules broken", needs: []string{"postgres", "pgbouncer"},
			small: 14 * time.Minute, full: 40 * time.Minute,
			tests: []string{"-tags", "services,mutations", "./test/postgres"},
		},
		{
			name: "stores", what: "Redis, S3, OpenSearch, Azure and Google Cloud Storage: conditions, one winner of two, SIGKILL",
			needs: []string{"redis", "versitygw", "opensearch", "azurite", "fakegcs"},
			small: 8 * time.Minute, full: 8 * time.Minute,
			tests: []string{"-tags", "services", "./test/stores"},
		},
		{
			name: "database", what: "pipelines from three brokers into PostgreSQL, in every way to write: workers, brokers and the database killed, the database away", needs: []string{"kafka", "postgres"},
			small: 18 * time.Minute, full: 180 * time.Minute,
			tests: []string{"-tags", "services", "./test/database"},
		},
		{
			name: "bench", what: "every figure once and small; the outputs are counted, no time is judged", needs: []string{"kafka", "postgres"},
			small: 8 * time.Minute, full: 8 * time.Minute,
			tests: []string{"-tags", "services", "./test/bench"},
		},
		{
			name: "acceptance", what: "workers and brokers killed, frozen and restarted under load; every sink audited", needs: []string{"kafka"},
			small: 30 * time.Minute, full: 150 * time.Minute,
			tests: []string{"-tags", "services", "./test/acceptance"},
		},
		{
			name: "failures", what: "the Kafka entries of docs/failure-modes.md on real brokers, behind a proxy that holds, drops, cuts, repeats and rewrites; re-read by librdkafka",
			needs: []string{"kafka", "librdkafka"},
			small: 20 * time.Minute, full: 120 * time.Minute,
			tests: []string{"-tags", "services", "./test/failures"},
		},
	}
}
