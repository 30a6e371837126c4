package sink

import "exactly/internal/failpoint"

// The fail points inside a sink, for Owner.Failpoints.Hit: there the conformance
// suite and the kill tests crash it and lose its answers. Hit one before and one
// after each act that makes data durable or visible, on the goroutine that was
// called, with Owner.Task and the epoch at hand. An error from Hit stands for the
// lost answer to what was done before it: give it back as transient.
const (
	BeforeStage  = failpoint.SinkStageBefore // a piece of staged work is not durable yet
	AfterStage   = failpoint.SinkStageAfter  // it is
	BeforeCommit = failpoint.SinkTxnBefore   // the sink's own transaction, request or rename is not done yet
	AfterCommit  = failpoint.SinkTxnAfter    // it is
	BeforeAbort  = failpoint.SinkAbortBefore // staged work is not rolled back yet
	AfterAbort   = failpoint.SinkAbortAfter  // it is
)
