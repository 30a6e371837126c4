package sinktest

import (
	"fmt"

	"exactly/sink"
)

// mixed makes records of which some are refused.
func mixed(prefix string, from, n int, bad ...int) []input {
	in := numbered(prefix, from, n)
	for _, i := range bad {
		in[i].poison = true
	}
	return in
}

func poisonInBatch(w *world) {
	for _, bad := range [][]int{{0}, {4}, {9}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 5, 9}} {
		w.again(fmt.Sprint(len(bad), "from", bad[0]), func(w *world) {
			l := w.lane(baseOwner())
			p := l.started()
			p.size = 100
			l.feed(numbered("before", 0, 3))
			l.feed(mixed("a", 0, 10, bad...))
			l.feed(numbered("behind", 0, 3))
			w.must(p.advance(), "advance")
			w.check()
			w.finish()
		})
	}
}

// poisonThenCrash loses the answer that carried the verdict, at each call.
func poisonThenCrash(w *world) {
	losing(w, func(l *lane) {
		l.feed(mixed("a", 0, 6, 2))
		l.feed(mixed("a", 6, 6, 0, 5))
		l.feed(numbered("a", 12, 2))
	})
}

// verdictSurvives looks at the kept verdicts through several takeovers.
func verdictSurvives(w *world) {
	l := w.lane(baseOwner())
	l.feed(mixed("a", 0, 10, 3, 7))
	p := l.started()
	b := l.batch(sink.Pos{}, 100)
	res, err := p.apply(b)
	w.must(err, "apply")
	if len(res.Verdicts) != 2 {
		w.t.Fatalf("Apply gave verdicts %v, want two", res.Verdicts)
	}
	again, err := p.apply(b) // the same process, whose decision failed
	w.must(err, "apply again")
	sameVerdicts(w, "a repeated Apply", again.Verdicts, res.Verdicts)
	for i := range 3 {
		resume, err := reopened(w, l, sink.Pos{})
		w.must(err, "reopen")
		if resume.Through != b.Through {
			w.t.Errorf("reopened at %s, want %s", resume.Through, b.Through)
		}
		sameVerdicts(w, fmt.Sprintf("open %d", i+1), resume.Verdicts, res.Verdicts)
	}
	resume, err := reopened(w, l, res.Verdicts[0].Pos) // the first one is decided
	w.must(err, "reopen")
	sameVerdicts(w, "open behind the first verdict", resume.Verdicts, res.Verdicts[1:])

	w.must(l.confirm(res.Through, res.Verdicts), "confirm")
	l.feed(numbered("a", 10, 2))
	p = l.started()
	w.must(p.advance(), "advance")
	resume, err = reopened(w, l, l.j.Confirmed)
	w.must(err, "reopen")
	sameVerdicts(w, "open once all is confirmed", resume.Verdicts, nil)
	w.finish()
}

// reopened opens the task without the bookkeeping of a lane.
func reopened(w *world, l *lane, confirmed sink.Pos) (sink.Resume, error) {
	s := w.target.New(w.t)
	defer func() { _ = s.Close() }()
	l.j.Attempt++
	task, resume, err := s.(sink.Outbox).OpenOutbox(w.t.Context(), l.identity.owner(l.j.Attempt), confirmed)
	if err != nil {
		return resume, err
	}
	return resume, task.Close()
}

func sameVerdicts(w *world, what string, got, want []sink.Verdict) {
	w.t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		w.t.Errorf("%s: got verdicts %v, want %v", what, got, want)
	}
}
