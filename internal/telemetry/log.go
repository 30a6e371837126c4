package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"exactly"
	"exactly/internal/engine"
)

// logger writes the life cycle: info for what is normal, warn for degraded,
// error for what a person must do. Never a line per record, and repeated
// failures of a sink at most once per second.
type logger struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]time.Time
}

const failureLogEvery = time.Second

func (l *logger) see(e exactly.Event) {
	level, attrs := slog.LevelInfo, []slog.Attr{slog.Int("task", int(e.Task))}
	switch e.Kind {
	case engine.WorkerStarted, engine.WorkerStopping, engine.WorkerStopped, engine.KafkaBack:
		attrs = nil
	case engine.TaskAssigned, engine.TaskRevoked, engine.PartitionsAdded:
	case engine.TaskTakenOver:
		attrs = append(attrs, slog.Int64("attempt", e.Attempt), slog.Int64("epoch", e.Epoch))
	case engine.AttemptOver:
		level = slog.LevelWarn
	case engine.KafkaAway:
		level, attrs = slog.LevelError, nil
	case engine.TaskFailed:
		level = slog.LevelError
	case engine.BreakerOpened, engine.TaskPaused:
		level = slog.LevelError
		attrs = append(attrs, slog.String("sink", e.Sink))
	case engine.BreakerClosed:
		attrs = append(attrs, slog.String("sink", e.Sink))
	case engine.SinkFailed:
		if !l.due(e.Sink) {
			return
		}
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("sink", e.Sink))
	case engine.UnexplainedGap:
		if !l.due("gap " + e.Detail) {
			return
		}
		level = slog.LevelError
		attrs = append(attrs, slog.String("partition", e.Detail), slog.Int64("offset", e.N))
	default:
		return
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	l.log.LogAttrs(context.Background(), level, string(e.Kind), attrs...)
}

func (l *logger) due(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last[what]) < failureLogEvery {
		return false
	}
	l.last[what] = now
	return true
}
