package failpoint

import (
	"fmt"
	"strings"
)

// Point is the name of a place in the protocol.
type Point string

// The points, in the order in which an epoch, a takeover, a reset pass them.
// Between two durable acts there is always one: "before" and "after" of
// neighbours are the same place.
const (
	Filled          Point = "epoch/filled"
	FlushDone       Point = "epoch/flushed"
	PrepareBefore   Point = "epoch/before-prepare"
	PrepareAfter    Point = "epoch/prepared"
	JournalBefore   Point = "epoch/before-journal"
	JournalAfter    Point = "epoch/journaled"
	OffsetsBefore   Point = "epoch/before-offsets"
	OffsetsAfter    Point = "epoch/offsets-sent"
	EndBefore       Point = "epoch/before-decision"
	EndAfter        Point = "epoch/decided"
	CommitBefore    Point = "epoch/before-commit"
	CommitAfter     Point = "epoch/committed"
	ApplyBefore     Point = "epoch/before-apply"
	ApplyAfter      Point = "epoch/applied"
	TrimBefore      Point = "epoch/before-trim"
	TrimAfter       Point = "epoch/trimmed"
	FenceBefore     Point = "takeover/before-fence"
	FenceA          Point = "takeover/fenced-a"
	FenceB          Point = "takeover/fenced-b"
	ReadAfter       Point = "takeover/read"
	ClaimBefore     Point = "takeover/before-claim"
	ClaimAfter      Point = "takeover/claimed"
	VerifyAfter     Point = "takeover/verified"
	RecoverAfter    Point = "takeover/recovered"
	SweepAfter      Point = "takeover/swept"
	ResetSealed     Point = "reset/sealed"
	ResetMoved      Point = "reset/group-moved"
	ResetBegun      Point = "reset/begun"
	SinkStageBefore Point = "sink/before-stage"
	SinkStageAfter  Point = "sink/staged"
	SinkTxnBefore   Point = "sink/before-commit"
	SinkTxnAfter    Point = "sink/after-commit"
	SinkAbortBefore Point = "sink/before-abort"
	SinkAbortAfter  Point = "sink/aborted"
)

// Place describes a Point: the step of docs/protocol.md that it belongs to, and
// what is done and not done yet there.
type Place struct {
	Point Point
	Step  string
	What  string
}

// Points lists them all.
func Points() []Place {
	return []Place{
		{Filled, "One epoch, 2", "the barrier: all records of the epoch were handed to the producer"},
		{FlushDone, "One epoch, 4", "all of them are acknowledged"},
		{PrepareBefore, "One epoch, 3", "staging sinks are not asked to prepare yet"},
		{PrepareAfter, "One epoch, 3", "they have staged: durable and invisible"},
		{JournalBefore, "One epoch, 4", "the journal record is not sent yet"},
		{JournalAfter, "One epoch, 4", "it is in the open transaction"},
		{OffsetsBefore, "One epoch, 4", "the source offsets are not sent yet"},
		{OffsetsAfter, "One epoch, 4", "they are in the open transaction"},
		{EndBefore, "One epoch, 6", "EndTxn is not sent yet"},
		{EndAfter, "One epoch, 6", "EndTxn was acknowledged as committed"},
		{CommitBefore, "One epoch, 7", "staged work is decided, not committed yet"},
		{CommitAfter, "One epoch, 8", "it is committed, not confirmed yet"},
		{ApplyBefore, "One epoch, 7", "outbox records are decided, not applied yet"},
		{ApplyAfter, "One epoch, 8", "a sink has applied them, not confirmed yet"},
		{TrimBefore, "Sinks", "the outbox is to be trimmed"},
		{TrimAfter, "Sinks", "it was trimmed"},
		{FenceBefore, "Takeover, 1", "membership is proved, nothing is fenced yet"},
		{FenceA, "Takeover, 1", "producer A is fenced, B not yet"},
		{FenceB, "Takeover, 1", "both are fenced"},
		{ReadAfter, "Takeover, 2", "the journal was read"},
		{ClaimBefore, "Takeover, 3", "the claim is not sent yet"},
		{ClaimAfter, "Takeover, 3", "the claim was acknowledged as committed"},
		{VerifyAfter, "Takeover, 3", "the claim was seen to follow what was read"},
		{RecoverAfter, "Takeover, 4", "pending staged work is committed"},
		{SweepAfter, "Takeover, 5", "what older attempts left is rolled back"},
		{ResetSealed, "Generations", "every task of the old generation is sealed and drained"},
		{ResetMoved, "Generations", "the group's offsets are those of the next generation, meta is not written yet"},
		{ResetBegun, "Generations", "meta names the next generation"},
		{SinkStageBefore, "One epoch, 3", "inside a sink, before a piece of staged work is durable"},
		{SinkStageAfter, "One epoch, 3", "inside a sink, after it"},
		{SinkTxnBefore, "One epoch, 7", "inside a sink, before its own transaction, request or rename"},
		{SinkTxnAfter, "One epoch, 7", "inside a sink, after it"},
		{SinkAbortBefore, "Takeover, 5", "inside a sink, before staged work is rolled back"},
		{SinkAbortAfter, "Takeover, 5", "inside a sink, after it"},
	}
}

// Markdown is the list of all points for docs/reference.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`<!-- written by go generate ./internal/cli -->
# Fail points

A worker that was started with ` + "`--unsafe-failpoints`" + ` can be killed, frozen, delayed, held or told that an
answer was lost at each of these places: ` + "`EXACTLY_FAILPOINTS='epoch/before-decision:task=2:hit=3=kill'`" + `.
Actions: ` + "`kill`, `freeze`, `delay(200ms)`, `error` (the answer to the act before is lost), `hold`" + `. Conditions:
` + "`task=N`, `epoch=N`, `hit=N`" + `. Several arms are separated by ` + "`;`" + `. The commands ` + "`run`, `reset` and `resolve`" + ` take them; without the flag they refuse the
variable, and other commands do not look at it.

| point | protocol.md | what is done there, and what is not |
| --- | --- | --- |
`)
	for _, p := range Points() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Point, p.Step, p.What)
	}
	return b.String()
}
