package telemetry

import (
	"sync"
	"time"

	"exactly"
	"exactly/internal/engine"
)

// TaskStatus is what is known of one task of this worker.
type TaskStatus struct {
	Task      int32     `json:"task"`
	State     string    `json:"state"`              // taking_over, running, paused, between_attempts, failed
	PausedBy  string    `json:"paused_by,omitzero"` // the sink
	Attempt   int64     `json:"attempt,omitzero"`
	Epoch     int64     `json:"epoch"`
	Decided   time.Time `json:"last_decided,omitzero"`
	LastError string    `json:"last_error,omitzero"`
}

// SinkStatus is what is known of one sink of this worker, over its tasks.
type SinkStatus struct {
	Breaker   string    `json:"breaker"` // closed, open
	LagBytes  int64     `json:"lag_bytes"`
	LagMillis int64     `json:"lag_ms"`
	Applied   time.Time `json:"last_applied,omitzero"`
	LastError string    `json:"last_error,omitzero"`

	Prepared *PreparedStatus `json:"prepared,omitzero"` // of two-phase sinks, of the whole pipeline; nil while the system does not answer
}

// PreparedStatus is what waits in a sink's system for somebody to finish it.
type PreparedStatus struct {
	Count        int64 `json:"count"`
	OldestMillis int64 `json:"oldest_ms"`
}

// Status is the worker's state, as /status shows it.
type Status struct {
	Pipeline string                 `json:"pipeline"`
	State    string                 `json:"state"` // starting, running, stopping, stopped
	Kafka    string                 `json:"kafka"` // reached, away
	Tasks    map[int32]*TaskStatus  `json:"tasks"`
	Sinks    map[string]*SinkStatus `json:"sinks"`
}

// board keeps the Status.
type board struct {
	mu     sync.Mutex
	st     Status
	lags   map[string]map[int32]exactly.Event
	opened map[string]map[int32]bool
}

func newBoard(pipeline string) *board {
	return &board{
		st:   Status{Pipeline: pipeline, State: "starting", Kafka: "reached", Tasks: map[int32]*TaskStatus{}, Sinks: map[string]*SinkStatus{}},
		lags: map[string]map[int32]exactly.Event{}, opened: map[string]map[int32]bool{},
	}
}

func (b *board) task(n int32) *TaskStatus {
	t := b.st.Tasks[n]
	if t == nil {
		t = &TaskStatus{Task: n}
		b.st.Tasks[n] = t
	}
	return t
}

func (b *board) sink(name string) *SinkStatus {
	s := b.st.Sinks[name]
	if s == nil {
		s = &SinkStatus{Breaker: "closed"}
		b.st.Sinks[name] = s
		b.lags[name], b.opened[name] = map[int32]exactly.Event{}, map[int32]bool{}
	}
	return s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (b *board) see(e exactly.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.Kind {
	case engine.WorkerStarted:
		b.st.State = "running"
	case engine.WorkerStopping:
		b.st.State = "stopping"
	case engine.WorkerStopped:
		b.st.State = "stopped"
	case engine.KafkaAway:
		b.st.Kafka = "away"
	case engine.KafkaBack:
		b.st.Kafka = "reached"
	case engine.TaskAssigned:
		b.task(e.Task).State = "taking_over"
	case engine.TaskTakenOver:
		t := b.task(e.Task)
		t.State, t.Attempt, t.Epoch, t.LastError, t.PausedBy = "running", e.Attempt, e.Epoch, "", ""
	case engine.TaskPaused:
		t := b.task(e.Task)
		t.State, t.PausedBy, t.LastError = "paused", e.Sink, text(e.Err)
	case engine.EpochDecided:
		t := b.task(e.Task)
		t.Epoch, t.Decided = e.Epoch, e.Time
	case engine.AttemptOver:
		t := b.task(e.Task)
		t.State, t.LastError, t.PausedBy = "between_attempts", text(e.Err), ""
	case engine.TaskFailed:
		t := b.task(e.Task)
		t.State, t.LastError = "failed", text(e.Err)
	case engine.TaskRevoked:
		delete(b.st.Tasks, e.Task)
		for _, m := range b.lags {
			delete(m, e.Task)
		}
		for _, m := range b.opened {
			delete(m, e.Task)
		}
	default:
		b.seeSink(e)
	}
}

func (b *board) seeSink(e exactly.Event) {
	if e.Sink == "" {
		return
	}
	s := b.sink(e.Sink)
	switch e.Kind {
	case engine.SinkApplied, engine.SinkCommitted:
		s.Applied, s.LastError = e.Time, ""
	case engine.SinkFailed:
		s.LastError = text(e.Err)
	case engine.BreakerOpened:
		b.opened[e.Sink][e.Task] = true
	case engine.BreakerClosed:
		delete(b.opened[e.Sink], e.Task)
	case engine.SinkStaged:
		s.Prepared = nil
		if e.Err == nil {
			s.Prepared = &PreparedStatus{Count: e.N, OldestMillis: e.Duration.Milliseconds()}
		}
	case engine.SinkLag:
		b.lags[e.Sink][e.Task] = e
	}
	s.Breaker = "closed"
	if len(b.opened[e.Sink]) > 0 {
		s.Breaker = "open"
	}
	s.LagBytes, s.LagMillis = 0, 0
	for _, l := range b.lags[e.Sink] {
		s.LagBytes += l.Bytes
		s.LagMillis = max(s.LagMillis, l.Duration.Milliseconds())
	}
}

// snapshot copies the Status.
func (b *board) snapshot() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.st
	out.Tasks, out.Sinks = map[int32]*TaskStatus{}, map[string]*SinkStatus{}
	for k, v := range b.st.Tasks {
		c := *v
		out.Tasks[k] = &c
	}
	for k, v := range b.st.Sinks {
		c := *v
		out.Sinks[k] = &c
	}
	return out
}

// ready: joined, and every assigned task runs.
func (s Status) ready() bool {
	if s.State != "running" || s.Kafka != "reached" {
		return false
	}
	for _, t := range s.Tasks {
		if t.State != "running" {
			return false
		}
	}
	return true
}

// healthy: no task has failed for good.
func (s Status) healthy() bool {
	for _, t := range s.Tasks {
		if t.State == "failed" {
			return false
		}
	}
	return true
}
