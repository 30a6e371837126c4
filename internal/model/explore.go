package model

import (
	"fmt"
	"slices"
	"strings"
)

// Kind says which part of the protocol a world shows: the same parts as the
// three Spin models.
type Kind int

// The worlds. Each names the Spin model that visits the same states.
const (
	Staging     Kind = iota // protocol.pml: a two-phase sink
	Outbox                  // protocol-outbox.pml: a ledger sink, an object sink, trimming
	Generations             // protocol-generations.pml: a bump, and locks of zombies
)

// Bounds make a world small enough to visit all of its states.
type Bounds struct {
	Kind     Kind
	Records  int // source records; of Staging: epochs
	Workers  int // that may stop at any point or turn into zombies, beside the one that must succeed
	Timeouts int // transactions that the broker aborts by itself
	Retakes  int // of Staging: times that each of the workers takes over again when it has lost the task

	// Old, of Staging: the first worker is an owner whose first epoch is decided
	// and not confirmed.
	Old bool

	Ledger, Object bool // of Outbox: which sinks there are
	Refused        int  // of Outbox: the record that the ledger sink refuses; 0: none
	Losses         int  // of Outbox: times the object store throws staged work away

	Bumps, Next int // of Generations: runs of the bump, workers of the new generation

	// Break switches a rule off: a switch of the Spin model, by its name.
	Break string
	// Lax visits the states behind a broken promise too.
	Lax bool
}

// Report is what Explore saw.
type Report struct {
	States    int                 // of the world
	Projected map[string]struct{} // what both models know of a state: one string each
	Ends      int                 // states in which the last worker has come to its end
}

// limits of the arrays that hold a world.
const (
	maxRecords  = 4
	maxAttempts = 8
)

// Explore visits every reachable state of a world, and returns an error for the
// first in which the promise is broken or the last worker cannot come to its
// end, with the steps that lead there.
func Explore(b Bounds) (Report, error) {
	if b.Records > maxRecords {
		return Report{}, fmt.Errorf("at most %d records", maxRecords)
	}
	rep := Report{Projected: map[string]struct{}{}}
	first, err := newWorld(b)
	if err != nil {
		return rep, err
	}
	seen := map[string]int32{}
	type origin struct {
		from int32
		how  string
	}
	var origins []origin
	path := func(at int32, last string) string {
		steps := []string{last}
		for ; at > 0; at = origins[at].from {
			steps = append(steps, origins[at].how)
		}
		slices.Reverse(steps)
		return strings.Join(steps, "\n")
	}
	visit := func(w *world, from int32, how string) bool {
		key := w.key()
		if _, ok := seen[key]; ok {
			return false
		}
		seen[key] = int32(len(origins))
		w.id = int32(len(origins))
		origins = append(origins, origin{from, how})
		rep.Projected[w.project()] = struct{}{}
		return true
	}
	visit(first, 0, "")
	// Depth first, so that few worlds are held at a time.
	for todo := []*world{first}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		moves := w.moves()
		if len(moves) == 0 {
			if !w.ended() && !b.Lax {
				return rep, fmt.Errorf("nothing more can happen, and the last worker is not at its end:\n%s", path(w.id, ""))
			}
			rep.Ends++
		}
		for _, m := range moves {
			next := w.clone()
			if err := m.do(next); err != nil {
				if b.Lax {
					continue
				}
				return rep, fmt.Errorf("%w, after:\n%s", err, path(w.id, m.name))
			}
			if visit(next, w.id, m.name) {
				todo = append(todo, next)
			}
		}
	}
	rep.States = len(origins)
	return rep, nil
}
