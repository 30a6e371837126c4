//go:build services

package rig

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"exactly/internal/failpoint"
)

// passes says which points a pipeline with one sink passes, besides those that
// every pipeline does.
func passes(sink string, p failpoint.Point) bool {
	twoPhase := strings.HasPrefix(sink, "staged")
	switch p {
	case failpoint.PrepareBefore, failpoint.PrepareAfter:
		return twoPhase
	case failpoint.ApplyBefore, failpoint.ApplyAfter, failpoint.TrimBefore, failpoint.TrimAfter:
		return sink != "enriched" && !twoPhase
	case failpoint.SinkTxnBefore, failpoint.SinkTxnAfter:
		return sink != "enriched"
	case failpoint.CommitBefore, failpoint.CommitAfter, failpoint.SinkStageBefore, failpoint.SinkStageAfter,
		failpoint.SinkAbortBefore, failpoint.SinkAbortAfter:
		return sink == "lake" || twoPhase
	}
	return !strings.HasPrefix(string(p), "reset/")
}

// MatrixShape is the pipeline of a kill matrix.
func MatrixShape(sink string) Shape {
	return Shape{
		Tasks: 2, Sinks: []string{sink}, Epoch: "{ interval: 40ms }", Restart: "{ max: 1000, delay: 50ms, max_delay: 500ms }", RollAge: "100ms",
	}
}

// KillAtEachPoint kills a worker of a pipeline with one sink at each fail point that
// it passes, under load; at full size also at other hits, and it loses the answer
// there. After each cell another life goes on; in the end everything is there once.
func KillAtEachPoint(p *Pipeline) {
	l := p.Load(100, 0)
	l.Watch(p.Tasks, nil)
	m := &matrix{Pipeline: p, t: p.T, l: l, sink: p.Sinks[0]}
	for _, place := range failpoint.Points() {
		if passes(m.sink, place.Point) {
			m.cell(place.Point)
		}
	}
	m.finish()
}

type matrix struct {
	*Pipeline
	t     *testing.T
	l     *Load
	sink  string
	cells int
	slow  time.Duration
}

// cell kills a worker at the point; with the actions of a full run it also
// goes on there as if the answer had been lost.
func (m *matrix) cell(at failpoint.Point) {
	m.t.Helper()
	hits := []int{2}
	if strings.HasPrefix(string(at), "takeover/") || strings.Contains(string(at), "abort") {
		hits = []int{1} // each life has one takeover
	}
	if Sized(m.t, false, true) {
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
	if Sized(m.t, false, true) {
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
	if m.Totals != "" {
		m.AwaitTotals(n)
	}
	m.Stop(w)
	m.l.WantDecided()
	m.WantRight(n)
	if m.Postgres != nil {
		m.WantNothingOpen()
	}
	m.t.Logf("sink %s: %d cells, %d payments, the slowest cell took %s", m.sink, m.cells, n, m.slow.Round(time.Millisecond))
}
