package sinktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// story feeds three epochs of different shapes.
func story(l *lane) {
	l.feed(numbered("a", 0, 7))
	l.feed(specs(Spec{ID: "k", Value: 1}, Spec{ID: "k", Value: 2}, Spec{ID: "j", Value: 1}))
	l.feed(append(numbered("b", 0, 4), specs(Spec{ID: "k", Value: 3})...))
}

// failPoints crashes, and loses the answer, at every hit of every fail point. A sink
// that left one out would pass without having been crashed there.
func failPoints(w *world) {
	hits, good := map[failpoint.Point]bool{}, true
	for _, point := range failpoint.Points() {
		for _, mode := range []string{"lost", "crash"} {
			for nth := 1; ; nth++ {
				hit := false
				name := fmt.Sprintf("%s/%s/%d", point.Point, mode, nth)
				ok := w.again(name, func(w *world) { hit = crashAt(w, point.Point, mode == "crash", nth) })
				good = good && ok
				if !ok || !hit {
					break
				}
				hits[point.Point] = true
			}
		}
	}
	for _, d := range demanded(w.kind) {
		if good && !hits[d.point] {
			w.t.Errorf("the sink never hits the fail point %s: call Owner.Failpoints.Hit with %s %s", d.point, d.name, d.where)
		}
	}
}

// demand is a fail point that sinks of a kind have to hit.
type demand struct {
	point       failpoint.Point
	name, where string // for people
}

func demanded(k kind) []demand {
	ds := []demand{
		{failpoint.SinkTxnBefore, "sink.BeforeCommit", "before the transaction, request or rename that makes records visible"},
		{failpoint.SinkTxnAfter, "sink.AfterCommit", "after the transaction, request or rename that makes records visible"},
	}
	if k == kindOutbox {
		return ds
	}
	return append(ds,
		demand{failpoint.SinkStageBefore, "sink.BeforeStage", "before staged work becomes durable"},
		demand{failpoint.SinkStageAfter, "sink.AfterStage", "once staged work is durable"},
		demand{failpoint.SinkAbortBefore, "sink.BeforeAbort", "before a sweep rolls staged work back"},
		demand{failpoint.SinkAbortAfter, "sink.AfterAbort", "once a sweep has rolled staged work back"},
	)
}

// crashAt runs the story with one incident and reports whether it happened.
func crashAt(w *world, at failpoint.Point, dies bool, nth int) bool {
	l := w.lane(baseOwner())
	story(l)
	if w.kind != kindOutbox && (at == failpoint.SinkAbortBefore || at == failpoint.SinkAbortAfter) {
		_, err := l.started().stage() // and dies: the next attempt has something to sweep
		w.must(err, "stage")
	}
	hits := 0
	p, err := l.start(func(_ context.Context, p failpoint.Point, _ int32, _ int64) error {
		if p != at {
			return nil
		}
		if hits++; hits != nth {
			return nil
		}
		if dies {
			panic(crash{p})
		}
		return errLost
	})
	if err == nil {
		err = p.advance()
	}
	hit := hits >= nth
	if !hit && err != nil {
		w.t.Errorf("failed without an incident: %v", err)
	}
	if hit && !dies && err != nil {
		if c := sink.Classify(err); c == sink.ClassPoison {
			w.t.Errorf("a lost answer is classed %v: %v", c, err)
		}
	}
	w.finish()
	return hit
}

// answerLost loses the answer of the n-th call, for every n.
func answerLost(w *world) { losing(w, story) }

// losing runs a story once per call of the sink, losing that call's answer,
// with a new process or with the same one repeating the call.
func losing(w *world, story func(l *lane)) {
	for nth := 1; nth < 200; nth++ {
		dropped := false
		ok := w.again(fmt.Sprint(nth), func(w *world) {
			l := w.lane(baseOwner())
			story(l)
			p, err := l.openWith(nil, nth)
			if err == nil {
				err = p.recover()
			}
			if err == nil {
				err = p.advance()
			}
			dropped = p.calls >= nth
			if err != nil && !errors.Is(err, errLost) {
				w.t.Fatalf("failed without an incident: %v", err)
			}
			if nth > 1 && dropped && repeats(p) {
				w.must(p.advance(), "the same process goes on")
			}
			w.finish()
		})
		if !ok || !dropped {
			return
		}
	}
}

// repeats reports whether the engine may simply call again. A lost Prepare or
// Stage ends the attempt instead.
func repeats(p *process) bool { return p.staging == nil && p.stager == nil }

// serviceFaults fails the n-th request before and after it is carried out,
// and calls again, as the engine does.
func serviceFaults(w *world) {
	for _, after := range []bool{false, true} {
		for nth := 1; nth <= 16; nth++ {
			ok := w.again(fmt.Sprintf("%d/after=%v", nth, after), func(w *world) {
				l := w.lane(baseOwner())
				story(l)
				w.target.SetFault(w.t, Fault{Nth: nth, After: after})
				w.mend(l)
				w.target.SetFault(w.t, Fault{})
				w.finish()
			})
			if !ok {
				return
			}
		}
	}
}

// mend goes on through transient errors, with new attempts where a call must
// not be repeated.
func (w *world) mend(l *lane) {
	w.t.Helper()
	w.mendFrom(l, nil, 5)
}

// mendFrom is mend with a hook and with batches of some size.
func (w *world) mendFrom(l *lane, h hook, size int) {
	w.t.Helper()
	var p *process
	var err error
	for range 60 {
		err = nil
		if p == nil || !repeats(p) {
			if p, err = l.start(h); err != nil {
				p = nil
			}
		}
		if p != nil {
			p.size = size
			err = p.advance()
		}
		if err == nil {
			return
		}
		if c := sink.Classify(err); c != sink.ClassTransient {
			w.t.Fatalf("an error of the service is classed %v, want transient: %v", c, err)
		}
	}
	w.t.Fatalf("not done after 60 tries: %v", err)
}

// serviceDown demands transient errors while the service is away, no verdicts,
// and that the same task goes on afterwards.
func serviceDown(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	l.feed(numbered("a", 0, 5))
	w.must(p.advance(), "advance")
	l.feed(numbered("a", 5, 10))
	w.target.Down(w.t)
	err := p.advance()
	if err == nil {
		w.t.Errorf("a sink whose service is down reports success")
	} else if c := sink.Classify(err); c != sink.ClassTransient {
		w.t.Errorf("service down is classed %v, want transient: %v", c, err)
	}
	if err := p.sink.Check(w.t.Context()); err == nil {
		w.t.Errorf("Check of a service that is down reports success")
	}
	w.target.Up(w.t)
	if repeats(p) {
		w.patient(p)
	}
	w.finish()
}

// patient advances until the service has come back.
func (w *world) patient(p *process) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := p.advance()
		if err == nil {
			return
		}
		if c := sink.Classify(err); c != sink.ClassTransient {
			w.t.Fatalf("after the service came back: %v: %v", c, err)
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("the service is back, the task is not: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// serviceKilled demands that what was reported as durable is.
func serviceKilled(w *world) {
	l := w.lane(baseOwner())
	for i := range 3 {
		l.feed(numbered("a", i*5, 5))
		p := l.started()
		if p.outbox != nil && p.stager == nil {
			w.must(p.advance(), "advance")
			w.target.Kill(w.t)
			continue
		}
		work, err := p.stage()
		w.must(err, "stage")
		w.target.Kill(w.t)
		w.must(p.decide(work), "decide")
	}
	w.mend(l)
	w.killBeforeStage(l)
	w.finish()
}

// killBeforeStage kills the service while an epoch is written and not staged:
// then staging must fail, or hold everything.
func (w *world) killBeforeStage(l *lane) {
	l.feed(numbered("b", 0, 5))
	p := l.started()
	if p.committer() == nil {
		return
	}
	p.written = func() { w.target.Kill(w.t) }
	work, err := p.stage()
	if err != nil {
		if c := sink.Classify(err); c != sink.ClassTransient {
			w.t.Errorf("staging after the service was killed is classed %v, want transient: %v", c, err)
		}
		return
	}
	w.must(p.decide(work), "decide")
}
