//go:build services

package failures

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"exactly/internal/failpoint"
	"exactly/internal/services"
	"exactly/test/rig"
)

// passes says which points a pipeline with one sink passes, besides those that
// every pipeline does. A point of staging sinks (before-prepare, prepared) is
// passed by no sink of the binary yet.
func passes(sink string, p failpoint.Point) bool {
	switch p {
	case failpoint.PrepareBefore, failpoint.PrepareAfter:
		return false
	case failpoint.ApplyBefore, failpoint.ApplyAfter, failpoint.TrimBefore, failpoint.TrimAfter,
		failpoint.SinkTxnBefore, failpoint.SinkTxnAfter:
		return sink != "enriched"
	case failpoint.CommitBefore, failpoint.CommitAfter, failpoint.SinkStageBefore, failpoint.SinkStageAfter,
		failpoint.SinkAbortBefore, failpoint.SinkAbortAfter:
		return sink == "lake"
	}
	return !strings.HasPrefix(string(p), "reset/")
}

// TestKillMatrix kills a worker with SIGKILL at each fail point, for each sink
// by itself, under load; at full size it loses the answer there too, and at a
// later hit. After each cell another life goes on; in the end everything is
// there once.
func TestKillMatrix(t *testing.T) {
	c := services.Kafka(t, three)
	for _, sink := range []string{"enriched", "records", "lake", "partner"} {
		t.Run(sink, func(t *testing.T) {
			m := newMatrix(t, c, sink)
			for _, place := range failpoint.Points() {
				if passes(sink, place.Point) {
					m.cell(place.Point)
				}
			}
			m.finish()
		})
	}
}

type matrix struct {
	*rig.Pipeline
	t     *testing.T
	l     *rig.Load
	sink  string
	cells int
	slow  time.Duration
}

func newMatrix(t *testing.T, c *services.KafkaCluster, sink string) *matrix {
	t.Helper()
	p := rig.New(t, c, rig.Shape{
		Tasks: 2, Sinks: []string{sink}, Epoch: "{ interval: 40ms }", Restart: forever, RollAge: "100ms",
	})
	l := p.Load(100, 0)
	l.Watch(p.Tasks, nil)
	return &matrix{Pipeline: p, t: t, l: l, sink: sink}
}

// cell kills a worker at the point; with the actions of a full run it also
// goes on there as if the answer had been lost.
func (m *matrix) cell(at failpoint.Point) {
	m.t.Helper()
	hits := []int{2}
	if strings.HasPrefix(string(at), "takeover/") || strings.Contains(string(at), "abort") {
		hits = []int{1} // each life has one takeover
	}
	if rig.Sized(m.t, false, true) {
		hits = append(hits, 1, 5)
	}
	slices.Sort(hits)
	for _, hit := range slices.Compact(hits) {
		if hit > 2 && (strings.HasPrefix(string(at), "takeover/") || strings.Contains(string(at), "abort")) {
			continue
		}
		begin := time.Now()
		if strings.Contains(string(at), "abort") {
			m.killed(failpoint.SinkStageAfter, 1) // leaves what is rolled back
		}
		m.killed(at, hit)
		m.cells++
		m.slow = max(m.slow, time.Since(begin))
	}
	if rig.Sized(m.t, false, true) {
		w := m.Run(0, fmt.Sprintf("%s:hit=1=error", at))
		m.AwaitTasks(m.Tasks, w)
		m.Stop(w)
		m.cells++
	}
}

// killed runs a life that ends at the point.
func (m *matrix) killed(at failpoint.Point, hit int) {
	m.t.Helper()
	w := m.Run(0, fmt.Sprintf("%s:hit=%d=kill", at, hit))
	if code := w.Exit(); code != -1 {
		m.t.Errorf("%s at %s, hit %d: the worker ended with exit code %d, not by SIGKILL\n%s", m.sink, at, hit, code, w.Last())
	}
}

func (m *matrix) finish() {
	m.t.Helper()
	w := m.Run(0)
	n := m.l.Stop()
	if m.Partner != nil {
		m.Partner.Calm()
	}
	m.l.Complete(w)
	m.Stop(w)
	m.l.WantDecided()
	m.WantRight(n)
	m.t.Logf("sink %s: %d cells, %d payments, the slowest cell took %s", m.sink, m.cells, n, m.slow.Round(time.Millisecond))
}

// TestKillsInReset kills the command that begins a new generation at each of
// its points; called again, it goes on where it stopped.
func TestKillsInReset(t *testing.T) {
	c := services.Kafka(t, three)
	p := rig.New(t, c, rig.Shape{Tasks: 2, Restart: forever, RollAge: "100ms"})
	l := p.Load(200, 0)
	n := 0
	for _, place := range failpoint.Points() {
		at := place.Point
		if !strings.HasPrefix(string(at), "reset/") && !strings.HasPrefix(string(at), "takeover/") {
			continue
		}
		w := p.Run(0)
		p.AwaitTasks(2, w)
		l.AtLeast(l.Written() + 50)
		p.Stop(w)
		p.ResetKilled(string(at) + ":hit=1=kill")
		p.Reset()
		n++
	}
	w := p.Run(0)
	total := l.Stop()
	p.Partner.Calm()
	l.WaitOutput(total) // watchers know the first generation only
	p.Stop(w)
	p.WantRight(total)
	t.Logf("%d resets killed and called again", n)
}
