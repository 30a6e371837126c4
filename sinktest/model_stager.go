package sinktest

import (
	"context"
	"fmt"
	"time"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
)

// ModelStager is the contract of an outbox sink that collects records over
// epochs and stages them, at its shortest.
type ModelStager struct {
	srv *Server
	opt Options
}

// NewModelStager returns a staging outbox sink over srv.
func NewModelStager(srv *Server, opt Options) *ModelStager { return &ModelStager{srv, opt} }

// Features implements sink.Sink.
func (m *ModelStager) Features() sink.Features {
	f := m.opt.features()
	f.Stages = true
	f.DurableVerdicts = false // they are found again when the records are taken in again
	f.Stages = true
	return f
}

// Check implements sink.Sink.
func (m *ModelStager) Check(ctx context.Context) error {
	return m.srv.do(ctx, "check", sink.Owner{}, func() error { return nil })
}

// Close implements sink.Sink.
func (m *ModelStager) Close() error { return nil }

// OpenOutbox implements sink.Outbox. The cursor moves with decisions only, so
// the task resumes where the journal stands.
func (m *ModelStager) OpenOutbox(ctx context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	if err := m.srv.do(ctx, "open", o, func() error { return m.srv.claim(o) }); err != nil {
		return nil, sink.Resume{}, err
	}
	t := &modelStagerTask{
		modelCommitter: modelCommitter{srv: m.srv, opt: m.opt, o: o},
		staged:         confirmed, taken: confirmed,
	}
	return t, sink.Resume{Through: confirmed}, nil
}

type modelStagerTask struct {
	modelCommitter
	staged, taken sink.Pos // through which works reach; taken in through
	since         time.Time
	records       []record.Record // between the two
	works         []unhanded      // not handed over yet
	verdicts      []sink.Verdict  // of records that were taken in
}

type unhanded struct {
	id      workID
	records []record.Record
}

// Apply implements sink.OutboxTask: it takes records in.
func (t *modelStagerTask) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	if err := ctx.Err(); err != nil {
		return sink.Result{Through: b.Prev}, sink.Transient(err)
	}
	d := t.srv.defects
	if t.taken.Before(b.Prev) && !d[GapAccepted] {
		return sink.Result{Through: b.Prev}, fmt.Errorf("take in behind %s at %s: %w", b.Prev, t.taken, sink.ErrLedgerBehind)
	}
	taken := t.taken
	if d[LedgerIgnored] {
		taken = b.Prev
	}
	for _, e := range b.Records {
		if !taken.Before(e.Pos) || e.Tombstone() && d[TombstoneIgnored] {
			continue
		}
		if err := t.opt.refuse(&e.Record); err != nil {
			if !d[VerdictDropped] {
				t.verdicts = append(t.verdicts, sink.Verdict{Pos: e.Pos, Code: sink.Code(err), Reason: err.Error()})
			}
			if d[PoisonTakesBatch] {
				t.records = nil
			}
			continue
		}
		t.records = append(t.records, e.Record)
		if e.Pos.Epoch%2 == 0 {
			t.srv.leak(AppliedKept, e.Record)
		}
	}
	if t.taken.Before(b.Through) {
		t.taken = b.Through
	}
	t.verdicts = between(t.verdicts, b.Confirmed, t.taken)
	return sink.Result{Through: b.Through, Verdicts: between(t.verdicts, b.Prev, b.Through)}, nil
}

// Stage implements sink.OutboxStager. What an error kept from being handed over
// is staged again by the next call, under the same name.
func (t *modelStagerTask) Stage(ctx context.Context, now time.Time, force bool) ([]sink.Committable, error) {
	t.collect(now, force)
	var cs []sink.Committable
	for _, w := range t.works {
		if err := t.o.Failpoints.Hit(ctx, failpoint.SinkStageBefore, t.o.Task, w.id.Through.Epoch); err != nil {
			return nil, sink.Transient(err)
		}
		err := t.srv.do(ctx, "stage", t.o, func() error {
			t.stage(w.id, w.records)
			return nil
		})
		if err == nil {
			err = sink.Transient(t.o.Failpoints.Hit(ctx, failpoint.SinkStageAfter, t.o.Task, w.id.Through.Epoch))
		}
		if err != nil {
			t.srv.leak(UnappliedKept, w.records...)
			if t.srv.defects[StageForgets] {
				t.works = nil
			}
			return nil, err
		}
		c, err := t.committable(w.id)
		if err != nil {
			return nil, err
		}
		cs = append(cs, c...)
	}
	t.works = nil
	return cs, nil
}

// collect makes a work of what was taken in, if that is ripe.
func (t *modelStagerTask) collect(now time.Time, force bool) {
	if len(t.records) == 0 {
		t.staged = t.taken // nothing but holes and refusals: the next work starts behind them
		return
	}
	if t.since.IsZero() {
		t.since = now
	}
	if !force && !t.ripe(now) {
		return
	}
	id := ownerID(t.o)
	id.From, id.Through = t.staged, t.taken
	t.works = append(t.works, unhanded{id, t.records})
	t.staged, t.records, t.since = t.taken, nil, time.Time{}
}

func (t *modelStagerTask) ripe(now time.Time) bool {
	if t.opt.RollRecords == 0 && t.opt.RollAge == 0 {
		return true
	}
	return t.opt.RollRecords > 0 && len(t.records) >= t.opt.RollRecords ||
		t.opt.RollAge > 0 && now.Sub(t.since).Milliseconds() >= t.opt.RollAge
}

// Close implements sink.OutboxTask.
func (t *modelStagerTask) Close() error { return nil }
