// Package deadletter is the format of a dead letter: which headers carry the
// coordinates, the step and the error, and how a record that is larger than the
// dead-letter topic takes is cut into pieces. It does no I/O; the engine
// produces the messages inside the epoch's transaction, audits and the replay
// command read them.
package deadletter
