package sinktest

import (
	"encoding/json"
	"fmt"
	"sync"

	"exactly/record"
	"exactly/sink"
)

// world is one scenario: a target and the tasks that write to it.
type world struct {
	t       TB
	subject Subject
	variant string
	target  Target
	kind    kind
	feat    sink.Features
	lanes   []*lane
}

func newWorld(t TB, s Subject, variant string, k kind, f sink.Features) *world {
	return &world{t: t, subject: s, variant: variant, target: s.Open(t, variant), kind: k, feat: f}
}

// again is the same scenario from the start on another target, for scenarios
// that go through many cases. The case is a subtest, so that what it opened is
// closed before the next.
func (w *world) again(name string, f func(*world)) bool {
	return w.t.Run(name, func(t TB) { f(newWorld(t, w.subject, w.variant, w.kind, w.feat)) })
}

// identity is an owner without its attempt.
type identity struct{ sink.Owner }

func baseOwner() identity {
	return identity{sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "pay", Sink: "out",
		Generation: 1, Task: 1, Tasks: 12, Guarantee: sink.ExactlyOnce,
	}}
}

func (i identity) with(f func(o *sink.Owner)) identity {
	f(&i.Owner)
	return i
}

func (i identity) owner(attempt int64) sink.Owner {
	o := i.Owner
	o.Attempt, o.Log = attempt, quiet()
	return o
}

// item is one record of a task's outbox, or of a staging sink's epoch. One
// that is not mine went to another sink and leaves a hole.
type item struct {
	sink.Entry
	spec   Spec
	mine   bool
	poison bool
}

// input is what a scenario feeds.
type input struct {
	Spec
	poison bool
}

func specs(ss ...Spec) []input {
	in := make([]input, len(ss))
	for i, s := range ss {
		in[i] = input{Spec: s}
	}
	return in
}

// numbered makes n records with keys of their own.
func numbered(prefix string, from, n int) []input {
	in := make([]input, n)
	for i := range in {
		in[i] = input{Spec: Spec{ID: fmt.Sprintf("%s-%06d", prefix, from+i), Value: int64(from + i), Extra: "é\"\n"}}
	}
	return in
}

// journal is what survives in Kafka: what was decided about one task.
type journal struct {
	Attempt   int64
	Confirmed sink.Pos            // outbox: the decided cursor
	Decided   int64               // staging: the last decided epoch
	Pending   []sink.Committable  // decided, not confirmed
	Committed *sink.Committable   // staging: the newest that is confirmed
	Dead      map[string]sink.Pos // dead letters, by position
}

// lane is one task: its input and its journal.
type lane struct {
	w        *world
	identity identity

	mu     sync.Mutex
	epoch  int64
	offset int64
	log    []item
	j      journal
	save   func(journal) // nil: memory is enough
	fresh  bool          // the sink was added to the pipeline later: see sink.Owner
	zombie bool          // it tells the sink nothing new about what is confirmed
}

func (w *world) lane(id identity) *lane {
	l := &lane{w: w, identity: id, j: journal{Dead: map[string]sink.Pos{}}}
	w.lanes = append(w.lanes, l)
	return l
}

// feed appends an epoch. Numbers and indexes have holes where the sink is an
// outbox sink, since other sinks share the outbox.
func (l *lane) feed(in []input) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	holes := l.w.kind != kindStaging
	if holes && l.epoch%3 == 0 {
		l.epoch++
	}
	index := int64(0)
	push := func(it item) {
		it.Pos = sink.Pos{Epoch: l.epoch, Index: index}
		l.log = append(l.log, it)
		index++
	}
	for i, x := range in {
		if holes && i%4 == 1 {
			push(item{})
		}
		push(item{Entry: sink.Entry{Record: l.record(x)}, spec: x.Spec, mine: true, poison: x.poison})
	}
	if holes && l.epoch%2 == 0 {
		push(item{})
	}
}

func (l *lane) record(x input) record.Record {
	mk := Make
	if l.w.target.Make != nil {
		mk = l.w.target.Make
	}
	if x.poison {
		mk = l.w.target.Poison
	}
	r := mk(x.Spec)
	l.offset++
	r.Source = record.Position{
		Topic: "source", Partition: l.identity.Task, Offset: l.offset, LeaderEpoch: 3, Timestamp: r.Timestamp,
	}
	return r
}

// end is the position of the last record, zero without any.
func (l *lane) end() sink.Pos {
	if len(l.log) == 0 {
		return sink.Pos{}
	}
	return l.log[len(l.log)-1].Pos
}

// batch is a run of at most n items behind from.
func (l *lane) batch(from sink.Pos, n int) sink.Batch {
	b := sink.Batch{Prev: from, Through: from}
	if !l.zombie {
		b.Confirmed = l.j.Confirmed
	}
	for _, it := range l.log {
		if !from.Before(it.Pos) {
			continue
		}
		if n == 0 {
			break
		}
		n--
		b.Through = it.Pos
		if it.mine {
			b.Records = append(b.Records, it.Entry)
		}
	}
	return b
}

// epochRecords are those of one staging epoch, with the items.
func (l *lane) epochRecords(epoch int64) (rs []record.Record, its []item) {
	for _, it := range l.log {
		if it.Pos.Epoch == epoch {
			rs, its = append(rs, it.Record), append(its, it)
		}
	}
	return rs, its
}

// confirm is a decision that moves an outbox cursor with its verdicts.
func (l *lane) confirm(through sink.Pos, vs []sink.Verdict) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if through.Before(l.j.Confirmed) {
		return fmt.Errorf("the cursor went back from %s to %s", l.j.Confirmed, through)
	}
	last := l.j.Confirmed
	for _, v := range vs {
		if !last.Before(v.Pos) || through.Before(v.Pos) {
			return fmt.Errorf("verdict for %s is not in order within (%s, %s]: %s", v.Pos, l.j.Confirmed, through, v.Reason)
		}
		last = v.Pos
		if err := l.bury(v); err != nil {
			return err
		}
	}
	l.j.Confirmed = through
	l.persist()
	return nil
}

// bury keeps a dead letter.
func (l *lane) bury(v sink.Verdict) error {
	if v.Code == "" || v.Reason == "" {
		return fmt.Errorf("verdict for %s lacks a code or a reason: %+v", v.Pos, v)
	}
	if _, twice := l.j.Dead[v.Pos.String()]; twice {
		return fmt.Errorf("two verdicts for %s", v.Pos)
	}
	l.j.Dead[v.Pos.String()] = v.Pos
	return nil
}

func (l *lane) persist() {
	if l.save != nil {
		l.save(l.j)
	}
}

// throughJSON sends committables the way of the journal.
func throughJSON(cs []sink.Committable) ([]sink.Committable, error) {
	b, err := json.Marshal(cs)
	if err != nil {
		return nil, fmt.Errorf("encode committables: %w", err)
	}
	var out []sink.Committable
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("decode committables: %w", err)
	}
	return out, nil
}
