package failpoint

// Point is the name of a place in the protocol.
type Point string

// The points, in the order in which an epoch, then a takeover, passes them.
const (
	Filled         Point = "epoch/filled"          // records of the epoch were handed to the producer, barrier reached
	FlushDone      Point = "epoch/flushed"         // all records of the epoch acknowledged
	PrepareBefore  Point = "epoch/before-prepare"  // staging sinks not yet asked to prepare
	PrepareAfter   Point = "epoch/prepared"        // staged, durable and invisible
	JournalAfter   Point = "epoch/journaled"       // the journal record is in the open transaction
	OffsetsAfter   Point = "epoch/offsets-sent"    // source offsets are in the open transaction
	EndBefore      Point = "epoch/before-decision" // EndTxn not yet sent
	EndAfter       Point = "epoch/decided"         // EndTxn acknowledged as committed
	CommitBefore   Point = "epoch/before-commit"   // staged work decided, not yet committed
	CommitAfter    Point = "epoch/committed"       // staged work committed, not yet confirmed
	ApplyBefore    Point = "epoch/before-apply"    // outbox records decided, not yet applied
	ApplyAfter     Point = "epoch/applied"         // applied by a sink, not yet confirmed
	TrimAfter      Point = "epoch/trimmed"         // outbox trimmed
	FenceA         Point = "takeover/fenced-a"
	FenceB         Point = "takeover/fenced-b"
	ClaimBefore    Point = "takeover/before-claim"
	ClaimAfter     Point = "takeover/claimed"
	RecoverAfter   Point = "takeover/recovered"
	SweepAfter     Point = "takeover/swept"
	SinkTxnBefore  Point = "sink/before-commit" // inside a sink, before its own transaction commits
	SinkTxnAfter   Point = "sink/after-commit"  // inside a sink, after it
	SinkStageAfter Point = "sink/staged"        // inside a sink, after a part of a stage is durable
)

// Points lists them all with the step of the protocol each belongs to.
func Points() []struct{ Point, Step string } {
	return []struct{ Point, Step string }{
		{string(Filled), "epoch 2"},
		{string(FlushDone), "epoch 4"},
		{string(PrepareBefore), "epoch 3"},
		{string(PrepareAfter), "epoch 3"},
		{string(JournalAfter), "epoch 4"},
		{string(OffsetsAfter), "epoch 4"},
		{string(EndBefore), "epoch 6"},
		{string(EndAfter), "epoch 6"},
		{string(CommitBefore), "epoch 7"},
		{string(CommitAfter), "epoch 8"},
		{string(ApplyBefore), "epoch 7"},
		{string(ApplyAfter), "epoch 8"},
		{string(TrimAfter), "epoch 8"},
		{string(FenceA), "takeover 1"},
		{string(FenceB), "takeover 1"},
		{string(ClaimBefore), "takeover 3"},
		{string(ClaimAfter), "takeover 3"},
		{string(RecoverAfter), "takeover 4"},
		{string(SweepAfter), "takeover 5"},
		{string(SinkTxnBefore), "epoch 7"},
		{string(SinkTxnAfter), "epoch 7"},
		{string(SinkStageAfter), "epoch 3"},
	}
}
