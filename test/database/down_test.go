//go:build services

package database

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestDatabaseDown: the database is away for long under load. Tables fed from the
// outbox wait, with flat memory and an open breaker, and the other sinks go on; a
// two-phase table pauses its tasks, which says so. Afterwards all is there once.
func TestDatabaseDown(t *testing.T) {
	away := rig.Sized(t, 25*time.Second, 10*time.Minute)
	t.Run("outbox", func(t *testing.T) {
		p, w, l := underLoad(t, "upserted", "appended", "balances")
		before := decided(t, p)
		rig.Check(t, p.Postgres.Crash())
		least := int64(away.Seconds() * 100) // of 300 a second
		for begin := time.Now(); time.Since(begin) < away; {
			rig.Pause(t, time.Second)
			w.MustLive()
		}
		if now := decided(t, p); now < before+least {
			t.Errorf("the topic came from %d to %d records while the database was away, want %d more", before, now, least)
		}
		wantLogged(t, w, "breaker_opened", "upserted", "appended", "balances") // totals waits for upserted
		peak, err := w.PeakRSS()
		rig.Check(t, err)
		const most = 250 << 20
		if t.Logf("at most %d MiB resident", peak>>20); peak > most {
			t.Errorf("%d MiB were resident while the database was away, want at most %d", peak>>20, int64(most)>>20)
		}
		back(t, p, w, l)
		wantLogged(t, w, "breaker_closed", "upserted", "appended", "balances")
	})
	t.Run("two_phase", func(t *testing.T) {
		p, w, l := underLoad(t, "staged")
		rig.Check(t, p.Postgres.Crash())
		rig.Await(t, "the tasks to be paused", func(context.Context) (string, bool) {
			n := pausedBy(t, w, "staged")
			return fmt.Sprint(n), n == p.Tasks
		})
		rig.Pause(t, away)
		w.MustLive()
		if open := p.OpenBefore(t.Context(), time.Now().Add(-15*time.Second)); len(open) > 0 {
			t.Errorf("transactions are open while the tasks are paused: %v", open)
		}
		wantLogged(t, w, "task_paused", "staged")
		back(t, p, w, l)
	})
}

func underLoad(t *testing.T, tables ...string) (*rig.Pipeline, *rig.Worker, *rig.Load) {
	shape := rig.Shape{Tasks: 2, Sinks: append([]string{"enriched"}, tables...), Postgres: services.Postgres(t, true), HTTP: true}
	if slices.Contains(tables, "upserted") {
		shape.Totals = "upserted"
	}
	p := rig.New(t, services.Kafka(t, one), shape)
	l := p.Load(300, 0)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	p.AwaitTasks(p.Tasks, w)
	l.AtLeast(1000)
	return p, w, l
}

// back starts the database and wants all of it right in the end.
func back(t *testing.T, p *rig.Pipeline, w *rig.Worker, l *rig.Load) {
	t.Helper()
	rig.Check(t, p.Postgres.Start(t.Context()))
	n := l.Stop()
	l.Complete(w)
	if p.Totals != "" {
		p.AwaitTotals(n)
	}
	p.Stop(w)
	l.WantDecided()
	p.WantRight(n)
	p.WantNothingOpen()
}

// decided is how many source records are decided.
func decided(t *testing.T, p *rig.Pipeline) (n int64) {
	t.Helper()
	committed, err := p.Admin.FetchOffsets(t.Context(), p.Group())
	rig.Check(t, err)
	for _, r := range committed[p.Raw] {
		n += r.At
	}
	return n
}

func wantLogged(t *testing.T, w *rig.Worker, what string, sinks ...string) {
	t.Helper()
	for _, sink := range sinks {
		found := false
		for _, e := range w.Entries() {
			found = found || e.Msg == what && e.Sink == sink
		}
		if !found {
			t.Errorf("the log has no %s of sink %s:\n%s", what, sink, w.Last())
		}
	}
}

// workerStatus is what /status says.
type workerStatus struct {
	Tasks map[string]struct {
		State    string `json:"state"`
		PausedBy string `json:"paused_by"`
	} `json:"tasks"`
	Sinks map[string]struct {
		Prepared struct {
			Count        int64 `json:"count"`
			OldestMillis int64 `json:"oldest_ms"`
		} `json:"prepared"`
	} `json:"sinks"`
}

// pausedBy counts the tasks that wait for a sink.
func pausedBy(t *testing.T, w *rig.Worker, sink string) (n int) {
	t.Helper()
	for _, task := range status(t, w).Tasks {
		if task.State == "paused" && task.PausedBy == sink {
			n++
		}
	}
	return n
}

func status(t *testing.T, w *rig.Worker) (s workerStatus) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Listens()+"/status", nil)
	rig.Check(t, err)
	resp, err := http.DefaultClient.Do(req)
	rig.Check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	rig.Check(t, err)
	rig.Check(t, json.Unmarshal(b, &s))
	return s
}
