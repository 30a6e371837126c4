package sinktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"exactly/sink"
)

func happyPath(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	for i := range 3 {
		l.feed(numbered("a", i*10, 10))
		w.must(p.advance(), "advance")
		w.check()
	}
	if err := p.sink.Check(w.t.Context()); err != nil {
		w.t.Errorf("Check of a target in use: %v", err)
	}
}

func acrossEpochs(w *world) {
	for _, size := range []int{1, 2, 3, 7, 1000} {
		w.again(fmt.Sprint(size), func(w *world) {
			l := w.lane(baseOwner())
			p := l.started()
			p.size = size
			for i := range 6 {
				l.feed(numbered("a", i*4, 4*(i%3)))
				if i%2 == 1 {
					w.must(p.advance(), "advance")
				}
			}
			w.must(p.advance(), "advance")
			w.check()
		})
	}
}

func oneKey(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	p.size = 100
	for e := range 3 {
		var in []input
		for i := range 9 {
			in = append(in, input{Spec: Spec{ID: fmt.Sprintf("k%d", i%2), Value: int64(e*10 + i), Extra: "x"}})
		}
		l.feed(in)
		w.must(p.advance(), "advance")
	}
	w.check()
}

func orderPerKey(w *world) {
	l := w.lane(baseOwner())
	for e := range 8 {
		var in []input
		for i := range 12 {
			in = append(in, input{Spec: Spec{ID: fmt.Sprintf("k%d", (i*i+e)%5), Value: int64(e*100 + i), Extra: fmt.Sprint(e)}})
		}
		l.feed(in)
	}
	for _, size := range []int{1, 7, 3} {
		p := l.started()
		p.size = size
		if p.staging != nil {
			w.must(p.epoch(), "epoch")
			continue
		}
		if p.stager == nil {
			res, err := p.apply(l.batch(p.through, size))
			w.must(err, "apply")
			w.must(l.confirm(res.Through, res.Verdicts), "confirm")
		}
	}
	w.finish()
}

func tombstones(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	del := func(id string) Spec { return Spec{ID: id, Tombstone: true} }
	put := func(id string, v int64) Spec { return Spec{ID: id, Value: v, Extra: "t"} }
	for _, epoch := range [][]Spec{
		{put("a", 1), put("b", 2), put("c", 3)},
		{del("a"), del("never-there")},
		{put("a", 4), del("b"), put("b", 5), put("c", 6), del("c")},
		{del("b"), put("d", 7), del("d"), put("d", 8)},
	} {
		l.feed(specs(epoch...))
		w.must(p.advance(), "advance")
		w.check()
	}
	w.finish()
}

func reopen(w *world) {
	l := w.lane(baseOwner())
	for i := range 6 {
		l.feed(numbered("a", i*5, 5))
		p := l.started()
		w.must(p.advance(), "advance")
		w.check()
		p.close()
	}
}

func tasksAtOnce(w *world) {
	shared := w.target.New(w.t)
	w.t.Cleanup(func() { _ = shared.Close() })
	w.target.New = func(TB) sink.Sink { return unclosed(shared) }
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		l := w.lane(baseOwner().with(func(o *sink.Owner) { o.Task = int32(i) }))
		for e := range 5 {
			l.feed(numbered(fmt.Sprintf("t%d", i), e*20, 20))
		}
		wg.Go(func() {
			p, err := l.start(nil)
			if err == nil {
				err = p.advance()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, err := range errs {
		w.must(err, fmt.Sprintf("task %d", i))
	}
	w.check()
}

// unclosed shields a shared sink from the Close of each process.
func unclosed(s sink.Sink) sink.Sink {
	switch s := s.(type) {
	case sink.Staging:
		return openStaging{s}
	case sink.Outbox:
		return openOutbox{s}
	}
	return s
}

type (
	openStaging struct{ sink.Staging }
	openOutbox  struct{ sink.Outbox }
)

func (openStaging) Close() error { return nil }
func (openOutbox) Close() error  { return nil }

func largeBatch(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	p.size = 2 * w.subject.Large // one batch
	in := numbered("big", 0, w.subject.Large)
	for i := range w.subject.Large / 4 { // few keys, which come back
		in = append(in, input{Spec: Spec{ID: fmt.Sprintf("again%d", i%16), Value: int64(i), Extra: "x"}})
	}
	l.feed(in)
	w.must(p.advance(), "advance")
	w.check()
}

// cancelled demands that a cancelled call is over soon, refuses nothing and
// leaves the task usable.
func cancelled(w *world) {
	l := w.lane(baseOwner())
	p := l.started()
	l.feed(numbered("a", 0, 10))
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel()
	begin := time.Now()
	res, err := p.outbox.Apply(ctx, l.batch(p.through, 100))
	if took := time.Since(begin); took > 20*time.Second {
		w.t.Errorf("a cancelled Apply took %v", took)
	}
	if err != nil && sink.Classify(err) != sink.ClassTransient {
		w.t.Errorf("a cancelled Apply is %v, want transient: %v", sink.Classify(err), err)
	}
	if len(res.Verdicts) > 0 {
		w.t.Errorf("a cancelled Apply refused records: %v", res.Verdicts)
	}
	w.must(p.advance(), "advance after a cancelled call")
	w.check()
}
