package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"exactly/internal/broker"
	"exactly/record"
	"exactly/sink"
	"exactly/step"
)

// router is a Kafka sink at work for one task.
type router struct {
	a     *attempt
	name  string
	sink  sink.Transactional
	where Filter
}

func (a *attempt) openRouters() {
	a.routers = a.routers[:0]
	for _, s := range a.w.c.Sinks {
		if t, ok := s.Sink.(sink.Transactional); ok {
			a.routers = append(a.routers, router{a: a, name: s.Name, sink: t, where: s.filter()})
		}
	}
}

func (s Sink) filter() Filter {
	if s.NewWhere == nil {
		return nil
	}
	return s.NewWhere()
}

func (r *router) route(dst []sink.Message, rec *record.Record) ([]sink.Message, *letter) {
	if ok, why := r.a.wants(r.name, r.sink, r.where, rec); !ok {
		return dst, why
	}
	dst, err := r.sink.Route(dst, rec)
	if err != nil {
		return dst, &letter{stage: "sink " + r.name, sink: r.name, code: sink.Code(err), reason: err.Error()}
	}
	return dst, nil
}

// wants applies a sink's filter and what it can do with a tombstone.
func (a *attempt) wants(name string, s sink.Sink, where Filter, rec *record.Record) (bool, *letter) {
	if rec.Tombstone() {
		if !s.Features().Deletes {
			a.w.emit(Event{Kind: TombstoneDrop, Task: a.task, Sink: name, N: 1})
			return false, nil
		}
		return true, nil
	}
	if where == nil {
		return true, nil
	}
	ok, err := where.Keep(rec)
	if err != nil {
		why := refusal(err)
		why.stage, why.sink = "sink "+name+" where", name
		return false, why
	}
	return ok, nil
}

func asStep(err error) (*step.Error, bool) {
	var se *step.Error
	ok := errors.As(err, &se)
	return se, ok
}

// sourceError makes errors of the source permanent where nothing but a person
// can mend them.
func sourceError(err error) error {
	if errors.Is(err, broker.ErrOutOfRange) {
		return Permanent(fmt.Errorf("%w; stop the workers and run `exactly reset --to POSITION` to go on behind the loss", err))
	}
	return err
}

// patiently repeats f while its error is transient, with back-off, until ctx
// ends. report is told of each failure.
func patiently(ctx context.Context, f func() error, report func(err error)) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 20*time.Millisecond, 5*time.Second
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if c := sink.Classify(err); c == sink.ClassFatal || c == sink.ClassPoison {
			return err
		}
		report(err)
		select {
		case <-time.After(b.NextBackOff()):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (a *attempt) owner(name string) sink.Owner {
	o := a.w.owner(name)
	o.Task, o.Attempt, o.Log = a.task, a.m.Attempt(), a.log.With("sink", name)
	if tell := a.w.settled; tell != nil {
		o.Settled = func(w sink.StagedWork, committed bool) { tell(name, w, committed) }
	}
	return o
}

// owner is what is the same for all tasks.
func (w *Worker) owner(name string) sink.Owner {
	return sink.Owner{
		Incarnation: w.meta.Incarnation, Pipeline: w.c.Pipeline, Sink: name, Generation: w.meta.Generation,
		Tasks: w.meta.Tasks, Stagings: len(w.stagingSinks()), Guarantee: w.c.Guarantee, Log: w.c.Log, Failpoints: w.c.Failpoints,
	}
}

// failing reports a sink's failure that is tried again.
func (a *attempt) failing(name string) func(error) {
	return func(err error) {
		a.w.emit(Event{Kind: SinkFailed, Task: a.task, Sink: name, Err: err})
	}
}
