package sink

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"exactly/internal/failpoint"
	"exactly/record"
)

// Guarantee is what a pipeline promises.
type Guarantee string

const (
	ExactlyOnce Guarantee = "exactly_once"
	// AtLeastOnce runs without transactions, outbox, ledger and idempotency
	// keys: the control that shows what the protocol is worth.
	AtLeastOnce Guarantee = "at_least_once"
)

// Owner says for whom a sink works: a task of a pipeline, and which attempt of
// it. All of Incarnation, Pipeline, Sink, Generation and Task belong into every
// mark and every staged name; compare them for equality, never by prefix.
type Owner struct {
	Incarnation string // random id of the pipeline, 16 hex digits
	Pipeline    string
	Sink        string // the sink's name in the pipeline
	Generation  int32
	Task        int32
	Tasks       int32 // how many there are in this generation
	Attempt     int64 // rises with each ownership of the task
	// Stagings is how many sinks of the pipeline are Staging ones, for systems that
	// bound what may be staged at once: all of them may be in one. 0 counts as 1.
	Stagings  int
	Guarantee Guarantee
	// Fresh: nothing was ever confirmed for this task of the sink. It begins
	// where OpenOutbox says, and need not hold a mark; one that it does hold
	// counts.
	Fresh bool
	// Committed is the newest work of this task of a staging sink that a decision
	// knows as committed; nil: there is none. A system that does not know it is a copy
	// from before, or a standby that had not got it: OpenStaging answers ErrLedgerBehind.
	Committed *Committable

	Log        *slog.Logger    // nil: slog.Default
	Failpoints *failpoint.Set  // nil: none armed. See BeforeCommit
	Transact   TransactOptions // limits that the engine wants kept

	// Settled is told of each piece of staged work that a call for this owner has
	// ended: what was there and is now committed, or rolled back. nil: nobody asks.
	// It may be called from any goroutine, and must not block.
	Settled func(w StagedWork, committed bool)
}

// TransactOptions are the engine's limits for one call to a sink.
type TransactOptions struct {
	Timeout time.Duration // of one attempt of one call; 0: the sink's default
}

// Pos is the place of a decided record in a task's outbox: the epoch that
// decided it and its index among that epoch's outbox records, from 0. Epochs
// start at 1, so the zero Pos comes before everything. Epochs without records
// have no Pos: positions are ordered but not dense.
type Pos struct {
	Epoch int64 `json:"epoch"`
	Index int64 `json:"index"`
}

// Compare is -1, 0 or +1.
func (p Pos) Compare(q Pos) int {
	switch {
	case p.Epoch != q.Epoch:
		if p.Epoch < q.Epoch {
			return -1
		}
		return 1
	case p.Index != q.Index:
		if p.Index < q.Index {
			return -1
		}
		return 1
	}
	return 0
}

// Before reports p < q.
func (p Pos) Before(q Pos) bool { return p.Compare(q) < 0 }

// IsZero reports whether p is before every record.
func (p Pos) IsZero() bool { return p == Pos{} }

// String gives "epoch/index".
func (p Pos) String() string {
	return strconv.FormatInt(p.Epoch, 10) + "/" + strconv.FormatInt(p.Index, 10)
}

// Entry is a decided record and its place.
type Entry struct {
	Pos Pos
	record.Record
}

// Features tell the engine, the conformance suite and the documentation what a
// sink does beyond the contract.
type Features struct {
	Deletes         bool // a tombstone deletes what its key names; else tombstones are dropped and counted before the sink
	Keyless         bool // it can hold the same record twice (so a duplicate is a row, a line, a call)
	DurableVerdicts bool // refusals are stored with the ledger until they are confirmed
	Stages          bool // its OutboxTask is an OutboxStager
	Rejects         bool // it can refuse a record for good (poison)
	MaxRecord       int  // bytes of one record at most; 0: no limit known
	Batch           int  // an outbox sink: records of one Apply at most; 0: as the engine likes
}

// Sink is what the three kinds share. A Sink is shared by all tasks of a
// worker and safe for concurrent use.
type Sink interface {
	Features() Features
	// Check looks at the real system before the start: reachable, allowed, of
	// the right shape. Its errors name the setting and the remedy. One that is
	// classed Transient (the system is away) does not hold up the start; any
	// other refuses it.
	Check(ctx context.Context) error
	Close() error
}

// Message is a record on its way into a Kafka topic inside the transaction.
type Message struct {
	Topic     string
	Partition int32 // -1: by key, as Kafka's default partitioner does
	Key       []byte
	Value     []byte
	Headers   []record.Header
	Timestamp int64 // Unix milliseconds
}

// Transactional sinks turn a record into messages of the epoch's transaction.
type Transactional interface {
	Sink
	// Topics lists those that are known before the first record, for
	// validation, ACLs and size limits.
	Topics() []string
	// Route appends to dst. An error is poison: the record goes to the dead
	// letters. It is called from one goroutine per task.
	Route(dst []Message, r *record.Record) ([]Message, error)
}

// Outbox sinks apply decided records.
type Outbox interface {
	Sink
	// OpenOutbox opens the sink for one task. confirmed is the position that
	// the journal knows; the task answers with its own, from its ledger, which
	// is never lower (ErrLedgerBehind) but may be higher, and with the verdicts
	// that it keeps beyond confirmed.
	OpenOutbox(ctx context.Context, o Owner, confirmed Pos) (OutboxTask, Resume, error)
}

// Follower is an outbox sink that reads what other sinks of the pipeline have
// written: it gets a record once each of them, in the same task, has applied or
// refused it, or, if it is a staging sink, has committed its epoch.
type Follower interface {
	Outbox
	// Follows names those sinks. None of them follows others itself, or collects
	// records over epochs.
	Follows() []string
}

// Warmer is a sink that opens connections ahead, so that a task that is taken over
// need not wait for them.
type Warmer interface {
	Sink
	// Warm is called when the takeover begins, and returns once ctx is done. The
	// owner's Attempt is not known yet, nor whether the task will be ours: nothing
	// is written, and nothing read that another owner may still change. What no task
	// has taken by then is closed.
	Warm(ctx context.Context, o Owner)
}

// Resume is where an outbox sink stands when it is opened.
type Resume struct {
	Through  Pos       // applied through here
	Verdicts []Verdict // kept, not yet confirmed, in order
}

// Batch is a run of decided records. Records lists those that concern the
// sink; the run itself reaches from just behind Prev to Through, so that a
// ledger can accept exactly the next batch.
type Batch struct {
	Prev      Pos     // through where the run before this one went
	Through   Pos     // where this run ends
	Confirmed Pos     // decided to be applied through here: verdicts up to it may be forgotten
	Records   []Entry // in order, a subset of the run
}

// Result is what an Apply achieved, also when it returns an error beside it.
type Result struct {
	// Through is the position up to which every record is applied, or has its
	// verdict in Verdicts. It may stop short of the batch: the engine then
	// calls again with the rest, but only after a decision has made the
	// verdicts durable. It is Prev when nothing was done.
	Through  Pos
	Verdicts []Verdict
}

// Verdict is the final refusal of one record, which thereby becomes a dead
// letter, or an answer that the user wants kept.
type Verdict struct {
	Pos    Pos    `json:"pos"`
	Code   string `json:"code"`   // stable, e.g. "http_status_400", "constraint"
	Reason string `json:"reason"` // for people
}

// OutboxTask is an outbox sink at work for one task. Calls are serial.
type OutboxTask interface {
	// Apply applies decided records. It blocks until they are durable in the
	// sink, or an error says why not. The batch is owned by the caller and
	// must not be kept after the return, except by an OutboxStager, which may
	// keep the records (their bytes are never changed).
	//
	// A superseded attempt, one whose successor has opened the sink, may answer
	// success, where the records are in the sink once, whoever applied them; or
	// any error but poison, with which it never refuses records that the
	// successor may take. Transient is best: the engine calls again until it
	// learns that it has lost the task.
	Apply(ctx context.Context, b Batch) (Result, error)
	Close() error
}

// OutboxStager is an OutboxTask that collects records over epochs and stages
// them: Apply only takes records in (its Result.Through says how far), and what
// moves the cursor is Stage. Commit, Abort and Sweep may run concurrently with
// Apply and Stage.
type OutboxStager interface {
	OutboxTask
	// Stage makes what is ripe (by size, by age at now, by everything taken in
	// if force) durable and invisible. nil, when nothing is ripe. Forced, it
	// covers everything: nil then means that nothing was taken in but refusals.
	// After a transient error it is called again, and hands over also what the
	// failed call did not, under the same names.
	Stage(ctx context.Context, now time.Time, force bool) ([]Committable, error)
	Committer
}

// Committable names work that is durable and invisible in a sink, with all that
// is needed to commit or abort it from another process.
type Committable struct {
	Sink    string `json:"sink"`
	Attempt int64  `json:"attempt"` // that staged it
	Epoch   int64  `json:"epoch"`   // that decides it; filled in by the engine
	// From (exclusive) and Through bound the outbox records inside, for an
	// OutboxStager; both zero for a Staging sink.
	From    Pos    `json:"from"`
	Through Pos    `json:"through"`
	Data    []byte `json:"data"` // the sink's own, self-describing, below 64 KiB
}

// Committer finishes staged work.
type Committer interface {
	// Commit makes decided work visible, in the order given. Idempotent: work
	// that is committed already is success, by a positive mark; work that is
	// gone without one is ErrLost. A superseded attempt may get an error instead
	// (see OutboxTask), but not ErrLost for work that its successor has committed.
	Commit(ctx context.Context, cs []Committable) error
	// Abort undoes staged work that was never decided. Idempotent; a work that
	// does not exist is success.
	Abort(ctx context.Context, cs []Committable) error
	// Sweep finds and aborts what older attempts of this owner staged and keep
	// does not list, and what older generations of the sink did, whatever their
	// task: all that those decided was committed before this one began, and what
	// a zombie of them stages would stay for ever. Names of other incarnations,
	// pipelines, sinks, of other tasks of this generation, of later generations,
	// and of this or a later attempt are left alone.
	Sweep(ctx context.Context, keep []Committable) error
}

// Staging sinks take records in before the decision, invisibly.
type Staging interface {
	Sink
	OpenStaging(ctx context.Context, o Owner) (StagingTask, error)
}

// StagingTask is a staging sink at work for one task. Calls for one epoch are
// serial; calls for different epochs, and those of Committer, may overlap.
type StagingTask interface {
	// Write adds records to an open epoch. A *PoisonError names records of the
	// call that can never be taken: nothing of them was kept, and everything
	// else of the call was.
	Write(ctx context.Context, epoch int64, rs []record.Record) error
	// Prepare makes the epoch durable and invisible. nil, where the epoch holds
	// nothing for this sink.
	Prepare(ctx context.Context, epoch int64) ([]Committable, error)
	Committer
	Close() error
}

// StagingFlusher is a StagingTask that collects an epoch's records and writes
// them at its end: all at once, in an order of its own, again where that failed.
type StagingFlusher interface {
	StagingTask
	// Flush writes what Write has taken in for the epoch, before its Prepare and
	// behind its last Write. Calls are serial; the next epoch's may come before
	// this one's Prepare. A *PoisonError counts over all records of the epoch, in
	// the order of Write.
	Flush(ctx context.Context, epoch int64) error
}
