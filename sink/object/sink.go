package object

import (
	"context"
	"fmt"
	"log/slog"

	"exactly/sink"
	"exactly/sink/object/encode"
	"exactly/sink/object/store"
)

// Sink writes files. It is shared by all tasks of a worker.
type Sink struct {
	name   string
	config Config
	store  store.Store
	format encode.Format
	parts  *partitioner // nil: no partition_by
}

var _ sink.Outbox = (*Sink)(nil)

// New makes the sink with that name in the pipeline. It touches nothing yet; its
// errors name the setting. Zero settings mean their defaults.
func New(name string, c Config, d Deps) (*Sink, error) {
	c = c.withDefaults()
	s := &Sink{name: name, config: c}
	err := c.check()
	if err == nil {
		s.store, err = openStore(c.URL)
	}
	if err == nil {
		s.format, err = c.format()
	}
	if err == nil {
		s.parts, err = newPartitioner(c.PartitionBy, d)
	}
	if err != nil {
		return nil, fmt.Errorf("sink %s: object.%w", name, err)
	}
	return s, nil
}

// Features: a file can hold a record twice; JSON that does not fit is refused;
// tombstones delete nothing.
func (s *Sink) Features() sink.Features {
	return sink.Features{Keyless: true, Rejects: true, Stages: true}
}

// Check makes the folders, and writes and removes a file.
func (s *Sink) Check(ctx context.Context) error {
	if err := s.store.Check(ctx); err != nil {
		return fmt.Errorf("sink %s: object.url %s: %w", s.name, s.config.URL, err)
	}
	return nil
}

// Close does nothing: tasks are closed one by one.
func (s *Sink) Close() error { return nil }

// OpenOutbox implements sink.Outbox. The task is a sink.OutboxStager; it resumes
// at confirmed, since the decided committables are its only ledger.
func (s *Sink) OpenOutbox(ctx context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := s.bind(ctx, o); err != nil {
		return nil, sink.Resume{}, fmt.Errorf("open sink %s, task %d: %w", s.name, o.Task, err)
	}
	return newTask(s, o, confirmed), sink.Resume{Through: confirmed}, nil
}

// bind makes sure that the url holds no files of another incarnation of this
// pipeline's sink.
func (s *Sink) bind(ctx context.Context, o sink.Owner) error {
	longest := Name{
		Pipeline: o.Pipeline, Sink: o.Sink, Generation: o.Generation, Task: o.Task, Incarnation: o.Incarnation,
		Ext: s.format.Ext(),
	}
	if n := len(longest.String()); n > 200 {
		return sink.Fatal(fmt.Errorf("file names would have %d bytes, more than file systems take; shorten the names of pipeline and sink", n))
	}
	if o.Guarantee == sink.AtLeastOnce {
		return nil
	}
	mark := escape(o.Pipeline) + "." + escape(o.Sink)
	holds, err := s.store.Mark(ctx, mark, o.Incarnation)
	if err != nil {
		return err
	}
	if holds != o.Incarnation {
		return fmt.Errorf("%w: %s belongs to incarnation %q of sink %s of pipeline %s, this is %q; use another url, or move the old files away together with the mark %s",
			sink.ErrForeignMark, s.config.URL, holds, o.Sink, o.Pipeline, o.Incarnation, s.store.Locate("_exactly/marks/"+mark))
	}
	return nil
}
