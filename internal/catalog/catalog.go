package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"exactly"
	"exactly/internal/config"
	"exactly/internal/engine"
	"exactly/sink"
	httpsink "exactly/sink/http"
	"exactly/sink/kafka"
	"exactly/sink/object"
	"exactly/sink/postgres"
	"exactly/sink/sqlite"
	"exactly/step"
)

// Kinds is the table of sink kinds and their settings.
func Kinds() config.Kinds {
	return config.Kinds{
		"http":     &httpsink.Config{},
		"kafka":    &kafka.Config{},
		"object":   &object.Config{},
		"postgres": &postgres.Config{},
		"sqlite":   &sqlite.Config{},
	}
}

// Open makes one sink of a pipeline file.
func Open(f *config.File, s config.Sink, log *slog.Logger) (sink.Sink, error) {
	env := f.Program().Env()
	switch c := s.Settings.(type) {
	case *httpsink.Config:
		return httpsink.New(s.Name, *c, httpsink.Deps{Log: log, Env: env})
	case *kafka.Config:
		return kafka.New(s.Name, *c, kafka.Deps{Env: env, Reserved: []string{f.Broker().Names(1).Own()}})
	case *object.Config:
		return object.New(s.Name, *c, object.Deps{Env: env})
	case *postgres.Config:
		return postgres.NewWith(s.Name, *c, postgres.Deps{Env: env, Makes: makes(f, s.Name)})
	case *sqlite.Config:
		return sqlite.New(s.Name, *c)
	}
	return nil, fmt.Errorf("sink %s: there is no kind %s", s.Name, s.Kind)
}

// makes are the tables that other PostgreSQL sinks of the file make; not nil.
func makes(f *config.File, name string) []string {
	out := []string{}
	for _, s := range f.Sinks {
		if c, ok := s.Settings.(*postgres.Config); ok && s.Name != name {
			out = append(out, c.Makes()...)
		}
	}
	return out
}

// OpenAll makes every sink, in the order of the file; all mistakes are reported
// at once, at their place in the file.
func OpenAll(f *config.File, log *slog.Logger) ([]sink.Sink, error) {
	var out []sink.Sink
	var errs config.Errors
	var all []engine.Sink
	for _, s := range f.Sinks {
		made, err := Open(f, s, log)
		if err != nil {
			errs = append(errs, f.SinkError(s.Name, err))
			continue
		}
		out = append(out, made)
		all = append(all, engine.Sink{Name: s.Name, Sink: made})
	}
	if len(errs) == 0 {
		if name, err := engine.CheckFollowers(all); err != nil {
			errs = append(errs, f.SinkError(name, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs, CloseAll(out))
	}
	return out, nil
}

// CloseAll closes sinks.
func CloseAll(sinks []sink.Sink) error {
	var errs []error
	for _, s := range sinks {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// CheckAll asks every sink whether the real system is as it must be.
func CheckAll(ctx context.Context, f *config.File, sinks []sink.Sink) error {
	var errs []error
	for i, s := range sinks {
		if err := s.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("check sink %s (%s): %w", f.Sinks[i].Name, f.Sinks[i].Kind, err))
		}
	}
	return errors.Join(errs...)
}

// Pipeline makes a pipeline file runnable. The sinks are open; Run closes them.
func Pipeline(f *config.File, log *slog.Logger) (exactly.Pipeline, error) {
	sinks, err := OpenAll(f, log)
	if err != nil {
		return exactly.Pipeline{}, err
	}
	k := f.Broker()
	k.Log = log
	p := exactly.Pipeline{
		Name: f.Pipeline, Guarantee: f.Guarantee, Kafka: k,
		Source: exactly.Source{Topics: f.Source.Topics, Start: f.Source.Start},
		Format: step.Format(f.Source.Format), Fields: f.Source.Fields, Tasks: int32(f.Tasks), //nolint:gosec // at most 1024
		Epoch: exactly.Epoch{
			Interval: f.Epoch.Interval, MinPause: f.Epoch.MinPause, Timeout: f.Epoch.Timeout,
			MaxRecords: f.Epoch.MaxRecords, MaxBytes: f.Epoch.MaxBytes,
		},
		Restart: exactly.Restart{
			Max: f.Restart.Max, Delay: f.Restart.Delay, MaxDelay: f.Restart.MaxDelay, ResetAfter: f.Restart.ResetAfter,
		},
		Steps:  f.StepSpecs(),
		Dead:   exactly.DeadLetters{Topic: f.DeadLetters.Topic, Oversize: exactly.Oversize(f.DeadLetters.Oversize)},
		Outbox: exactly.Outbox{MaxBytes: f.Outbox.MaxBytes, MaxAge: f.Outbox.MaxAge, Stop: f.Outbox.Policy == "stop"},
		Memory: exactly.Memory{Fetch: f.Memory.Fetch, Epoch: f.Memory.Epoch, Handover: f.Memory.Handover},
		Dir:    f.Worker.Dir, Log: log,
	}
	if p.Restart.Max == 0 {
		p.Restart.Max = -1 // in the file 0 means none
	}
	for i, s := range f.Sinks {
		p.Sinks = append(p.Sinks, exactly.Sink{Name: s.Name, Sink: sinks[i], Where: s.Where})
	}
	return p, nil
}
