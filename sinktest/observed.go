package sinktest

import (
	"fmt"
	"slices"

	"exactly/sink"
)

// observed: a sink that is a sink.Observer lists what these owners have staged, each
// under its owner's numbers, and calls foreign what is of another incarnation,
// pipeline or sink, however alike the names. What maybe staged need not be there any
// more: it may have held locks that somebody needed.
func observed(w *world, p *process, owners []sink.Owner, maybe sink.Owner) {
	w.t.Helper()
	obs, ok := p.sink.(sink.Observer)
	if !ok {
		return
	}
	works, err := obs.Observe(w.t.Context(), p.owner)
	w.must(err, "observe")
	var got, want []string
	foreign := 0
	for _, o := range owners {
		if o.Incarnation != p.owner.Incarnation || o.Pipeline != p.owner.Pipeline || o.Sink != p.owner.Sink {
			foreign++
			continue
		}
		want = append(want, numbers(o.Generation, o.Task, o.Attempt))
	}
	for _, s := range works {
		switch {
		case s.Name == "" || s.Age < 0 || s.Undo == "":
			w.t.Errorf("staged work without a name, an age or a way to end it: %+v", s)
		case s.Foreign:
			foreign--
		case numbers(s.Generation, s.Task, s.Attempt) != numbers(maybe.Generation, maybe.Task, maybe.Attempt):
			got = append(got, numbers(s.Generation, s.Task, s.Attempt))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || foreign != 0 {
		w.t.Errorf("observed %v, want %v; foreign works missing: %d", got, want, foreign)
	}
}

func numbers(generation, task int32, attempt int64) string {
	return fmt.Sprintf("generation %d task %d attempt %d", generation, task, attempt)
}

// tally counts what a process is told that its calls have ended.
type tally struct{ committed, rolledBack int }

func (p *process) settled(_ sink.StagedWork, committed bool) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if committed {
		p.ended.committed++
	} else {
		p.ended.rolledBack++
	}
}
