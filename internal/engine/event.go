package engine

import "time"

// EventKind says what happened.
type EventKind string

// The kinds of events, in about the order of a life.
const (
	WorkerStarted   EventKind = "worker_started"
	TaskAssigned    EventKind = "task_assigned"
	TaskTakenOver   EventKind = "task_taken_over" // Duration: from the assignment
	EpochDecided    EventKind = "epoch_decided"   // N records in, Bytes; Duration: from begin to decision
	DeadLetter      EventKind = "dead_letter"     // Detail: code; Sink, where one refused it
	TombstoneDrop   EventKind = "tombstone_dropped"
	SinkApplied     EventKind = "sink_applied" // N records, Bytes; Duration of the call
	SinkCommitted   EventKind = "sink_committed"
	SinkFailed      EventKind = "sink_failed" // Err; it is tried again
	BreakerOpened   EventKind = "breaker_opened"
	BreakerClosed   EventKind = "breaker_closed"
	SinkLag         EventKind = "sink_lag"    // Bytes in the outbox beyond the sink, Duration: age of the oldest
	SinkStaged      EventKind = "sink_staged" // N pieces of work wait in the Sink, whoever staged them, Duration: age of the oldest; Err: it could not be asked
	OutboxFull      EventKind = "outbox_full"
	AttemptOver     EventKind = "attempt_over" // Err
	TaskRevoked     EventKind = "task_revoked"
	TaskPaused      EventKind = "task_paused" // a two-phase Sink is away, Err; no transaction is open meanwhile
	TaskFailed      EventKind = "task_failed" // Err: the process stops
	UnexplainedGap  EventKind = "unexplained_gap"
	WorkerStopping  EventKind = "worker_stopping"
	WorkerStopped   EventKind = "worker_stopped"
	KafkaAway       EventKind = "kafka_away" // Err
	KafkaBack       EventKind = "kafka_back"
	PartitionsAdded EventKind = "partitions_added"
)

// Event is something that a listener may want to know. Fields that a kind does
// not mention are zero.
type Event struct {
	Kind     EventKind
	Time     time.Time
	Task     int32
	Attempt  int64
	Epoch    int64
	Sink     string
	N        int64
	Bytes    int64
	Duration time.Duration
	Detail   string
	Err      error
}
