package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
)

const audited = `
pipeline: payments
kafka: { brokers: "${BROKERS}" }
source: { topics: [payments.raw], fields: { payment_id: string, amount_cents: int, merchant_id: string, event_time: time } }
steps:
  - set: { processed_at: epoch.time }
sinks:
  out: { kafka: { topic: payments.out, key: payment_id } }
audit: { id: payment_id }
`

// TestProduceAndAudit copies the source by hand, as a pipeline would have, and
// then does it wrong.
func TestProduceAndAudit(t *testing.T) {
	t.Parallel()
	c, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(3, "payments.out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	path := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(path, []byte(audited), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"BROKERS": strings.Join(c.ListenAddrs(), ",")}

	if code, _, stderr := run(t, env, "produce", path, "--count", "5"); code != 3 || !strings.Contains(stderr, "topic payments.raw does not exist") {
		t.Errorf("produce without a topic: exit code %d, %s; want 3 and the topic's name", code, stderr)
	}
	code, stdout, stderr := run(t, env, "produce", path, "--count", "50", "--rate", "0", "--create", "2")
	if code != 0 || !strings.Contains(stdout, "go on with --first 50") {
		t.Fatalf("produce: exit code %d, %s %s", code, stdout, stderr)
	}

	if code, stdout, _ = run(t, env, "audit", path); code != 4 || !strings.Contains(stdout, "missing from payments.raw-") {
		t.Errorf("audit of an empty sink: exit code %d, want 4 and places:\n%s", code, stdout)
	}
	if code, _, _ = run(t, env, "audit", path, "--fail-on", "never"); code != 0 {
		t.Errorf("audit --fail-on never: exit code %d, want 0", code)
	}
	cl, copied := duplicate(t, c.ListenAddrs())
	code, stdout, stderr = run(t, env, "audit", path, "--json")
	var rep struct {
		Source int
		Sinks  []struct {
			Sink                     string
			Total, Unique, Duplicate int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &rep); err != nil || code != 0 {
		t.Fatalf("audit: exit code %d, %v, %s%s; want 0", code, err, stdout, stderr)
	}
	if rep.Source != 50 || rep.Sinks[0].Total != 50 || rep.Sinks[0].Unique != 50 {
		t.Errorf("report %+v, want 50 everywhere", rep)
	}
	if err := cl.ProduceSync(t.Context(), copied).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ = run(t, env, "audit", path); code != 4 || !strings.Contains(stdout, "out: duplicate") {
		t.Errorf("audit of a doubled record: exit code %d, want 4 and the finding:\n%s", code, stdout)
	}
	if code, _, stderr = run(t, env, "audit", path, "--fail-on", "sometimes"); code != 2 || !strings.Contains(stderr, "--fail-on") {
		t.Errorf("audit --fail-on sometimes: exit code %d, %s; want 2", code, stderr)
	}
	c.Close()
	if code, _, stderr = run(t, env, "audit", path, "--timeout", "2s"); code != 3 {
		t.Errorf("audit without brokers: exit code %d, %s; want 3", code, stderr)
	}
}

// duplicate copies payments.raw to payments.out with one more field, and gives
// one record to copy again.
func duplicate(t *testing.T, brokers []string) (*kgo.Client, *kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("payments.raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	var last *kgo.Record
	for n := 0; n < 50; {
		cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			value := fmt.Sprintf(`%s,"processed_at":"2026-01-01T00:00:00Z"}`, strings.TrimSuffix(string(r.Value), "}"))
			last = &kgo.Record{Topic: "payments.out", Key: r.Key, Value: []byte(value)}
			if err := cl.ProduceSync(t.Context(), last).FirstErr(); err != nil {
				t.Error(err)
			}
			n++
		})
	}
	again := *last
	return cl, &kgo.Record{Topic: again.Topic, Key: again.Key, Value: again.Value}
}
