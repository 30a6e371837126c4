// Package failpoint names the points between the durable acts of the protocol,
// so that a test, the simulation or the demo can kill, freeze, delay, hold or
// fail a worker exactly there. A nil *Set is valid and does nothing: that is
// what a worker runs with unless it was started with --unsafe-failpoints.
//
// # Arming
//
// The environment variable EXACTLY_FAILPOINTS holds arms, separated by ";":
//
//	epoch/before-decision:task=2:epoch=5:hit=3=kill
//
// that is a point, conditions that all must hold, and an action. Conditions:
// task and epoch as passed to Hit, and hit=N, the N-th time that the other
// conditions held since arming (without it: every time). Actions:
//
//	kill          SIGKILL to this process: nothing is flushed, closed or told
//	freeze        SIGSTOP to this process: a zombie in the making
//	delay(200ms)  wait, then go on
//	error         Hit returns ErrInjected: the answer to the act is lost
//	hold          report to the control channel and wait for "go"
//
// # Control channel
//
// EXACTLY_FAILPOINT_CONTROL names a Unix socket on which a parent listens (see
// Listen); with it nothing need be armed at the start. Lines of JSON. From the
// worker: {"pid"} once, {"pid","point","task","epoch"} when it holds,
// {"pid","armed"}, {"pid","hits"} or {"pid","error"} as answers. To it:
// {"arm":"…"} in place of all that was armed before, {"hits":true}, and the
// line "go", which releases what is held. A worker whose channel breaks kills
// itself: its parent is gone, and nobody could release it any more.
package failpoint
