package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"exactly/internal/broker"
	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
	"exactly/step"
)

// loop runs a task at least once: without transactions, outbox, ledgers and
// idempotency keys. It is the control that shows what the protocol is worth,
// and the choice of those who can live with duplicates. It produces, applies,
// then commits offsets; a crash in between repeats the records.
type loop struct {
	a    *attempt // for routing, dead letters and positions; its machine idles
	cl   *kgo.Client
	fail atomic.Pointer[error]

	acked func(*kgo.Record, error) // produced, made a value once and not per record
	sinks []*plainSink
	n     int64 // rounds
	began time.Time
	count int64
	bytes int64
}

// plainSink is an outbox or staging sink without its marks.
type plainSink struct {
	follows bool // others: it comes behind them
	name    string
	sink    sink.Sink
	where   Filter
	outbox  sink.OutboxTask
	stage   sink.StagingTask
	recs    []sink.Entry
	prev    sink.Pos
}

func newLoop(s *supervisor) *loop {
	l := &loop{a: newAttempt(s)}
	l.a.plain = true
	l.acked = l.produced
	return l
}

func (l *loop) took() time.Time { return l.a.running }

func (l *loop) live(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	a := l.a
	defer func() {
		cancel()
		a.wg.Wait()
		l.close()
	}()
	go func() { // a stop waits for sinks for a while only
		select {
		case <-a.s.stop:
			select {
			case <-time.After(a.s.within):
				cancel()
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	}()
	if err := a.s.prove(ctx); err != nil {
		return err
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	a.running = time.Now()
	a.w.emit(Event{Kind: TaskTakenOver, Task: a.task})
	for {
		if err := l.round(ctx); err != nil {
			return err
		}
		select {
		case <-a.s.stop:
			return nil
		case <-ctx.Done():
			return errLost
		default:
		}
	}
}

func (l *loop) open(ctx context.Context) (err error) {
	a := l.a
	opts := append(slices.Clip(a.w.base()),
		kgo.MaxBufferedRecords(math.MaxInt32), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(broker.Partitioner()), a.w.limits.Option())
	if l.cl, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	if err := l.openSinks(ctx); err != nil {
		return err
	}
	a.openRouters()
	start, err := a.w.startOffsets(ctx, a.task)
	if err != nil {
		return err
	}
	committed, err := a.w.admin.Committed(ctx, partitionsOf(start))
	if err != nil {
		return err
	}
	infos := a.s.topics()
	for _, s := range start {
		for _, p := range s.Partitions {
			if at, ok := committed[s.Topic][p.Partition]; ok {
				p.Offset, p.LeaderEpoch = at.Offset, at.Epoch
			}
			a.pos.add(s.Topic, infos[s.Topic].ID, p)
		}
	}
	if err := a.openReader(ctx, a.pos.snapshot()); err != nil {
		return err
	}
	a.wg.Go(func() { a.read(ctx) })
	return nil
}

func (l *loop) openSinks(ctx context.Context) error {
	a := l.a
	for _, s := range a.w.c.Sinks {
		ps := &plainSink{name: s.Name, sink: s.Sink, where: s.filter(), follows: len(followed(s.Sink)) > 0}
		err := patiently(ctx, func() (err error) {
			switch t := s.Sink.(type) {
			case sink.Outbox:
				ps.outbox, _, err = t.OpenOutbox(ctx, a.owner(s.Name), sink.Pos{})
			case sink.Staging:
				ps.stage, err = t.OpenStaging(ctx, a.owner(s.Name))
			}
			return err
		}, a.failing(s.Name))
		if err != nil {
			return fmt.Errorf("open sink %s: %w", s.Name, err)
		}
		if ps.outbox != nil || ps.stage != nil {
			l.sinks = append(l.sinks, ps)
		}
	}
	return nil
}

// round is one interval: process, produce, apply, commit the offsets.
func (l *loop) round(ctx context.Context) error {
	a := l.a
	l.n++
	l.began, l.count, l.bytes = time.Time{}, 0, 0
	if err := l.gather(ctx); err != nil || l.count == 0 {
		return err
	}
	if err := a.hit(ctx, failpoint.Filled, l.n); err != nil {
		return err
	}
	if err := l.cl.Flush(ctx); err != nil {
		return err
	}
	if e := l.fail.Load(); e != nil {
		return *e
	}
	if err := a.hit(ctx, failpoint.FlushDone, l.n); err != nil {
		return err
	}
	if err := l.applyAll(ctx); err != nil {
		return err
	}
	if err := a.hit(ctx, failpoint.EndBefore, l.n); err != nil {
		return err
	}
	if err := l.commit(ctx); err != nil {
		return err
	}
	if err := a.hit(ctx, failpoint.EndAfter, l.n); err != nil {
		return err
	}
	a.w.emit(Event{Kind: EpochDecided, Task: a.task, Epoch: l.n, N: l.count, Bytes: l.bytes, Duration: time.Since(l.began)})
	return nil
}

// gather processes records until the interval or a limit is reached.
func (l *loop) gather(ctx context.Context) error {
	a, c := l.a, l.a.w.c.Epoch
	timer := time.NewTimer(idlePoll)
	defer timer.Stop()
	for l.count < int64(c.MaxRecords) && l.bytes < c.MaxBytes {
		if a.chunk.at < len(a.chunk.recs) {
			if l.began.IsZero() {
				l.began = time.Now()
				timer.Reset(c.Interval)
			}
			rec := a.chunk.recs[a.chunk.at]
			a.chunk.at++
			l.process(rec)
			continue
		}
		select {
		case a.chunk = <-a.chunks:
		case <-timer.C:
			return nil
		case <-a.s.changed:
			a.addPartitions(ctx)
		case ev := <-a.events:
			if f, ok := ev.(epoch.Failed); ok {
				return f.Err
			}
		case <-a.s.stop:
			return nil
		case <-ctx.Done():
			return errLost
		}
	}
	return nil
}

func (l *loop) process(rec *kgo.Record) {
	a := l.a
	r := fromKafka(rec)
	a.pos.set(rec.Topic, rec.Partition, rec.Offset+1, rec.LeaderEpoch)
	l.count++
	l.bytes += int64(r.Size() + recordOverhead)
	info := step.Epoch{Number: l.n, Time: l.began.UTC().Truncate(time.Millisecond)}
	outs, err := a.chain.Apply(a.outs.recs[:0], r, info)
	a.outs.recs = outs[:0]
	if err != nil {
		l.refuse(r, refusal(err))
		return
	}
	for i := range outs {
		if why := l.emit(&outs[i]); why != nil {
			l.refuse(outs[i], why)
		}
	}
}

func (l *loop) emit(r *record.Record) *letter {
	a := l.a
	msgs := a.outs.msgs[:0]
	for i := range a.routers {
		var why *letter
		if msgs, why = a.routers[i].route(msgs, r); why != nil {
			return why
		}
	}
	a.outs.msgs = msgs[:0]
	recs, why := a.messages(msgs)
	if why != nil {
		return why
	}
	for _, s := range l.sinks {
		ok, why := a.wants(s.name, s.sink, s.where, r)
		if why != nil {
			return why
		}
		if ok {
			pos := sink.Pos{Epoch: l.n, Index: int64(len(s.recs))}
			s.recs = append(s.recs, sink.Entry{Pos: pos, Record: *r})
		}
	}
	for _, rec := range recs {
		l.produce(rec)
	}
	return nil
}

func (l *loop) produce(rec *kgo.Record) {
	l.bytes += int64(len(rec.Key) + len(rec.Value) + recordOverhead)
	l.cl.Produce(context.Background(), rec, l.acked)
}

func (l *loop) produced(r *kgo.Record, err error) {
	if err != nil {
		err = fmt.Errorf("produce to %s: %w", r.Topic, err)
		l.fail.CompareAndSwap(nil, &err)
	}
}

func (l *loop) refuse(r record.Record, why *letter) {
	for _, rec := range l.a.letters(l.n, r, why) {
		l.produce(rec)
	}
}

func (l *loop) applyAll(ctx context.Context) error {
	refused := make([][]sink.Entry, len(l.sinks))
	whys := make([][]*letter, len(l.sinks))
	for _, followers := range []bool{false, true} {
		g, gctx := errgroup.WithContext(ctx)
		for i, s := range l.sinks {
			if s.follows != followers {
				continue
			}
			g.Go(func() (err error) {
				if err := l.a.hit(gctx, failpoint.ApplyBefore, l.n); err != nil {
					return err
				}
				if refused[i], whys[i], err = l.apply(gctx, s); err != nil {
					return err
				}
				return l.a.hit(gctx, failpoint.ApplyAfter, l.n)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	for i := range refused {
		for j, e := range refused[i] {
			l.refuse(e.Record, whys[i][j])
		}
	}
	if err := l.cl.Flush(ctx); err != nil {
		return err
	}
	if e := l.fail.Load(); e != nil {
		return *e
	}
	return nil
}

func (l *loop) apply(ctx context.Context, s *plainSink) (refused []sink.Entry, whys []*letter, err error) {
	defer func() { s.recs = s.recs[:0] }()
	if len(s.recs) == 0 {
		return nil, nil, nil
	}
	if s.stage != nil {
		return l.applyStaged(ctx, s)
	}
	todo := s.recs
	for len(todo) > 0 {
		b := sink.Batch{Prev: s.prev, Through: todo[len(todo)-1].Pos, Confirmed: s.prev, Records: todo}
		var res sink.Result
		err := patiently(ctx, func() (err error) {
			res, err = s.outbox.Apply(ctx, b)
			if b.Prev.Before(res.Through) {
				return nil
			}
			return err
		}, l.a.failing(s.name))
		if err != nil {
			return nil, nil, fmt.Errorf("sink %s: %w", s.name, err)
		}
		for _, v := range res.Verdicts {
			for _, e := range todo {
				if e.Pos == v.Pos {
					refused = append(refused, e)
					whys = append(whys, &letter{stage: "sink " + s.name, sink: s.name, code: v.Code, reason: v.Reason})
				}
			}
		}
		s.prev = res.Through
		todo = behindEntries(todo, res.Through)
	}
	st, ok := s.outbox.(sink.OutboxStager)
	if !ok {
		return refused, whys, nil
	}
	cs, err := st.Stage(ctx, time.Now(), true)
	if err == nil && len(cs) > 0 {
		err = patiently(ctx, func() error { return st.Commit(ctx, cs) }, l.a.failing(s.name))
	}
	if err != nil {
		err = fmt.Errorf("sink %s: %w", s.name, err)
	}
	return refused, whys, err
}

func (l *loop) applyStaged(ctx context.Context, s *plainSink) (refused []sink.Entry, whys []*letter, err error) {
	recs := make([]record.Record, len(s.recs))
	for i := range s.recs {
		recs[i] = s.recs[i].Record
	}
	st := &staging{name: s.name, task: s.stage}
	var res stageResult
	err = st.refusals(s.stage.Write(ctx, l.n, recs), recs, &res)
	if f, ok := s.stage.(sink.StagingFlusher); ok && err == nil {
		err = st.refusals(f.Flush(ctx, l.n), recs, &res)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sink %s: %w", s.name, err)
	}
	cs, err := s.stage.Prepare(ctx, l.n)
	if err == nil && len(cs) > 0 {
		err = patiently(ctx, func() error { return s.stage.Commit(ctx, cs) }, l.a.failing(s.name))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sink %s: %w", s.name, err)
	}
	for _, r := range res.refused {
		refused = append(refused, sink.Entry{Record: r})
	}
	return refused, res.why, nil
}

// commit commits the offsets as a member of the group.
func (l *loop) commit(ctx context.Context) error {
	a := l.a
	offs, ids := broker.Offsets{}, map[string][16]byte{}
	for _, c := range commits(a.pos.snapshot()) {
		if offs[c.Topic] == nil {
			offs[c.Topic] = map[int32]kgo.EpochOffset{}
		}
		offs[c.Topic][c.Partition] = kgo.EpochOffset{Offset: c.Offset, Epoch: c.LeaderEpoch}
		ids[c.Topic] = c.TopicID
	}
	return broker.Settle(ctx, func() error {
		m, ok := a.membership()
		if !ok {
			return errLost
		}
		return a.w.admin.CommitOffsets(ctx, m, offs, ids)
	})
}

func (l *loop) close() {
	if l.a.reader != nil {
		l.a.reader.Close()
	}
	for _, s := range l.sinks {
		var err error
		if s.outbox != nil {
			err = s.outbox.Close()
		} else {
			err = s.stage.Close()
		}
		if err != nil {
			l.a.log.Warn("sink_close_failed", "sink", s.name, "err", err)
		}
	}
	if l.cl != nil {
		l.cl.Close()
	}
}
