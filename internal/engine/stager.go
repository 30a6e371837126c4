package engine

import (
	"context"
	"fmt"
	"time"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// maxHeldVerdicts is how many refused records wait for a stage before one is
// forced: they are in memory.
const maxHeldVerdicts = 1000

// stage asks a stager for what is ripe. Its cursor moves only with the decision
// that lists the committables, and the verdicts on the way with it.
func (r *runner) stage(ctx context.Context) error {
	st, ok := r.task.(sink.OutboxStager)
	if !ok || !r.canStage.Load() {
		return nil
	}
	force := len(r.held) >= maxHeldVerdicts || r.a.w.seal
	var cs []sink.Committable
	err := patiently(ctx, func() (err error) {
		cs, err = st.Stage(ctx, time.Now(), force)
		return err
	}, r.a.failing(r.name))
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	if len(cs) == 0 && (!force || len(r.hints) == 1) {
		return nil
	}
	ev := epoch.Staged{Sink: r.name}
	through := sink.Pos{}
	if len(cs) == 0 { // forced, it had nothing to stage: all that it took in was refused
		through = r.feed.pos
	}
	for _, c := range cs {
		c.Sink = r.name
		ev.Pending = append(ev.Pending, journal.Pending{Committable: c, Offset: r.hintFor(c.From).offset})
		if through.Before(c.Through) {
			through = c.Through
		}
	}
	h := r.hintFor(through)
	ev.Cursor = journal.Cursor{Pos: through, Offset: h.offset, Bytes: h.bytes}
	for len(r.held) > 0 && !through.Before(r.held[0].Pos) {
		ev.Verdicts = append(ev.Verdicts, r.held[0])
		r.held = r.held[1:]
	}
	for len(r.hints) > 1 && !through.Before(r.hints[1].pos) {
		r.hints = r.hints[1:]
	}
	r.a.post(ctx, ev)
	return nil
}

// hintFor gives the best known place to read what is behind pos: never past it.
func (r *runner) hintFor(pos sink.Pos) hint {
	best := r.hints[0]
	for _, h := range r.hints {
		if pos.Before(h.pos) {
			break
		}
		best = h
	}
	return best
}
