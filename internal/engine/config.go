package engine

import (
	"fmt"
	"log/slog"
	"time"

	"exactly/internal/broker"
	"exactly/internal/deadletter"
	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/step"
)

// Config is a whole pipeline, ready to run. internal/config and the root
// package make it.
type Config struct {
	Pipeline  string
	Guarantee sink.Guarantee // "": exactly once
	Broker    broker.Config
	Source    Source
	Tasks     int32 // 0: DefaultTasks; fixed within a generation
	Epoch     Epoch
	Restart   Restart
	NewChain  func() step.Chain // one per task
	Sinks     []Sink
	Dead      DeadLetters
	Outbox    Outbox
	Memory    Memory

	Dir          string        // this worker's files: the member id it had; "": none are kept
	Worker       string        // for people; "": host and process id
	StopWithin   time.Duration // how long a graceful stop may take; 0: 20 s
	RenewEvery   time.Duration // how often an idle task renews its ids and the group's offsets, which expire after 7 days; 0: a day
	SweepEvery   time.Duration // how often what a late zombie staged is looked for; 0: twice the transaction time-out, at least 1 min
	ObserveEvery time.Duration // how often sinks are asked for what is staged in them; 0: 10 s
	Refresh      time.Duration // how often source topics are looked at for new partitions; 0: 5 s

	Events     func(Event) // nil: nobody listens. Must not block
	Trace      func(Step)  // nil: nobody listens. Must not block
	Log        *slog.Logger
	Failpoints *failpoint.Set
}

// Step is one step of an attempt's state machine, for those who check it.
type Step struct {
	Incarnation      string
	Generation, Task int32

	Owner   any // comparable, another one for each attempt
	Event   epoch.Event
	Actions []epoch.Action // what the machine asked for

	Held Held
}

// Held is what an attempt holds in memory of what Memory limits.
type Held struct {
	Produced int64 // bytes that brokers have not acknowledged
	Handover int64 // bytes for sinks that keep up
	Epochs   int   // that Handover is of
}

// Source is what is read.
type Source struct {
	Topics []string
	Start  string // earliest, latest, an RFC 3339 time, group:NAME; "": earliest
}

// Epoch says when a barrier is reached and how long a decision may take.
type Epoch struct {
	Interval   time.Duration // 0: 100 ms
	MinPause   time.Duration // from a decision to the next barrier
	Timeout    time.Duration // from the barrier to the decision; 0: 120 s
	MaxRecords int           // 0: 20,000
	MaxBytes   int64         // 0: 8 MiB
}

// Restart is the policy for a task that fails for other reasons than Kafka
// being away or the task being taken over: those are retried for ever.
type Restart struct {
	Max        int           // failures until the process stops; 0: 5, below 0: none allowed
	Delay      time.Duration // before the first restart, doubled each time; 0: 1 s
	MaxDelay   time.Duration // 0: 30 s
	ResetAfter time.Duration // of running well the count starts anew; 0: 10 min
}

// Filter decides which decided records a sink gets. One is made per goroutine.
type Filter interface {
	Keep(r *record.Record) (bool, error)
}

// Sink is a sink under its name in the pipeline.
type Sink struct {
	Name     string
	Sink     sink.Sink
	NewWhere func() Filter // nil: every record
}

// DeadLetters says where refused records go.
type DeadLetters struct {
	Topic    string
	Oversize deadletter.Oversize // "": pieces
}

// Outbox bounds how far outbox sinks may lag.
type Outbox struct {
	MaxBytes int64         // per task; 0: no limit
	MaxAge   time.Duration // of the oldest record not yet applied; 0: no limit
	Stop     bool          // at the limit the task fails; else it stops reading the source
}

// Memory holds byte budgets of one task.
type Memory struct {
	Fetch    int64 // fetched and unpacked, not yet processed; 0: 8 MiB
	Epoch    int64 // produced, not yet acknowledged; 0: 16 MiB
	Handover int64 // decided, held for sinks that keep up; 0: 8 MiB
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// WithDefaults replaces the zero values.
func (c Config) WithDefaults() Config {
	c.Guarantee = or(c.Guarantee, sink.ExactlyOnce)
	c.Broker = c.Broker.WithDefaults()
	c.Broker.Pipeline = c.Pipeline
	c.Source.Start = or(c.Source.Start, "earliest")
	c.Epoch.Interval = or(c.Epoch.Interval, 100*time.Millisecond)
	c.Epoch.Timeout = or(c.Epoch.Timeout, 120*time.Second)
	c.Epoch.MaxRecords = or(c.Epoch.MaxRecords, 20_000)
	c.Epoch.MaxBytes = or(c.Epoch.MaxBytes, 8<<20)
	c.Restart.Max = or(c.Restart.Max, 5)
	c.Restart.Delay = or(c.Restart.Delay, time.Second)
	c.Restart.MaxDelay = or(c.Restart.MaxDelay, 30*time.Second)
	c.Restart.ResetAfter = or(c.Restart.ResetAfter, 10*time.Minute)
	c.Dead.Topic = or(c.Dead.Topic, c.Pipeline+".dlq")
	c.Dead.Oversize = or(c.Dead.Oversize, deadletter.Pieces)
	c.Memory.Fetch = or(c.Memory.Fetch, 8<<20)
	c.Memory.Epoch = or(c.Memory.Epoch, 16<<20)
	c.Memory.Handover = or(c.Memory.Handover, 8<<20)
	c.StopWithin = or(c.StopWithin, 20*time.Second)
	c.Refresh = or(c.Refresh, 5*time.Second)
	c.ObserveEvery = or(c.ObserveEvery, 10*time.Second)
	c.SweepEvery = or(c.SweepEvery, max(2*c.Epoch.TransactionTimeout(), time.Minute))
	c.RenewEvery = or(c.RenewEvery, 24*time.Hour)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Events == nil {
		c.Events = func(Event) {}
	}
	return c
}

// maxLinger bounds what a flush has to send at once.
const maxLinger = 20 * time.Millisecond

// linger is how long an epoch's records wait for company on their way out. It
// costs no latency, since nobody sees them before the decision, and the barrier
// flushes; sent one by one they are most of what an epoch costs the brokers.
func (e Epoch) linger() time.Duration { return min(e.Interval/2, maxLinger) }

// minTransactionTimeout is below what brokers act on: their reaper runs every
// 10 s.
const minTransactionTimeout = 10 * time.Second

// TransactionTimeout is derived: a transaction is open from the epoch's first
// record to its barrier, and from there for at most the time-out, in which it
// also waits for the epoch before it.
func (e Epoch) TransactionTimeout() time.Duration {
	return max(minTransactionTimeout, 2*(e.Interval+e.MinPause)+e.Timeout)
}

// checkTimeouts compares the derived time-out with what the brokers allow.
func (e Epoch) checkTimeouts(brokerMax time.Duration) error {
	t := e.TransactionTimeout()
	if brokerMax > 0 && t > brokerMax {
		return &broker.Problem{
			Code: broker.CodeConfig, Place: "epoch",
			Cause: fmt.Sprintf("the transaction time-out is 2 x (epoch.interval %s + epoch.min_pause %s) + epoch.timeout %s = %s, "+
				"but the brokers allow %s (transaction.max.timeout.ms)", e.Interval, e.MinPause, e.Timeout, t, brokerMax),
			Remedy: fmt.Sprintf("lower epoch.timeout to at most %s, or raise the brokers' limit", brokerMax-2*(e.Interval+e.MinPause)),
		}
	}
	return nil
}
