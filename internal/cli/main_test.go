package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"exactly/internal/cli"
	"exactly/internal/config"
	"exactly/internal/embedded"
	"exactly/internal/failpoint"
)

// run runs one command in this process.
func run(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	code = cli.Main(context.Background(), args, strings.NewReader(""), &out, &errs, lookup)
	return code, out.String(), errs.String()
}

const connected = `
pipeline: payments
kafka: { brokers: "${BROKERS}" }
source: { topics: [payments.raw] }
epoch: { timeout: "${TIMEOUT:-10s}" }
sinks:
  out: { kafka: { topic: "${TOPIC:-payments.enriched}" } }
  lake: { object: { url: "file://${DIR}" } }
worker: { dir: "${DIR}-worker" }
`

func cluster(t *testing.T) (env map[string]string, path string) {
	t.Helper()
	c, err := embedded.Start(kfake.NumBrokers(1),
		kfake.SeedTopics(3, "payments.raw"), kfake.SeedTopics(2, "payments.enriched"),
		kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "60000"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	path = filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(path, []byte(connected), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"BROKERS": strings.Join(c.ListenAddrs(), ","), "DIR": filepath.Join(t.TempDir(), "lake")}, path
}

func TestValidateConnect(t *testing.T) {
	t.Parallel()
	env, path := cluster(t)
	code, stdout, stderr := run(t, env, "validate", "--connect", "--json", path)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got struct {
		Valid   bool
		Checked []string
		Plan    struct {
			Topics []struct {
				Name       string
				Partitions int
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(got.Checked, "\n")
	for _, want := range []string{
		"answer", "source topic payments.raw has 3 partitions", "output topic payments.enriched has 2 partitions",
		"transaction time-out, 10.2s, is within", "sink lake (object)",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing says %q:\n%s", want, all)
		}
	}
	for _, topic := range got.Plan.Topics {
		if strings.HasSuffix(topic.Name, ".journal") && topic.Partitions != 3 {
			t.Errorf("%s has %d partitions, want those of the source, 3", topic.Name, topic.Partitions)
		}
	}
}

func TestValidateConnectFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  map[string]string
		code int
		want string
	}{
		{"no broker", map[string]string{"BROKERS": "127.0.0.1:1"}, 3, "reach kafka at [127.0.0.1:1]"},
		{"no topic", map[string]string{"TOPIC": "nowhere"}, 3, "topic nowhere: does not exist"},
		{"time-out", map[string]string{"TIMEOUT": "2m"}, 2, "the transaction time-out would be 2m0.2s"},
		{"sink", map[string]string{"DIR": "/proc/none"}, 3, "check sink lake (object)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env, path := cluster(t)
			for k, v := range c.set {
				env[k] = v
			}
			code, stdout, stderr := run(t, env, "validate", "--connect", "--timeout", "3s", "--log-level", "error", path)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q; stderr %q lacks %q", code, c.code, stdout, stderr, c.want)
			}
		})
	}
}

// TestReference keeps the published reference and schema equal to the code.
func TestReference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		args []string
	}{
		{"pipeline.schema.json", []string{"schema"}},
		{"pipeline.md", []string{"schema", "--docs"}},
		{"failpoints.md", nil},
	} {
		got := failpoint.Markdown()
		if c.args != nil {
			code, out, stderr := run(t, nil, c.args...)
			if code != 0 {
				t.Fatal(stderr)
			}
			got = out
		}
		path := filepath.Join("..", "..", "docs", "reference", c.file)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("docs/reference/%s is stale: run go generate ./internal/cli", c.file)
		}
	}
}

// TestExamples: every published pipeline file is right as it stands.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, path := range files {
		if code, _, stderr := run(t, map[string]string{"PG_DSN": "postgres://shop@localhost/shop"}, "validate", path); code != 0 || stderr != "" {
			t.Errorf("%s: exit code %d: %s", path, code, stderr)
		}
	}
}

// TestTemplateSinks: the sinks that the file of init shows in comments are right, too,
// once they are none any more.
func TestTemplateSinks(t *testing.T) {
	t.Parallel()
	before, sinks, found := strings.Cut(config.Template(), "\nsinks:\n")
	if !found {
		t.Fatal("the template has no sinks")
	}
	path := filepath.Join(t.TempDir(), "pipeline.yaml")
	file := before + "\nsinks:\n" + strings.ReplaceAll(sinks, "\n  # ", "\n  ")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, map[string]string{"PG_DSN": "postgres://app@localhost/app"}, "validate", path)
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, file)
	}
	for _, kind := range []string{"kafka", "sqlite", "postgres", "http", "object"} {
		if !strings.Contains(stdout, "("+kind+")") {
			t.Errorf("no sink of kind %s: %s", kind, stdout)
		}
	}
}
