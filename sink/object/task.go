package object

import (
	"context"
	"fmt"

	"exactly/sink"
)

const (
	rowBudget   = 4 << 20 // bytes that the encoders of a task hold back at most
	maxWaiting  = 32      // sealed groups; Apply stops short at as many
	maxVerdicts = 256     // of a group; then it is ripe
	maxCost     = 40 << 10
	waitingCost = 4 * maxCost // of the sealed groups together
)

// task is the sink at work for one task. Apply, Stage and Close are serial;
// Commit, Abort and Sweep use only what never changes.
type task struct {
	s       *Sink
	owner   sink.Owner
	folders folders

	taken  sink.Pos // everything through here is in a group, or has its verdict
	group  *group   // takes records in
	sealed []*group // wait for Stage, in order
	ended  []*part  // take no more records and are not durable yet
	seq    int64    // of the next upload
	quiet  bool     // no record was taken in since the last Stage
	broken error    // fatal: the content of a group cannot be trusted
}

func newTask(s *Sink, o sink.Owner, from sink.Pos) *task {
	t := &task{s: s, owner: o, folders: folders{p: s.parts}, taken: from, quiet: true}
	t.group = t.newGroup()
	return t
}

// Apply takes records in. See sink.OutboxStager.
func (t *task) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	res := sink.Result{Through: minPos(t.taken, b.Through)}
	if err := t.follows(b); err != nil {
		return res, err
	}
	err := t.settle(ctx)
	for i := range b.Records {
		if err != nil || t.full() {
			break
		}
		e := &b.Records[i]
		if !t.taken.Before(e.Pos) {
			continue
		}
		var v *sink.Verdict
		if v, err = t.take(ctx, e); v != nil {
			res.Verdicts = append(res.Verdicts, *v)
		}
	}
	if err == nil && t.taken.Before(b.Through) && !t.full() {
		t.taken = b.Through
	}
	res.Through = minPos(t.taken, b.Through)
	if err != nil {
		return res, fmt.Errorf("take records behind %s into sink %s: %w", res.Through, t.s.name, err)
	}
	return res, nil
}

// full reports whether enough waits for Stage: what it gives has to fit into a
// journal record. Without a journal there is no limit.
func (t *task) full() bool {
	if t.owner.Guarantee == sink.AtLeastOnce {
		return false
	}
	cost := 0
	for _, g := range t.sealed {
		cost += g.cost
	}
	return len(t.sealed) >= maxWaiting || cost >= waitingCost
}

// follows refuses a batch that does not join what was taken in.
func (t *task) follows(b sink.Batch) error {
	if t.broken != nil {
		return t.broken
	}
	if t.owner.Guarantee == sink.AtLeastOnce || !t.taken.Before(b.Prev) {
		return nil
	}
	return fmt.Errorf("sink %s: a batch begins behind %s, records were taken in through %s: %w",
		t.s.name, b.Prev, t.taken, sink.ErrLedgerBehind)
}

// take brings one record into its file, or gives its verdict, and moves on
// behind it. An error beside it says that something is still to be written.
func (t *task) take(ctx context.Context, e *sink.Entry) (*sink.Verdict, error) {
	g := t.group
	if t.s.config.Roll.Epoch && g.epoch != 0 && g.epoch != e.Pos.Epoch {
		if err := t.seal(); err != nil {
			return nil, err
		}
		g = t.group
	}
	var v *sink.Verdict
	if !e.Tombstone() {
		err := t.add(e)
		if err != nil && sink.Classify(err) != sink.ClassPoison {
			return nil, t.fatal(err)
		}
		if err != nil {
			v = &sink.Verdict{Pos: e.Pos, Code: sink.Code(err), Reason: err.Error()}
			g.verdicts++
		}
	}
	t.taken, t.quiet = e.Pos, false
	err := t.roll()
	if err == nil {
		err = t.settle(ctx)
	}
	return v, err
}

// add puts a record into the open file of its folder.
func (t *task) add(e *sink.Entry) error {
	folder, err := t.folders.of(&e.Record)
	if err != nil {
		return err
	}
	p := t.group.find(folder)
	if p != nil {
		err = p.enc.Add(&e.Record)
	} else {
		err = t.start(folder, &e.Record)
	}
	if err != nil {
		return err
	}
	t.group.epoch = e.Pos.Epoch
	return nil
}

func minPos(p, q sink.Pos) sink.Pos {
	if q.Before(p) {
		return q
	}
	return p
}
