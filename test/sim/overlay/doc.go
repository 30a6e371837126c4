// Command overlay writes an overlay for `go build` under which a program with
// one processor always runs the same: the scheduler's slices do not end by the
// wall clock where GODEBUG has asyncpreemptoff=1, and select, map iteration,
// timers of one instant and math/rand take their chance from a fixed seed. With
// it a simulated schedule replays exactly. It changes nothing else, and nothing
// that is released is built so.
//
//	go run ./test/sim/overlay DIR
package main
