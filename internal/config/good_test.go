package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"exactly/internal/config"
	"exactly/sink"
)

// TestGood holds every effective value of each good file, and why.
func TestGood(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			f, err := config.Load(path, kinds(), environment)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			for _, v := range f.Explain() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Path, v.Value, strings.ReplaceAll(v.Why, path, "FILE"))
			}
			w.Flush()
			if strings.Contains(b.String(), "hunter2") {
				t.Errorf("a secret is shown:\n%s", b.String())
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", b.String())
		})
	}
}

func TestValuesReachTheStructs(t *testing.T) {
	t.Parallel()
	f, err := config.Load("testdata/good/everything.yaml", kinds(), environment)
	if err != nil {
		t.Fatal(err)
	}
	checks := []struct{ name, got, want string }{
		{"guarantee", string(f.Guarantee), string(sink.AtLeastOnce)},
		{"interval", f.Epoch.Interval.String(), (90 * time.Second).String()},
		{"max_bytes", fmt.Sprint(f.Epoch.MaxBytes), fmt.Sprint(3 << 19)},
		{"secret", f.Kafka.SASL.OAuth.ClientSecret, "hunter2"},
		{"broker secret", f.Broker().SASL.OAuth.ClientSecret, "hunter2"},
		{"fields", f.Source.Fields["amount_cents"], "int"},
		{"set in order", fmt.Sprint(f.Steps[2].Set), "[{fee amount_cents * 29 / 1000 + 30} {at epoch.time}]"},
		{"sinks in order", f.Sinks[0].Name + f.Sinks[1].Name + f.Sinks[2].Name + f.Sinks[3].Name, "enrichedrecordslakepartner"},
		{"where", f.Sinks[0].Where, "amount > 100"},
		{"kind", f.Sinks[3].Kind, "http"},
		{"header", f.Sinks[3].Settings.(*httpSink).Headers["Authorization"], "Bearer hunter2"},
		{"default in a list", fmt.Sprint(f.Sinks[3].Settings.(*httpSink).Retries), "[{2 false} {1.5 true}]"},
		{"optional", f.Sinks[3].Settings.(*httpSink).Auth.TokenFile, "/run/token"},
		{"sink line", fmt.Sprint(f.Sinks[1].Line, f.Sinks[1].Column), "36 3"},
		{"outputs", strings.Join(f.Outputs(), ","), "payments.enriched"},
		{"transaction time-out", f.TransactionTimeout().String(), (2*91*time.Second + 5*time.Minute).String()},
		{"string", f.String(), "pipeline payments (testdata/good/everything.yaml)"},
	}
	for _, c := range checks {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestTransactionTimeoutIsAtLeastTenSeconds(t *testing.T) {
	t.Parallel()
	f := config.File{Epoch: config.Epoch{Interval: time.Second, Timeout: 2 * time.Second}}
	if got := f.TransactionTimeout(); got != 10*time.Second {
		t.Errorf("got %s, want 10s", got)
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, code string }{
		{"missing", filepath.Join(t.TempDir(), "none.yaml"), "config_read"},
		{"directory", t.TempDir(), "config_read"},
		{"large", large, "config_shape"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(c.path, kinds(), nil)
			list := config.List(err)
			if len(list) != 1 || list[0].Code != c.code || list[0].File != c.path {
				t.Errorf("got %v, want one %s", err, c.code)
			}
		})
	}
}

func TestFileVariable(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("pass word\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("p.yaml", []byte(`
pipeline: payments
kafka:
  brokers: a:1
  sasl: { mechanism: SCRAM-SHA-256, username: u, password: "${file:`+secret+`}" }
source: { topics: in }
sinks: { out: { kafka: { topic: out } } }
`), kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Kafka.SASL.Password; got != "pass word" {
		t.Errorf("got %q", got)
	}
	if len(f.Warnings) != 0 {
		t.Errorf("warnings: %v", f.Warnings)
	}
}

func TestSinkError(t *testing.T) {
	t.Parallel()
	f, err := config.Load("testdata/good/everything.yaml", kinds(), environment)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sink, cause string
		path, want        string
		line              int
	}{
		{"setting", "lake", "roll.size: is odd", "sinks.lake.object.roll.size", "is odd", 37},
		{"with the sink's name", "lake", "sink lake: object.url: is odd", "sinks.lake.object.url", "is odd", 37},
		{"map entry", "partner", "headers.Authorization: no", "sinks.partner.http.headers.Authorization", "no", 41},
		{"default", "records", "mode.x: no", "sinks.records.sqlite", "mode.x: no", 36},
		{"no setting", "records", "disk: full", "sinks.records.sqlite", "disk: full", 36},
		{"unknown sink", "other", "disk: full", "sinks.other", "disk: full", 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := f.SinkError(c.sink, fmt.Errorf("%s", c.cause))
			if got.Path != c.path || got.Cause != c.want || got.Line != c.line {
				t.Errorf("got %s %q line %d, want %s %q line %d", got.Path, got.Cause, got.Line, c.path, c.want, c.line)
			}
			if again := f.SinkError(c.sink, fmt.Errorf("open: %w", got)); again != got {
				t.Errorf("a placed error got another place: %v", again)
			}
		})
	}
}
