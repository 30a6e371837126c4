package telemetry

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"exactly"
	"exactly/internal/engine"
)

func start(t *testing.T, c Config) *Telemetry {
	t.Helper()
	c.Pipeline, c.Log = "payments", slog.New(slog.DiscardHandler)
	tel, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Close(t.Context()); err != nil && !errors.Is(err, t.Context().Err()) {
			t.Error(err)
		}
	})
	return tel
}

func get(t *testing.T, tel *Telemetry, path, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+tel.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestHealthFollowsTheTasks(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Listen: "127.0.0.1:0"})
	want := func(step, path string, code int) {
		t.Helper()
		if got, body := get(t, tel, path, ""); got != code {
			t.Errorf("%s: %s gives %d, want %d: %s", step, path, got, code, body)
		}
	}
	want("at the start", "/readyz", 503)
	want("at the start", "/healthz", 200)
	tel.See(exactly.Event{Kind: engine.WorkerStarted})
	tel.See(exactly.Event{Kind: engine.TaskAssigned, Task: 1})
	want("taking over", "/readyz", 503)
	tel.See(exactly.Event{Kind: engine.TaskTakenOver, Task: 1})
	want("running", "/readyz", 200)
	tel.See(exactly.Event{Kind: engine.TaskFailed, Task: 1, Err: io.EOF})
	want("failed", "/healthz", 503)
	tel.See(exactly.Event{Kind: engine.TaskRevoked, Task: 1})
	want("revoked", "/healthz", 200)
}

func TestStatusShowsLagAndBreaker(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Listen: "127.0.0.1:0"})
	for task := range int32(2) {
		tel.See(exactly.Event{Kind: engine.SinkLag, Task: task, Sink: "records", Bytes: 10, Duration: time.Second * time.Duration(task)})
	}
	tel.See(exactly.Event{Kind: engine.BreakerOpened, Task: 1, Sink: "records"})
	_, body := get(t, tel, "/status", "")
	var got Status
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if s := got.Sinks["records"]; s == nil || s.LagBytes != 20 || s.LagMillis != 1000 || s.Breaker != "open" {
		t.Errorf("got %+v from %s", s, body)
	}
	tel.See(exactly.Event{Kind: engine.BreakerClosed, Task: 1, Sink: "records"})
	if s := tel.board.snapshot().Sinks["records"]; s.Breaker != "closed" {
		t.Errorf("got %+v", s)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Listen: "127.0.0.1:0"})
	tel.See(exactly.Event{Kind: engine.EpochDecided, Task: 3, N: 7, Bytes: 100})
	tel.See(exactly.Event{Kind: engine.DeadLetter, Sink: "", Detail: "not_json", N: 1})
	_, body := get(t, tel, "/metrics", "")
	for _, want := range []string{
		`exactly_source_records_total{pipeline="payments",task="3"} 7`,
		`exactly_dead_letters_total{code="not_json",pipeline="payments",sink=""} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

func TestTokenBeyondLoopback(t *testing.T) {
	t.Parallel()
	_, err := Start(Config{Listen: "0.0.0.0:0", Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, ErrNoToken) {
		t.Errorf("got %v, want %v", err, ErrNoToken)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tel := start(t, Config{Listen: "127.0.0.1:0", TokenFile: file})
	for token, want := range map[string]int{"": 401, "wrong": 401, "s3cret": 200} {
		if got, _ := get(t, tel, "/metrics", token); got != want {
			t.Errorf("token %q: got %d, want %d", token, got, want)
		}
	}
}

// TestPrepared: what is staged shows in metrics and status, and no old value stands
// for a system that does not answer.
func TestPrepared(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Listen: "127.0.0.1:0"})
	const count = `exactly_sink_prepared{pipeline="payments",sink="records"}`
	const oldest = `exactly_sink_oldest_prepared_seconds{pipeline="payments",sink="records"}`
	want := func(step, line string, there bool) {
		t.Helper()
		if _, body := get(t, tel, "/metrics", ""); strings.Contains(body, line) != there {
			t.Errorf("%s: that %s is there is %v, want %v", step, line, !there, there)
		}
	}
	tel.See(exactly.Event{Kind: engine.SinkStaged, Sink: "records", N: 2, Duration: 90 * time.Second})
	want("two orphans", count+" 2", true)
	want("two orphans", oldest+" 90", true)
	if s := tel.board.snapshot().Sinks["records"].Prepared; s == nil || s.Count != 2 || s.OldestMillis != 90_000 {
		t.Errorf("status: got %+v", s)
	}
	tel.See(exactly.Event{Kind: engine.SinkStaged, Sink: "records"})
	want("none", count+" 0", true)
	want("none", oldest+" 0", true)
	tel.See(exactly.Event{Kind: engine.SinkStaged, Sink: "records", Err: io.EOF})
	want("away", count, false)
	want("away", oldest, false)
	if s := tel.board.snapshot().Sinks["records"].Prepared; s != nil {
		t.Errorf("status of a system that is away: got %+v, want none", s)
	}
}
