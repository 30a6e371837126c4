package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/deadletter"
	"exactly/internal/epoch"
	"exactly/internal/outbox"
	"exactly/record"
	"exactly/sink"
	"exactly/step"
)

// chunk is what one poll brought. It is handed over unbuffered: a loop that
// does not take it is the source's back-pressure.
type chunk struct {
	recs []*kgo.Record
	at   int
	next []broker.Start // positions behind the chunk, control records included
}

// pollRecords is how many records a poll brings at most.
const pollRecords = 2000

// fillStep is how many records are processed before events are looked at.
const fillStep = 256

// openEpoch is what the engine knows of an epoch between begin and decision.
type openEpoch struct {
	n        int64
	began    time.Time
	deadline time.Time // for the decision; set at the barrier
	info     step.Epoch
	records  int64
	bytes    int64
	letters  int64
	entries  []outbox.Entry
	acked    []*kgo.Record // of the entries, for their offsets
	written  chan struct{} // closed: staging sinks took every record of it
	logged   chan struct{} // closed: R(n) is acknowledged
	ending   atomic.Bool   // EndTxn may have been sent
}

func (e *openEpoch) full(c Epoch) bool {
	return e.records >= int64(c.MaxRecords) || e.bytes >= c.MaxBytes
}

// scratch is reused from record to record.
type scratch struct {
	recs  []record.Record
	msgs  []sink.Message
	kafka []*kgo.Record
	slab  slab
}

// read polls beside the loop and hands chunks over.
func (a *attempt) read(ctx context.Context) {
	some := 0
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
		c := chunk{recs: make([]*kgo.Record, 0, some)} // about what the last poll brought
		err := a.reader.Poll(ctx, pollRecords, func(r *kgo.Record) error {
			c.recs = append(c.recs, r)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.post(ctx, epoch.Failed{Err: sourceError(err)})
			return
		}
		some = len(c.recs)
		pace.Reset(a.pace(some))
		c.next = a.reader.Positions()
		if topic, p, at, ok := a.reader.Gap(); ok {
			a.w.emit(Event{Kind: UnexplainedGap, Task: a.task, N: at, Detail: fmt.Sprintf("%s-%d", topic, p)})
		}
		select {
		case a.chunks <- c:
		case <-ctx.Done():
			return
		}
	}
}

// fewRecords is a poll that shows that the source is not behind.
const fewRecords = pollRecords / 4

// maxPace is how long a record may wait for others before it is fetched.
const maxPace = 5 * time.Millisecond

// pace is how long the reader lets records gather after a poll that brought n. A
// fetch for every few records costs the brokers more than all that follows; the
// epoch's end, for which the records wait, is not delayed by a tenth of it.
func (a *attempt) pace(n int) time.Duration {
	if n >= fewRecords {
		return 0
	}
	return min(a.w.c.Epoch.Interval/10, maxPace)
}

// throttled: the producers are behind by the budget.
func (a *attempt) throttled() bool {
	return a.chunk.at < len(a.chunk.recs) && a.m.CanFill() && !a.room()
}

// produced counts the bytes that are not acknowledged yet.
func (a *attempt) produced() (n int64) {
	for _, p := range a.prod {
		if p != nil {
			n += p.Buffered()
		}
	}
	return n
}

func (a *attempt) room() bool {
	if a.produced() >= a.w.c.Memory.Epoch {
		return false
	}
	for _, st := range a.stagings {
		if st.busy() {
			return false
		}
	}
	return true
}

func (a *attempt) wantsChunk() bool {
	return a.chunk.at == len(a.chunk.recs) && a.m.CanFill() && !a.full
}

func (a *attempt) take(ctx context.Context, c chunk) {
	a.chunk = c
	if len(c.recs) == 0 {
		a.settle(ctx)
	}
}

// settle moves positions behind the control records that follow the last data
// record, so that no lag is shown where there is none.
func (a *attempt) settle(ctx context.Context) {
	for _, s := range a.chunk.next {
		if p := a.pos.get(s.Topic, s.Partition); p != nil && s.Offset > p.Offset {
			p.Offset = s.Offset
			a.moved = true
		}
	}
	a.chunk = chunk{}
}

// fillShare: a look at the budget for what is not acknowledged comes after this
// part of it at the latest, however large records are.
const fillShare = 16

// fill processes some records of the chunk. false: there is nothing to do now.
func (a *attempt) fill(ctx context.Context) bool {
	if a.chunk.at >= len(a.chunk.recs) || a.full || !a.m.CanFill() || !a.room() {
		return false
	}
	size := int64(0) // since the look at the budget
	for range fillStep {
		if size > a.w.c.Memory.Epoch/fillShare {
			break
		}
		if a.chunk.at >= len(a.chunk.recs) {
			a.settle(ctx)
			break
		}
		rec := a.chunk.recs[a.chunk.at]
		a.chunk.recs[a.chunk.at] = nil
		a.chunk.at++
		ep := a.begun(ctx)
		if ep == nil {
			return true
		}
		before := ep.bytes
		a.process(ep, rec)
		size += ep.bytes - before
		if ep.full(a.w.c.Epoch) {
			break
		}
	}
	if n := a.m.Open(); n != 0 && !time.Now().Before(a.due()) {
		a.tick(ctx)
	}
	return true
}

// begun gives the open epoch, and begins one if there is none.
func (a *attempt) begun(ctx context.Context) *openEpoch {
	if a.m.Open() == 0 {
		a.step(ctx, epoch.Fill{})
	}
	if a.over != nil {
		return nil
	}
	return a.open[a.m.Open()]
}

func (a *attempt) begin(act epoch.Begin) {
	now := time.Now()
	a.open[act.Epoch] = &openEpoch{
		n: act.Epoch, began: now,
		info: step.Epoch{Number: act.Epoch, Attempt: a.m.Attempt(), Time: now.UTC().Truncate(time.Millisecond)},
	}
	if err := a.prod[act.Producer].Begin(); err != nil {
		a.over = err
	}
}

// process runs one source record through the steps and hands the results to
// the sinks, or it to the dead letters: in either case it is part of the epoch.
func (a *attempt) process(ep *openEpoch, rec *kgo.Record) {
	r := fromKafka(rec)
	a.pos.set(rec.Topic, rec.Partition, rec.Offset+1, rec.LeaderEpoch)
	ep.records++
	ep.bytes += int64(r.Size() + recordOverhead)
	outs, err := a.chain.Apply(a.outs.recs[:0], r, ep.info)
	a.outs.recs = outs[:0]
	if err != nil {
		a.refuse(ep, r, refusal(err))
		return
	}
	for i := range outs {
		if why := a.emit(ep, &outs[i]); why != nil {
			a.refuse(ep, outs[i], why)
		}
	}
}

// emit hands one record to every sink. Everything that can refuse it is asked
// before anything is produced: a dead letter is instead of the outputs.
func (a *attempt) emit(ep *openEpoch, r *record.Record) *letter {
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
	for _, ru := range a.runners {
		// Evaluated here only for its errors: a verdict of the engine's own could
		// not be kept in the sink's ledger.
		if ru.check != nil && !r.Tombstone() {
			if _, err := ru.check.Keep(r); err != nil {
				why := refusal(err)
				why.stage, why.sink = "sink "+ru.name+" where", ru.name
				return why
			}
		}
	}
	staged := make([]*staging, 0, len(a.stagings))
	for _, st := range a.stagings {
		ok, why := a.wants(st.name, st.sink, st.where, r)
		if why != nil {
			return why
		}
		if ok {
			staged = append(staged, st)
		}
	}
	if len(a.runners) > 0 {
		rec, entry := a.outboxRecord(ep, r)
		if why := a.tooLarge(rec); why != nil {
			return why
		}
		recs = append(recs, rec)
		a.outs.kafka = recs[:0]
		ep.entries, ep.acked = append(ep.entries, entry), append(ep.acked, rec)
		a.outPos, a.outBytes = entry.Pos, entry.Bytes
	}
	p := a.prod[epoch.Of(ep.n)]
	for _, rec := range recs {
		ep.bytes += int64(len(rec.Key) + len(rec.Value) + recordOverhead)
		p.Produce(rec)
	}
	for _, st := range staged {
		st.add(ep.n, r)
	}
	return nil
}

// messages gives msgs as records of the client, in a slice that is reused.
func (a *attempt) messages(msgs []sink.Message) ([]*kgo.Record, *letter) {
	recs := a.outs.kafka[:0]
	for i := range msgs {
		rec := a.outs.slab.of(&msgs[i])
		if why := a.tooLarge(rec); why != nil {
			return nil, why
		}
		recs = append(recs, rec)
	}
	a.outs.kafka = recs[:0]
	return recs, nil
}

// recordOverhead is what a buffered record costs beside its bytes.
const recordOverhead = 200

func (a *attempt) outboxRecord(ep *openEpoch, r *record.Record) (*kgo.Record, outbox.Entry) {
	e := outbox.Entry{
		Entry: sink.Entry{Pos: sink.Pos{Epoch: ep.n, Index: int64(len(ep.entries))}, Record: *r},
		Prev:  a.outPos, Bytes: a.outBytes + int64(r.Size()), EpochTime: ep.began.UnixMilli(),
	}
	rec := &kgo.Record{
		Topic: a.w.names.Outbox(), Partition: a.task, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp),
		Headers: make([]kgo.RecordHeader, 1, 1+len(r.Headers)),
	}
	rec.Headers[0] = kgo.RecordHeader{Key: outbox.Header, Value: e.Meta(make([]byte, 0, 80))}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return rec, e
}

func (a *attempt) tooLarge(rec *kgo.Record) *letter {
	n, limit := broker.RecordBytes(rec.Key, rec.Value, rec.Headers), a.w.limits.MaxRecord(rec.Topic)
	if n <= limit {
		return nil
	}
	return &letter{
		stage: "topic " + rec.Topic, code: deadletter.CodeTooLarge,
		reason: fmt.Sprintf("the record has %d bytes for topic %s, which takes %d (max.message.bytes)", n, rec.Topic, limit),
	}
}

// letter says why a record becomes a dead letter.
type letter struct {
	stage, sink, code, reason string
}

func refusal(err error) *letter {
	if se, ok := asStep(err); ok {
		return &letter{stage: se.Step, code: se.Code, reason: se.Err.Error()}
	}
	return &letter{stage: "steps", code: "expression", reason: err.Error()}
}

// refuse produces the dead letter inside the epoch's transaction.
func (a *attempt) refuse(ep *openEpoch, r record.Record, why *letter) {
	ep.letters++
	p := a.prod[epoch.Of(ep.n)]
	for _, rec := range a.letters(ep.n, r, why) {
		ep.bytes += int64(len(rec.Key) + len(rec.Value) + recordOverhead)
		p.Produce(rec)
	}
}

func (a *attempt) letters(n int64, r record.Record, why *letter) []*kgo.Record {
	l := deadletter.Letter{
		Pipeline: a.w.c.Pipeline, Stage: why.stage, Sink: why.sink, Code: why.code, Reason: why.reason,
		Task: a.task, Epoch: n, Record: r,
	}
	topic := a.w.c.Dead.Topic
	msgs := l.Messages(topic, a.w.limits.MaxRecord(topic), a.w.c.Dead.Oversize)
	out := make([]*kgo.Record, len(msgs))
	for i := range msgs {
		out[i] = a.outs.slab.of(&msgs[i])
	}
	a.w.emit(Event{Kind: DeadLetter, Task: a.task, Attempt: a.m.Attempt(), Epoch: n, Sink: why.sink, Detail: why.code, N: 1})
	return out
}
