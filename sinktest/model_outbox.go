package sinktest

import (
	"context"
	"fmt"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
)

// ModelOutbox is the outbox contract at its shortest: data, ledger and
// verdicts in one transaction of a Server.
type ModelOutbox struct {
	srv *Server
	opt Options
}

// NewModelOutbox returns an outbox sink over srv.
func NewModelOutbox(srv *Server, opt Options) *ModelOutbox { return &ModelOutbox{srv, opt} }

// Features implements sink.Sink.
func (m *ModelOutbox) Features() sink.Features { return m.opt.features() }

// Check implements sink.Sink.
func (m *ModelOutbox) Check(ctx context.Context) error {
	return m.srv.do(ctx, "check", sink.Owner{}, func() error { return nil })
}

// Close implements sink.Sink.
func (m *ModelOutbox) Close() error { return nil }

// modelLedger is the mark of one task, and the verdicts kept beside it.
type modelLedger struct {
	through  sink.Pos
	verdicts []sink.Verdict
	refused  sink.Pos // of a bare sink: the record behind through, whose verdict no decision is known to hold
	attempt  int64    // of a fencing sink: the last that opened it
}

// held: a decision holds the verdict at which a bare sink has stopped.
func (l *modelLedger) held(confirmed sink.Pos) {
	if !l.refused.IsZero() && !confirmed.Before(l.refused) {
		l.through, l.refused = l.refused, sink.Pos{}
	}
}

// OpenOutbox implements sink.Outbox.
func (m *ModelOutbox) OpenOutbox(ctx context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	t := &modelOutboxTask{m: m, o: o}
	r := sink.Resume{Through: confirmed}
	if o.Guarantee == sink.AtLeastOnce {
		return t, r, nil
	}
	err := m.srv.do(ctx, "open", o, func() error {
		if err := m.srv.claim(o); err != nil {
			return err
		}
		l := m.srv.ledgers[t.m.srv.ledger(t.o)]
		if l == nil {
			l = &modelLedger{}
			if o.Fresh {
				l.through = confirmed
			}
			m.srv.ledgers[t.m.srv.ledger(t.o)] = l
		}
		if l.attempt == 0 || !m.srv.defects[SuccessorFenced] {
			l.attempt = max(l.attempt, o.Attempt)
		}
		l.held(confirmed)
		l.refused = sink.Pos{} // it is met again
		if l.through.Before(confirmed) && !m.srv.defects[AheadAccepted] {
			return fmt.Errorf("open at %s with the ledger at %s: %w", confirmed, l.through, sink.ErrLedgerBehind)
		}
		if confirmed.Before(l.through) {
			r.Through = l.through
		}
		r.Verdicts = between(l.verdicts, confirmed, r.Through)
		if m.srv.defects[VerdictTwice] {
			r.Verdicts = l.verdicts
		}
		return nil
	})
	if err != nil {
		return nil, sink.Resume{}, err
	}
	return t, r, nil
}

type modelOutboxTask struct {
	m      *ModelOutbox
	o      sink.Owner
	failed bool // the previous call
}

// Apply implements sink.OutboxTask.
func (t *modelOutboxTask) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	nothing := sink.Result{Through: b.Prev}
	res := nothing
	split := t.m.srv.defects[SplitTransaction]
	if split {
		if err := t.request(ctx, b, &res, true, false); err != nil {
			return nothing, err
		}
	}
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkTxnBefore, t.o.Task, b.Through.Epoch); err != nil {
		return nothing, sink.Transient(err)
	}
	err := t.request(ctx, b, &res, !split, true)
	if err == nil && !t.m.srv.defects[PointLeftOut] {
		err = sink.Transient(t.o.Failpoints.Hit(ctx, failpoint.SinkTxnAfter, t.o.Task, b.Through.Epoch))
	}
	t.failed = err != nil
	t.leak(b)
	if err != nil {
		return nothing, err
	}
	if t.m.srv.defects[DownIsSuccess] {
		res.Through = b.Through
	}
	return res, nil
}

// leak is that of a broken sink: of what has failed, or of every second epoch.
func (t *modelOutboxTask) leak(b sink.Batch) {
	for _, e := range b.Records {
		switch {
		case t.failed:
			t.m.srv.leak(UnappliedKept, e.Record)
		case e.Pos.Epoch%2 == 0:
			t.m.srv.leak(AppliedKept, e.Record)
		}
	}
}

func (t *modelOutboxTask) request(ctx context.Context, b sink.Batch, res *sink.Result, data, mark bool) error {
	return t.m.srv.show(ctx, "apply", t.o, b.Through.Epoch, func() error {
		l := t.m.srv.ledgers[t.m.srv.ledger(t.o)]
		if t.o.Guarantee == sink.AtLeastOnce {
			l = &modelLedger{through: b.Prev, attempt: t.o.Attempt}
		}
		if l != nil && t.m.opt.Fences && l.attempt != t.o.Attempt {
			return t.fenced(b, res)
		}
		if l != nil && t.m.opt.Bare {
			if l.held(b.Confirmed); !l.refused.IsZero() && l.through.Before(b.Prev) {
				return sink.Fatal(fmt.Errorf("apply behind %s, a refusal that no decision holds yet", b.Prev))
			}
		}
		if l == nil || l.through.Before(b.Prev) && !t.m.srv.defects[GapAccepted] {
			return fmt.Errorf("apply behind %s: %w", b.Prev, sink.ErrLedgerBehind)
		}
		if t.m.opt.Bare {
			*res = t.bare(b, l)
			return nil
		}
		if data {
			l.verdicts = append(l.verdicts, t.put(b, l.through)...)
		}
		if !mark {
			return nil
		}
		if l.through.Before(b.Through) {
			l.through = b.Through
		}
		if !t.m.srv.defects[VerdictTwice] {
			l.verdicts = between(l.verdicts, b.Confirmed, sink.Pos{Epoch: 1 << 62})
		}
		res.Through, res.Verdicts = b.Through, between(l.verdicts, b.Prev, b.Through)
		if t.m.srv.defects[VerdictDropped] {
			l.verdicts = nil
		}
		return nil
	})
}

// fenced is what a superseded attempt gets.
func (t *modelOutboxTask) fenced(b sink.Batch, res *sink.Result) error {
	err := fmt.Errorf("attempt %d was superseded", t.o.Attempt)
	if !t.m.srv.defects[FenceRefuses] {
		return sink.Transient(err)
	}
	res.Through = b.Through
	for _, e := range b.Records {
		res.Verdicts = append(res.Verdicts, sink.Verdict{Pos: e.Pos, Code: "superseded", Reason: err.Error()})
	}
	return nil
}

// bare applies a batch up to the first record that is refused.
func (t *modelOutboxTask) bare(b sink.Batch, l *modelLedger) sink.Result {
	for i := range b.Records {
		e := &b.Records[i]
		if !l.through.Before(e.Pos) {
			continue
		}
		if err := t.m.opt.refuse(&e.Record); err != nil {
			v := sink.Verdict{Pos: e.Pos, Code: sink.Code(err), Reason: err.Error()}
			if t.o.Guarantee != sink.AtLeastOnce {
				l.refused = e.Pos
			}
			return sink.Result{Through: e.Pos, Verdicts: []sink.Verdict{v}}
		}
		own := e.Record
		t.m.srv.insert(t.m.opt, []*record.Record{&own})
		l.through = e.Pos
	}
	if l.through.Before(b.Through) {
		l.through = b.Through
	}
	return sink.Result{Through: b.Through}
}

// put writes the records behind the ledger and returns the new verdicts.
func (t *modelOutboxTask) put(b sink.Batch, through sink.Pos) (vs []sink.Verdict) {
	d := t.m.srv.defects
	if d[LedgerIgnored] || d[DuplicateOnRetry] && t.failed {
		through = b.Prev
	}
	var rs []*record.Record
	for i := range b.Records {
		e := &b.Records[i]
		if !through.Before(e.Pos) || e.Tombstone() && d[TombstoneIgnored] {
			continue
		}
		if err := t.m.opt.refuse(&e.Record); err != nil {
			vs = append(vs, sink.Verdict{Pos: e.Pos, Code: sink.Code(err), Reason: err.Error()})
			continue
		}
		r := &e.Record
		if !d[KeepsBatch] {
			own := e.Record
			r = &own
		}
		rs = append(rs, r)
	}
	if d[PoisonTakesBatch] && len(vs) > 0 {
		rs = nil
	}
	t.m.srv.insert(t.m.opt, rs)
	return vs
}

// Close implements sink.OutboxTask.
func (t *modelOutboxTask) Close() error { return nil }

// insert makes records visible in order.
func (s *Server) insert(opt Options, rs []*record.Record) {
	if n := len(rs); n > 1 && s.defects[LastRecordLost] {
		rs = rs[:n-1]
	}
	for i := range rs {
		r := rs[i]
		if s.defects[Reordered] {
			r = rs[len(rs)-1-i]
		}
		s.table(opt.table()).put(r, opt.Keyed)
	}
}

// between gives the verdicts behind from up to through.
func between(vs []sink.Verdict, from, through sink.Pos) (out []sink.Verdict) {
	for _, v := range vs {
		if from.Before(v.Pos) && !through.Before(v.Pos) {
			out = append(out, v)
		}
	}
	return out
}
