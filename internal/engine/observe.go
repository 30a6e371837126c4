package engine

import (
	"context"
	"sync"
	"time"

	"exactly/sink"
)

// observeWithin bounds one look: a system that does not answer is asked again
// later, and nothing waits for it.
const observeWithin = 5 * time.Second

// observe tells, every now and then, what is staged in each sink that can say so:
// by this worker, by others, and by the dead, whose work holds its locks until
// somebody ends it. The returned function stops it and waits.
func (w *Worker) observe(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, s := range w.c.Sinks {
		if o, ok := s.Sink.(sink.Observer); ok && w.exactly() {
			wg.Go(func() { w.observeSink(ctx, s.Name, o) })
		}
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func (w *Worker) observeSink(ctx context.Context, name string, o sink.Observer) {
	every := time.NewTicker(w.c.ObserveEvery)
	defer every.Stop()
	for {
		ev := w.look(ctx, name, o)
		if ctx.Err() != nil {
			return
		}
		w.emit(ev)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *Worker) look(ctx context.Context, name string, o sink.Observer) Event {
	ctx, cancel := context.WithTimeout(ctx, observeWithin)
	defer cancel()
	works, err := o.Observe(ctx, w.owner(name))
	ev := Event{Kind: SinkStaged, Sink: name, Err: err}
	for _, work := range works {
		if !work.Foreign {
			ev.N++
			ev.Duration = max(ev.Duration, work.Age)
		}
	}
	return ev
}
