package model

import "exactly/internal/journal"

// Config is what a Checker must know of the task and of the trace.
type Config struct {
	Incarnation string
	Generation  int32
	Task        int32
	Staging     bool // the pipeline has staging sinks

	// Broker: the trace holds what the broker did (Checker.Fenced, Committed and
	// Aborted), and an owner is believed only what the broker has confirmed.
	// Else both are inferred from what owners are told and read, which finds
	// less: a decision by an owner that was fenced passes.
	Broker bool

	// Starts are where the generation before was sealed; nil: anything goes.
	Starts []journal.Source
}
