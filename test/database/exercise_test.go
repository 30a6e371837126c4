//go:build services

package database

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"exactly/internal/exercise"
	"exactly/internal/services"
	"exactly/test/rig"
)

// TestExercise: the classic exercise as a user runs it, with the topics and tables
// that people know; and that it does not take over what an earlier run left.
func TestExercise(t *testing.T) {
	c := services.Kafka(t, three)
	server := services.Postgres(t, true)
	dsn := server.DSN(server.Database(t))
	demo := func(more ...string) (code int, stdout, stderr string) {
		args := append([]string{"demo", "--brokers", strings.Join(c.Bootstrap(), ","), "--postgres", dsn, "--seed", "7"}, more...)
		cmd := exec.CommandContext(t.Context(), services.Exactly(t, false), args...)
		var out, errs bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}
	code, out, errs := demo()
	t.Logf("%s%s", errs, out)
	if code != 0 || !strings.Contains(out, "RIGHT: 1000 payments") {
		t.Fatalf("exit code %d", code)
	}
	infos, err := c.Admin(t).ListTopics(t.Context(), exercise.Raw, exercise.Enriched)
	rig.Check(t, err)
	configs, err := c.Admin(t).DescribeTopicConfigs(t.Context(), exercise.Raw, exercise.Enriched)
	rig.Check(t, err)
	for _, d := range infos.Sorted() {
		if d.Err != nil || len(d.Partitions) != exercise.Partitions || d.Partitions.NumReplicas() != 3 {
			t.Errorf("topic %s: %v, %d partitions, replication %d; want 4 and 3", d.Topic, d.Err, len(d.Partitions), d.Partitions.NumReplicas())
		}
	}
	for _, r := range configs {
		for _, cfg := range r.Configs {
			if cfg.Key == "min.insync.replicas" && cfg.MaybeValue() != "2" {
				t.Errorf("topic %s: min.insync.replicas %s, want 2", r.Name, cfg.MaybeValue())
			}
		}
	}
	if code, _, errs := demo(); code != 3 || !strings.Contains(errs, "--fresh") {
		t.Errorf("a second run: exit code %d, want 3 and the remedy: %s", code, errs)
	}
	code, out, errs = demo("--fresh", "--payments", "400", "--json")
	var res exercise.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil || code != 0 || !res.Right {
		t.Fatalf("a fresh run: exit code %d, %v\n%s%s", code, err, errs, out)
	}
	if res.KilledAt < 200 || res.KilledAt > 300 || len(res.Queries) != 3 || res.Queries[0].Rows[0][0] != "400" || len(res.Queries[1].Rows) != 20 {
		t.Errorf("got %+v", res)
	}
}
