package sinktest

import (
	"errors"

	"exactly/record"
	"exactly/sink"
)

func sameBatchTwice(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	l.feed(numbered("a", 0, 8))
	b := l.batch(p.through, 100)
	for i := range 3 {
		res, err := p.apply(b)
		w.must(err, "apply")
		if res.Through != b.Through {
			w.t.Errorf("call %d came to %s, want %s", i+1, res.Through, b.Through)
		}
	}
	p.through = b.Through
	if p.stager == nil {
		w.must(l.confirm(b.Through, nil), "confirm")
	}
	l.feed(numbered("a", 8, 3))
	w.must(p.advance(), "advance")
	w.check()
}

func replayAfterReopen(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	l.feed(numbered("a", 0, 8))
	b := l.batch(p.through, 100)
	if _, err := p.apply(b); err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	for range 2 { // nothing was confirmed, so the engine applies it again
		p, err := l.open(nil)
		w.must(err, "reopen")
		res, err := p.apply(b)
		w.must(err, "apply again")
		if res.Through != b.Through {
			w.t.Errorf("the replay came to %s, want %s", res.Through, b.Through)
		}
	}
	w.must(l.confirm(b.Through, nil), "confirm")
	w.finish()
}

// partialOverlap cuts the outbox into other batches the second time.
func partialOverlap(w *world) {
	l := w.lane(baseOwner())
	l.feed(numbered("a", 0, 20))
	p := l.started()
	for _, cut := range [][2]int{{0, 6}, {0, 3}, {3, 7}, {2, 9}, {1, 30}} {
		b := sink.Batch{Prev: sink.Pos{}, Confirmed: l.j.Confirmed}
		if cut[0] > 0 {
			b = l.batch(sink.Pos{}, cut[0])
		}
		b = l.batch(b.Through, cut[1])
		res, err := p.apply(b)
		w.must(err, "apply an overlapping batch")
		if res.Through != b.Through {
			w.t.Errorf("apply (%s, %s] came to %s", b.Prev, b.Through, res.Through)
		}
	}
	p.through = l.end()
	if p.stager == nil {
		w.must(l.confirm(l.end(), nil), "confirm")
	}
	l.feed(numbered("a", 20, 3))
	w.must(p.advance(), "advance")
	w.check()
}

// withoutRecords applies runs in which nothing concerns the sink.
func withoutRecords(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	p.size = 1 // holes are runs of their own
	for i := range 4 {
		l.feed(numbered("a", i*6, 6))
	}
	w.must(p.advance(), "advance")
	w.check()
}

// gap: a batch that does not follow what was applied means that something is
// missing in between.
func gap(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	l.feed(numbered("a", 0, 12))
	first := l.batch(sink.Pos{}, 4)
	second := l.batch(first.Through, 4)
	third := l.batch(second.Through, 100)
	res, err := p.apply(first)
	w.must(err, "apply")
	res2, err := p.apply(third)
	if !errors.Is(err, sink.ErrLedgerBehind) {
		w.t.Fatalf("a batch behind a gap: got %v and %+v, want ErrLedgerBehind", err, res2)
	}
	if sink.Classify(err) != sink.ClassFatal {
		w.t.Errorf("ErrLedgerBehind is classed %v, want fatal", sink.Classify(err))
	}
	if p.stager == nil {
		w.must(l.confirm(res.Through, nil), "confirm")
		w.sees(len(first.Records), "after a refused batch")
	}
	w.finish()
}

// journalAhead: the journal knows of more than the ledger, so the target lost
// data.
func journalAhead(w *world) {
	l := w.lane(baseOwner())
	l.feed(numbered("a", 0, 4))
	p := l.started()
	w.must(p.advance(), "advance")
	known := l.j.Confirmed
	l.j.Confirmed = sink.Pos{Epoch: known.Epoch + 1}
	if _, err := l.open(nil); !errors.Is(err, sink.ErrLedgerBehind) {
		w.t.Errorf("open with a journal ahead of the ledger: got %v, want ErrLedgerBehind", err)
	}
	l.j.Confirmed = known
	w.finish()

	fresh := w.subject.Open(w.t, w.variant)
	w.target.New = fresh.New
	if _, err := l.open(nil); !errors.Is(err, sink.ErrLedgerBehind) {
		w.t.Errorf("open an empty target with a journal that saw data in it: got %v, want ErrLedgerBehind", err)
	}
}

// addedLater: a sink that joins a running pipeline begins in the middle of the
// outbox, without a mark; until something was confirmed it may be opened as
// fresh again, with a mark.
func addedLater(w *world) {
	l := w.lane(baseOwner())
	l.fresh, l.epoch = true, 7
	begin := sink.Pos{Epoch: 7, Index: 3}
	l.j.Confirmed = begin
	l.feed(numbered("a", 0, 9))
	p := l.started()
	_, err := p.apply(l.batch(begin, 4))
	w.must(err, "apply the first batch of a fresh sink")
	again := l.started()
	w.must(again.advance(), "go on")
	l.fresh = false
	w.finish()
}

// callerOwns overwrites what was handed over, as a caller that reuses its
// slice does.
func callerOwns(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	for e := range 4 {
		l.feed(numbered("a", e*6, 6))
		b := l.batch(p.through, 100)
		entries := append([]sink.Entry(nil), b.Records...)
		b.Records = entries
		res, err := p.apply(b)
		for i := range entries {
			entries[i] = sink.Entry{Pos: sink.Pos{Epoch: 1 << 40}, Record: record.Record{Value: []byte("overwritten")}}
		}
		w.must(err, "apply")
		w.must(l.confirm(res.Through, res.Verdicts), "confirm")
		p.through = res.Through
	}
	w.check()
}

// atLeastOnce runs the control: without a ledger a replay may double, and may
// not lose.
func atLeastOnce(w *world) {
	l := w.lane(baseOwner().with(func(o *sink.Owner) { o.Guarantee = sink.AtLeastOnce }))
	l.feed(numbered("a", 0, 10))
	for range 2 {
		p := l.started()
		if p.through != l.j.Confirmed {
			w.t.Errorf("without a ledger the task resumes at %s, want the confirmed %s", p.through, l.j.Confirmed)
		}
		if _, err := p.apply(l.batch(p.through, 7)); err != nil {
			w.t.Fatalf("apply: %v", err)
		}
	}
	p := l.started()
	w.must(p.advance(), "advance")
	got := byID(w.target.Read(w.t))
	for _, r := range w.want() {
		if len(got[r.ID]) == 0 {
			w.t.Errorf("%s is missing", r.ID)
		}
	}
}
