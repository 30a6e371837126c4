// Package engine carries out the protocol of internal/epoch: it runs a worker's
// tasks, their steps and sinks, and does all the I/O that the state machine
// asks for. It knows no concrete sink and no command; the world listens to its
// Events.
//
// One Worker is one process in the pipeline's consumer group. Each task that it
// owns is a supervisor that makes one attempt after the other; an attempt is an
// event loop (attempt.go) around one epoch.Machine. Everything that blocks runs
// beside the loop and reports back as an event; the loop itself blocks for
// nothing, so that commits, confirmations and cursors go on whatever the source
// or a sink does.
//
// Ownership: the loop's goroutine owns the attempt's fields; a runner (one per
// outbox sink) owns its sink task; they talk by channels only.
package engine
