package sinktest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
)

// ModelStaging is the staging contract at its shortest.
type ModelStaging struct {
	srv *Server
	opt Options
}

// NewModelStaging returns a staging sink over srv.
func NewModelStaging(srv *Server, opt Options) *ModelStaging { return &ModelStaging{srv, opt} }

// Features implements sink.Sink.
func (m *ModelStaging) Features() sink.Features {
	f := m.opt.features()
	f.DurableVerdicts = false // a refusal is known before the decision
	return f
}

// Check implements sink.Sink.
func (m *ModelStaging) Check(ctx context.Context) error {
	return m.srv.do(ctx, "check", sink.Owner{}, func() error { return nil })
}

// Close implements sink.Sink.
func (m *ModelStaging) Close() error { return nil }

// Observe implements sink.Observer. The model has no clock.
func (m *ModelStaging) Observe(ctx context.Context, o sink.Owner) (works []sink.StagedWork, err error) {
	err = m.srv.do(ctx, "observe", o, func() error {
		for id := range m.srv.staged {
			w := id.work()
			same := id.Incarnation == o.Incarnation && id.Pipeline == o.Pipeline && id.Sink == o.Sink
			if m.srv.defects[ObservedByPrefix] {
				same = strings.HasPrefix(id.Pipeline, o.Pipeline)
			}
			if !same {
				w = sink.StagedWork{Name: w.Name, Undo: w.Undo, Foreign: true}
			}
			works = append(works, w)
		}
		return nil
	})
	return works, err
}

// OpenStaging implements sink.Staging.
func (m *ModelStaging) OpenStaging(ctx context.Context, o sink.Owner) (sink.StagingTask, error) {
	err := m.srv.do(ctx, "open", o, func() error {
		if err := m.srv.claim(o); err != nil {
			return err
		}
		return m.srv.knows(o.Committed)
	})
	if err != nil {
		return nil, err
	}
	t := &modelStagingTask{
		modelCommitter: modelCommitter{srv: m.srv, opt: m.opt, o: o},
		sent:           map[int64]int{},
	}
	if m.opt.Collect {
		return &modelCollector{modelStagingTask: t, taken: map[int64][]record.Record{}}, nil
	}
	return t, nil
}

// knows compares the marks with what a decision knows as committed.
func (s *Server) knows(c *sink.Committable) error {
	if c == nil || s.defects[AheadAccepted] {
		return nil
	}
	id, err := parseID(*c)
	if err != nil {
		return err
	}
	if _, done := s.done[id]; !done {
		return fmt.Errorf("work of attempt %d, epoch %d is not known: %w", id.Attempt, id.Epoch, sink.ErrLedgerBehind)
	}
	return nil
}

// modelCollector writes at the end of an epoch.
type modelCollector struct {
	*modelStagingTask
	taken map[int64][]record.Record
}

var _ sink.StagingFlusher = (*modelCollector)(nil)

// Write implements sink.StagingTask.
func (t *modelCollector) Write(_ context.Context, epoch int64, rs []record.Record) error {
	t.taken[epoch] = append(t.taken[epoch], rs...)
	return nil
}

// Flush implements sink.StagingFlusher.
func (t *modelCollector) Flush(ctx context.Context, epoch int64) error {
	rs := t.taken[epoch]
	delete(t.taken, epoch)
	if len(rs) == 0 {
		return nil
	}
	return t.modelStagingTask.Write(ctx, epoch, rs)
}

type modelStagingTask struct {
	modelCommitter
	mu   sync.Mutex
	sent map[int64]int // records that the session of an epoch has to hold
}

func (t *modelStagingTask) id(epoch int64) workID {
	id := ownerID(t.o)
	id.Epoch = epoch
	return id
}

// Write implements sink.StagingTask.
func (t *modelStagingTask) Write(ctx context.Context, epoch int64, rs []record.Record) error {
	poison := &sink.PoisonError{}
	var good []record.Record
	for i := range rs {
		if err := t.opt.refuse(&rs[i]); err != nil {
			poison.Index, poison.Errs = append(poison.Index, i), append(poison.Errs, err)
			continue
		}
		if !rs[i].Tombstone() || !t.srv.defects[TombstoneIgnored] {
			good = append(good, rs[i])
		}
	}
	if len(poison.Index) > 0 && t.srv.defects[PoisonTakesBatch] {
		good = nil
	}
	id := t.id(epoch)
	err := t.srv.do(ctx, "write", t.o, func() error {
		t.srv.sessions[id] = append(t.srv.sessions[id], good...)
		return nil
	})
	if err != nil {
		return err
	}
	if epoch%2 == 0 {
		t.srv.leak(AppliedKept, good...)
	}
	t.mu.Lock()
	t.sent[epoch] += len(good)
	t.mu.Unlock()
	if len(poison.Index) > 0 && !t.srv.defects[VerdictDropped] {
		return poison
	}
	return nil
}

// Prepare implements sink.StagingTask.
func (t *modelStagingTask) Prepare(ctx context.Context, epoch int64) ([]sink.Committable, error) {
	t.mu.Lock()
	sent := t.sent[epoch]
	delete(t.sent, epoch)
	t.mu.Unlock()
	if sent == 0 {
		return nil, nil
	}
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkStageBefore, t.o.Task, epoch); err != nil {
		return nil, sink.Transient(err)
	}
	id := t.id(epoch)
	err := t.srv.do(ctx, "prepare", t.o, func() error {
		rs := t.srv.sessions[id]
		if len(rs) != sent && !t.srv.defects[SessionLost] {
			return sink.Transient(fmt.Errorf("prepare epoch %d: the session holds %d of %d records", epoch, len(rs), sent))
		}
		delete(t.srv.sessions, id)
		t.stage(id, rs)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkStageAfter, t.o.Task, epoch); err != nil {
		return nil, sink.Transient(err)
	}
	return t.committable(id)
}

// Close implements sink.StagingTask.
func (t *modelStagingTask) Close() error { return nil }
