//go:build services

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/bench"
	"exactly/internal/services"
)

func TestMain(m *testing.M) { os.Exit(services.Main(m)) }

// TestQuick: everything once. Times are not looked at, but that they are there:
// the counts must be right, and nothing stays behind.
func TestQuick(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 1})
	db := services.Postgres(t, true)
	database := db.Database(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only a slow machine needs it
	defer cancel()
	dir := t.TempDir()
	file := filepath.Join(dir, "bench.json")
	cmd := exec.CommandContext(ctx, services.Exactly(t, false), "bench", "--quick", "--records", "5000",
		"--brokers", strings.Join(c.Bootstrap(), ","), "--postgres", db.DSN(database), "--json", file, "--dir", "work", "--profiles", "profiles")
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("exactly bench: %v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	if profiles, err := filepath.Glob(filepath.Join(dir, "profiles", "*.pprof")); err != nil || len(profiles) < 4 {
		t.Errorf("profiles of the contestants: %v, %v", profiles, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var res bench.Result
	if err := dec.Decode(&res); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	checkResult(t, &res)
	for _, title := range []string{"## Throughput", "## Latency", "## SIGKILL", "## Wanted"} {
		if !strings.Contains(stdout.String(), title) {
			t.Errorf("the Markdown has no %q:\n%s", title, stdout.Bytes())
		}
	}
	sql, err := pgx.Connect(ctx, db.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sql.Close(context.Background()) }()
	var schemas int
	if err := sql.QueryRow(ctx, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'bench%'").Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas were left behind; %v", schemas, err)
	}
	topics, err := c.Admin(t).ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topics.Names() {
		if strings.Contains(name, "bench-") {
			t.Errorf("topic %s was left behind", name)
		}
	}
}

func checkResult(t *testing.T, res *bench.Result) {
	t.Helper()
	if !res.Right || len(res.Problems) > 0 || res.Records != 5000 || res.Rounds != 1 {
		t.Errorf("right %t, problems %v, %d records, %d rounds", res.Right, res.Problems, res.Records, res.Rounds)
	}
	var names []string
	for _, r := range res.Throughput {
		names = append(names, r.Contestant)
		checkSpreads(t, r.Contestant, r.Rate, r.CPU, r.Peak, r.Start)
		checkCounts(t, r.Contestant, r.Counts, 5000)
	}
	want(t, "throughput", names, "loop 100ms", "at_least_once 100ms", "exactly_once 10ms", "exactly_once 100ms")
	names = nil
	for _, r := range res.Latency {
		names = append(names, r.Contestant)
		checkSpreads(t, r.Contestant, r.P50, r.P99, r.Max)
		checkCounts(t, r.Contestant, r.Counts, 500)
		if r.Rate != 500 || r.Samples != 500 {
			t.Errorf("latency of %s: %d samples at %v/s", r.Contestant, r.Samples, r.Rate)
		}
	}
	want(t, "latency", names, "loop 10ms", "loop 100ms", "at_least_once 100ms", "exactly_once 10ms", "exactly_once 100ms")
	names = nil
	for _, r := range res.Restart {
		names = append(names, r.Contestant)
		checkSpreads(t, r.Contestant, r.Took)
		checkCounts(t, r.Contestant, r.Counts, 1000)
		if r.Kills != 1 {
			t.Errorf("restart of %s: %d kills", r.Contestant, r.Kills)
		}
	}
	want(t, "restart", names, "loop, static id 100ms", "at_least_once 100ms", "exactly_once 10ms", "exactly_once 100ms",
		"exactly_once 100ms, rows by upsert", "exactly_once 100ms, rows by two_phase")
	if len(res.Wanted) != 6 { // nothing is measured at 10,000 a second
		t.Errorf("wanted: %+v", res.Wanted)
	}
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func checkSpreads(t *testing.T, who string, ss ...bench.Spread) {
	t.Helper()
	for i, s := range ss {
		if s.Min <= 0 || s.Median < s.Min || s.Max < s.Median {
			t.Errorf("%s: figure %d is %+v", who, i, s)
		}
	}
}

// checkCounts: at_least_once is killed as well, and may double then.
func checkCounts(t *testing.T, who string, c bench.Counts, atLeast int64) {
	t.Helper()
	if c.Inputs < atLeast || c.Unique != c.Inputs || c.Unknown != 0 || c.Wrong != 0 {
		t.Errorf("%s: %+v", who, c)
	}
	if c.Duplicates != 0 && !strings.HasPrefix(who, "at_least_once") {
		t.Errorf("%s: %d duplicates", who, c.Duplicates)
	}
}
