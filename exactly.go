package exactly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"exactly/internal/broker"
	"exactly/internal/deadletter"
	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/step"
	"exactly/step/cel"
)

// The parts of a Pipeline. Their zero values are documented at their fields.
type (
	Kafka       = broker.Config
	TLS         = broker.TLS
	SASL        = broker.SASL
	OAuth       = broker.OAuth
	Source      = engine.Source
	Epoch       = engine.Epoch
	Restart     = engine.Restart
	DeadLetters = engine.DeadLetters
	Outbox      = engine.Outbox
	Memory      = engine.Memory
	Event       = engine.Event
	EventKind   = engine.EventKind
	Oversize    = deadletter.Oversize

	ResetOptions = engine.ResetOptions
	ResetResult  = engine.ResetResult

	ResolveOptions = engine.ResolveOptions
	ResolveResult  = engine.ResolveResult
	// StartError is what Run returns where the start was refused.
	StartError = engine.StartError
)

// Pipeline is a source, steps and sinks under one name.
type Pipeline struct {
	Name      string         // required; prefixes everything that the pipeline owns
	Guarantee sink.Guarantee // "": exactly once
	Kafka     Kafka          // Brokers are required
	Source    Source         // Topics are required
	Format    step.Format    // of the source's values; "": JSON objects
	Fields    map[string]string
	Tasks     int32 // 0: the source's partitions, at most 4, fewer where Epoch.Interval is below 100 ms; fixed within a generation
	Epoch     Epoch
	Restart   Restart
	Steps     []step.Spec
	Sinks     []Sink // at least one
	Dead      DeadLetters
	Outbox    Outbox
	Memory    Memory

	Dir        string        // for this worker's small files, so that a restart need not wait for the session time-out; "": none
	StopWithin time.Duration // how long a graceful stop may take; 0: 20 s

	Events     func(Event)    // listener; must not block. nil: none
	Log        *slog.Logger   // nil: slog.Default
	Failpoints *failpoint.Set // nil: none armed
}

// Sink is a sink under its name in the pipeline. The name is part of the marks
// that the sink keeps: renaming makes it another sink.
type Sink struct {
	Name  string
	Sink  sink.Sink
	Where string // expression over the decided record; "": every record
}

// ErrConfig wraps what is wrong with a Pipeline before anything is started.
var ErrConfig = errors.New("pipeline")

// Program compiles the steps. Sinks that take expressions want its Env.
func (p Pipeline) Program() (*step.Program, error) {
	prog, err := step.Compile(p.Steps, step.Options{Format: p.Format, Fields: p.Fields})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return prog, nil
}

// Run makes this process a worker of the pipeline, and blocks. When ctx is
// cancelled, open epochs are closed, committed and confirmed, the group is left
// and nil is returned. Any other return is the cause: the start was refused, or
// a task failed beyond the restart policy. The sinks are closed in either case.
func (p Pipeline) Run(ctx context.Context) error {
	c, err := p.config()
	if err != nil {
		for _, s := range p.Sinks {
			if s.Sink != nil {
				err = errors.Join(err, s.Sink.Close())
			}
		}
		return err
	}
	return engine.New(c).Run(ctx)
}

// Reset ends the pipeline's generation and begins the next one, which takes
// over what p says: tasks, topics, sinks, and a start position if one is given.
// No worker may run. The sinks are closed afterwards.
func (p Pipeline) Reset(ctx context.Context, o ResetOptions) (ResetResult, error) {
	c, err := p.config()
	if err != nil {
		return ResetResult{}, err
	}
	return engine.New(c).Reset(ctx, o)
}

// Resolve finishes what dead workers left: it takes every task over, commits what
// is decided, rolls back what is not, drains the outboxes, and reads no source
// record. No worker may be in the group. What was done is in the result also where
// an error is beside it. The sinks are closed afterwards.
func (p Pipeline) Resolve(ctx context.Context, o ResolveOptions) (ResolveResult, error) {
	c, err := p.config()
	if err != nil {
		return ResolveResult{}, err
	}
	return engine.New(c).Resolve(ctx, o)
}

func (p Pipeline) config() (engine.Config, error) {
	prog, err := p.Program()
	if err != nil {
		return engine.Config{}, err
	}
	if len(p.Sinks) == 0 {
		return engine.Config{}, fmt.Errorf("%w: no sinks", ErrConfig)
	}
	c := engine.Config{
		Pipeline: p.Name, Guarantee: p.Guarantee, Broker: p.Kafka, Source: p.Source, Tasks: p.Tasks,
		Epoch: p.Epoch, Restart: p.Restart, NewChain: prog.NewChain, Dead: p.Dead, Outbox: p.Outbox, Memory: p.Memory,
		Dir: p.Dir, StopWithin: p.StopWithin, Events: p.Events, Log: p.Log, Failpoints: p.Failpoints,
	}
	seen := map[string]bool{}
	for _, s := range p.Sinks {
		switch {
		case s.Name == "" || s.Sink == nil:
			return c, fmt.Errorf("%w: a sink needs a name and a Sink", ErrConfig)
		case seen[s.Name]:
			return c, fmt.Errorf("%w: two sinks are named %s", ErrConfig, s.Name)
		}
		seen[s.Name] = true
		es := engine.Sink{Name: s.Name, Sink: s.Sink}
		if s.Where != "" {
			f, err := step.NewFilter(prog.Env(), "sinks."+s.Name+".where", s.Where)
			if err != nil {
				return c, fmt.Errorf("%w: %w", ErrConfig, err)
			}
			es.NewWhere = func() engine.Filter { return &where{f: f, v: new(cel.Vars)} }
		}
		c.Sinks = append(c.Sinks, es)
	}
	return c, nil
}

// where is a compiled filter with the variables of one goroutine.
type where struct {
	f *step.Filter
	v *cel.Vars
}

func (w *where) Keep(r *record.Record) (bool, error) {
	w.v.Reset(r)
	return w.f.Keep(w.v)
}
