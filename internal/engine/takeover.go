package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"exactly/internal/broker"
	"exactly/internal/epoch"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/internal/mutation"
	"exactly/internal/outbox"
)

// carryOut does what the machine asks for. Whatever blocks runs beside.
func (a *attempt) carryOut(ctx context.Context, act epoch.Action) {
	switch act := act.(type) {
	case epoch.Fence:
		a.beside(ctx, func(ctx context.Context) (epoch.Event, error) { return a.fence(ctx, act) })
	case epoch.ReadJournal:
		a.beside(ctx, a.readJournal)
	case epoch.ResolveStart:
		a.beside(ctx, a.resolveStart)
	case epoch.Claim:
		a.log = a.log.With("attempt", act.Record.Attempt)
		a.beside(ctx, func(ctx context.Context) (epoch.Event, error) { return a.claim(ctx, act.Record) })
	case epoch.Verify:
		a.beside(ctx, func(ctx context.Context) (epoch.Event, error) { return a.verify(ctx, act) })
	case epoch.Recover:
		a.beside(ctx, func(ctx context.Context) (epoch.Event, error) { return a.recover(ctx, act) })
	case epoch.Sweep:
		a.beside(ctx, func(ctx context.Context) (epoch.Event, error) { return a.sweep(ctx, act) })
	case epoch.Open:
		a.openAll(ctx, act.Record)
	case epoch.Over:
		a.over = act.Err
	default:
		a.carryOutEpoch(ctx, act)
	}
}

// step timeouts of a takeover; brokers may be electing meanwhile.
func (a *attempt) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.w.c.Epoch.Timeout)
}

func (a *attempt) fence(ctx context.Context, act epoch.Fence) (epoch.Event, error) {
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if act.Producer == epoch.A {
		if err := a.hit(ctx, failpoint.FenceBefore, 0); err != nil {
			return nil, err
		}
	}
	if mutation.Built {
		if err := a.readTooEarly(ctx, act.Producer); err != nil {
			return nil, err
		}
	}
	if !mutation.On(mutation.NoFence) {
		if err := a.prod[act.Producer].Init(ctx); err != nil {
			return nil, err
		}
	}
	point := failpoint.FenceA
	if act.Producer == epoch.B {
		point = failpoint.FenceB
	}
	return epoch.Fenced(act), a.hit(ctx, point, 0)
}

// readTooEarly reads the journal before the fences or between them, where that
// rule is broken.
func (a *attempt) readTooEarly(ctx context.Context, before epoch.Producer) (err error) {
	if mutation.On(mutation.ReadEarly) && before == epoch.A || mutation.On(mutation.CarryEarly) && before == epoch.B {
		a.early, err = a.readJournal(ctx)
	}
	return err
}

func (a *attempt) readJournal(ctx context.Context) (epoch.Event, error) {
	if a.early != nil {
		return a.early, nil
	}
	ctx, cancel := a.limited(ctx)
	defer cancel()
	var start, end int64
	var rec *kgo.Record
	var group broker.Offsets
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if start, end, err = a.w.log.Ends(gctx, a.w.names.Journal(), a.task); err != nil {
			return err
		}
		rec, err = a.w.log.LastCommitted(gctx, a.w.names.Journal(), a.task, start, end)
		return err
	})
	g.Go(func() (err error) {
		group, err = a.groupOffsets(gctx)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if rec == nil {
		if start > 0 {
			return nil, Permanent(fmt.Errorf("journal %s-%d begins at offset %d and holds no record: it was truncated or deleted by retention; "+
				"stop the workers and run `exactly reset` to begin a new generation", a.w.names.Journal(), a.task, start))
		}
		if err := a.checkNeverRan(group); err != nil {
			return nil, a.unlessMoved(ctx, nil, group, err)
		}
		return epoch.Read{Offset: end}, a.hit(ctx, failpoint.ReadAfter, 0)
	}
	r, err := decodeJournal(rec)
	if err != nil {
		return nil, err
	}
	if err := a.checkPositions(group, r); err != nil {
		return nil, a.unlessMoved(ctx, r, group, err)
	}
	return epoch.Read{Record: r, Offset: rec.Offset}, a.hit(ctx, failpoint.ReadAfter, r.Epoch)
}

// unlessMoved is the error of a comparison of what was read, unless one or the other
// has changed since: then somebody else owns the task, and the offsets are theirs. The
// two are read beside each other, and to one who was asleep either may be the older.
func (a *attempt) unlessMoved(ctx context.Context, read *journal.Record, group broker.Offsets, err error) error {
	now, rerr := a.w.lastRecord(ctx, a.task)
	have, gerr := a.groupOffsets(ctx)
	if rerr == nil && !now.Same(read) || gerr == nil && !maps.EqualFunc(have, group, maps.Equal) {
		return fmt.Errorf("%w; what it met: %v", epoch.ErrDisturbed, err)
	}
	return err
}

func decodeJournal(rec *kgo.Record) (*journal.Record, error) {
	r, err := journal.Decode(rec.Value)
	if err != nil {
		return nil, Permanent(fmt.Errorf("%s-%d@%d: %w", rec.Topic, rec.Partition, rec.Offset, err))
	}
	return r, nil
}

// groupOffsets are what the group says of the task's partitions. A command does
// not ask: it reads no source, and its topics may be gone.
func (a *attempt) groupOffsets(ctx context.Context) (broker.Offsets, error) {
	if a.w.settles() {
		return nil, nil
	}
	want := map[string][]int32{}
	for topic, t := range a.s.topics() {
		want[topic] = owned(a.task, a.w.meta.Tasks, t.Partitions)
	}
	return a.w.admin.Committed(ctx, want)
}

// checkNeverRan refuses a task whose journal is empty although its group has
// offsets: the journal topic was deleted, and a start would read the source
// anew. A reset sets the group's offsets to the new generation's starts.
func (a *attempt) checkNeverRan(have broker.Offsets) error {
	for topic, parts := range have {
		for p, at := range parts {
			if start := a.w.meta.Starts[topic]; a.w.meta.Starts != nil && at.Offset == startAt(start, p) {
				continue
			}
			return Permanent(&broker.Problem{
				Code: broker.CodeJournalLost, Place: fmt.Sprintf("journal %s-%d", a.w.names.Journal(), a.task),
				Cause: fmt.Sprintf("is empty, but group %s has read %s-%d up to %d: the journal topic was deleted or emptied, and a start would repeat everything",
					a.w.names.Group(), topic, p, at.Offset),
				Remedy: "stop the workers and run `exactly reset`, with --to if the source is not to be read from where the group stands",
			})
		}
	}
	return nil
}

func startAt(starts []int64, p int32) int64 {
	if int(p) < len(starts) {
		return starts[p]
	}
	return 0
}

// checkPositions compares the journal with the world: topics by their ids, and
// the group's offsets, which only this program moves. A command that reads no
// source needs neither, and the end of a generation is what both ask for.
func (a *attempt) checkPositions(have broker.Offsets, r *journal.Record) error {
	if a.w.settles() {
		return nil
	}
	now := a.s.topics()
	for _, s := range r.Sources {
		t, ok := now[s.Topic]
		if id := hex.EncodeToString(t.ID[:]); ok && id != s.ID {
			return Permanent(recreated(s.Topic, s.ID, id))
		}
	}
	if r.Sealed {
		return nil
	}
	for _, s := range r.Sources {
		for _, p := range s.Partitions {
			at, ok := have[s.Topic][p.Partition]
			if ok && at.Offset != p.Offset {
				return Permanent(&broker.Problem{
					Code: broker.CodeOffsetsMoved, Place: fmt.Sprintf("%s-%d in group %s", s.Topic, p.Partition, a.w.names.Group()),
					Cause:  fmt.Sprintf("the committed offset is %d, the journal says %d: somebody moved it by hand", at.Offset, p.Offset),
					Remedy: "offsets of a running generation cannot be moved: stop the workers and run `exactly reset --to POSITION`, or move it back",
				})
			}
		}
	}
	return nil
}

func partitionsOf(sources []journal.Source) map[string][]int32 {
	out := map[string][]int32{}
	for _, s := range sources {
		for _, p := range s.Partitions {
			out[s.Topic] = append(out[s.Topic], p.Partition)
		}
	}
	return out
}

// resolveStart gives the first claim its numbers.
func (a *attempt) resolveStart(ctx context.Context) (epoch.Event, error) {
	ctx, cancel := a.limited(ctx)
	defer cancel()
	start, err := a.w.startOffsets(ctx, a.task)
	if err != nil {
		return nil, err
	}
	if a.w.seal {
		if err := a.standAsGroup(ctx, start); err != nil {
			return nil, err
		}
	}
	_, end, err := a.w.log.Ends(ctx, a.w.names.Outbox(), a.task)
	if err != nil {
		return nil, err
	}
	return epoch.Resolved{Record: &journal.Record{Sources: start, Tail: journal.Tail{Offset: end}}}, nil
}

// standAsGroup puts the positions where the group stands. A generation that ends
// without a journal never ran, or its journal was deleted: then what the group
// says is all that is known, and sinks are left alone, whose marks are of epochs
// that nobody knows any more.
func (a *attempt) standAsGroup(ctx context.Context, at []journal.Source) error {
	have, err := a.w.admin.Committed(ctx, partitionsOf(at))
	if err != nil {
		return err
	}
	for _, s := range at {
		for i := range s.Partitions {
			p := &s.Partitions[i]
			if o, ok := have[s.Topic][p.Partition]; ok {
				p.Offset, p.LeaderEpoch = o.Offset, o.Epoch
			}
		}
	}
	a.blank = true
	return nil
}

// startOffsets of a task's partitions, from the pipeline's start position.
// A later generation begins where its reset said.
func (w *Worker) startOffsets(ctx context.Context, task int32) ([]journal.Source, error) {
	if w.meta.Starts != nil {
		return w.storedStarts(ctx, task)
	}
	offs, err := w.admin.ResolveStart(ctx, w.c.Source.Start, w.c.Source.Topics...)
	if err != nil {
		return nil, Permanent(err)
	}
	infos, err := w.admin.DescribeTopics(ctx, w.c.Source.Topics...)
	if err != nil {
		return nil, err
	}
	var pos positions
	for _, t := range w.c.Source.Topics {
		for _, p := range owned(task, w.meta.Tasks, infos[t].Partitions) {
			at, ok := offs[t][p]
			if !ok {
				return nil, fmt.Errorf("%w: no start offset for %s-%d", errKafka, t, p)
			}
			pos.add(t, infos[t].ID, journal.Partition{Partition: p, Offset: at.Offset, LeaderEpoch: at.Epoch})
		}
	}
	return pos.snapshot(), nil
}

func (w *Worker) storedStarts(ctx context.Context, task int32) ([]journal.Source, error) {
	infos, err := w.admin.DescribeTopics(ctx, w.c.Source.Topics...)
	if err != nil {
		return nil, err
	}
	var pos positions
	for _, t := range w.c.Source.Topics {
		for _, p := range owned(task, w.meta.Tasks, infos[t].Partitions) {
			part := journal.Partition{Partition: p, LeaderEpoch: -1, Offset: startAt(w.meta.Starts[t], p)}
			pos.add(t, infos[t].ID, part)
		}
	}
	return pos.snapshot(), nil
}

// claim commits a transaction on A that carries over what was read.
func (a *attempt) claim(ctx context.Context, r *journal.Record) (epoch.Event, error) {
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if err := a.hit(ctx, failpoint.ClaimBefore, r.Epoch); err != nil {
		return nil, err
	}
	if mutation.On(mutation.NoClaim) {
		return epoch.Claimed{}, a.openReader(ctx, r.Sources)
	}
	p := a.prod[epoch.A]
	if err := p.Begin(); err != nil {
		return nil, err
	}
	if err := a.produceJournal(p, r); err != nil {
		return nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Flush(gctx) })
	g.Go(func() error { return a.sendOffsets(gctx, p, r.Sources) })
	// Reading shows nobody anything: it may begin before the claim is decided.
	g.Go(func() error { return a.openReader(gctx, r.Sources) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := p.End(ctx); err != nil {
		return nil, err
	}
	return epoch.Claimed{}, a.hit(ctx, failpoint.ClaimAfter, r.Epoch)
}

// sendOffsets puts the positions into the group. A command leaves them as they
// are: they may be those of a topic that is gone, and whoever reads on commits
// them again.
func (a *attempt) sendOffsets(ctx context.Context, p *broker.Producer, sources []journal.Source) error {
	if a.w.settles() {
		return nil
	}
	return p.SendOffsets(ctx, commits(sources), a.membership)
}

func (a *attempt) membership() (broker.Membership, bool) {
	return a.w.member.Current(a.task)
}

func (a *attempt) produceJournal(p *broker.Producer, r *journal.Record) error {
	epoch.Stamp(r, time.Now())
	b, err := r.Encode()
	if err != nil {
		return err
	}
	p.Produce(&kgo.Record{Topic: a.w.names.Journal(), Partition: a.task, Key: []byte(journal.Key), Value: b})
	return nil
}

// verify reads on until the claim's own record is seen. Markers are written
// after EndTxn was answered, so the stable end may lag a little.
func (a *attempt) verify(ctx context.Context, act epoch.Verify) (epoch.Event, error) {
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if mutation.On(mutation.NoClaim) {
		return epoch.Verified{Undisturbed: true}, nil
	}
	topic := a.w.names.Journal()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		_, end, err := a.w.log.Ends(ctx, topic, a.task)
		if err != nil {
			return nil, err
		}
		recs, err := a.w.log.Committed(ctx, topic, a.task, act.PrevOffset, end)
		if err != nil {
			return nil, err
		}
		seen := act.Prev == nil
		for _, rec := range recs {
			r, err := decodeJournal(rec)
			switch {
			case err != nil:
				return nil, err
			case r.Same(act.Claim) && r.Worker == act.Claim.Worker && r.Time == act.Claim.Time:
				return epoch.Verified{Undisturbed: seen}, a.hit(ctx, failpoint.VerifyAfter, r.Epoch)
			case !seen && rec.Offset == act.PrevOffset && r.Same(act.Prev):
				seen = true
			default:
				return epoch.Verified{}, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the claim is committed, but not visible in %s-%d", errKafka, topic, a.task)
		case <-time.After(wait):
		}
	}
}

// recover opens the staging sinks and commits what was decided.
func (a *attempt) recover(ctx context.Context, act epoch.Recover) (epoch.Event, error) {
	if err := a.openStagings(ctx); err != nil {
		return nil, err
	}
	for _, st := range a.stagings {
		var mine []journal.Pending
		for _, p := range act.Pending {
			if p.Sink == st.name {
				mine = append(mine, p)
			}
		}
		if err := st.commit(ctx, mine); err != nil {
			return nil, err
		}
	}
	for _, p := range act.Pending {
		if a.staging(p.Sink) == nil && !slices.Contains(a.w.dropped, p.Sink) {
			return nil, Permanent(fmt.Errorf("the journal lists decided work of sink %s, which the pipeline file does not have: add it again, let it finish, then remove it", p.Sink))
		}
	}
	return epoch.Recovered{}, a.hit(ctx, failpoint.RecoverAfter, 0)
}

func (a *attempt) sweep(ctx context.Context, act epoch.Sweep) (epoch.Event, error) {
	for _, st := range a.stagings {
		if err := st.sweep(ctx, forSink(act.Keep, st.name)); err != nil {
			return nil, err
		}
	}
	for _, st := range a.stagings {
		keep := forSink(act.Keep, st.name)
		a.wg.Go(func() { a.sweepAgain(ctx, st.name, func() error { return st.sweep(ctx, keep) }) })
	}
	return epoch.Swept{}, a.hit(ctx, failpoint.SweepAfter, 0)
}

// sweepAgain looks for what a zombie staged that woke after the sweep. What was
// to be kept then is all of older attempts that ever will be.
func (a *attempt) sweepAgain(ctx context.Context, name string, sweep func() error) {
	every := time.NewTicker(a.w.c.SweepEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		if err := sweep(); err != nil && ctx.Err() == nil {
			a.log.Error("sweep_failed", "sink", name, "err", err)
		}
	}
}

func forSink(ps []journal.Pending, name string) []journal.Pending {
	var out []journal.Pending
	for _, p := range ps {
		if p.Sink == name {
			out = append(out, p)
		}
	}
	return out
}

// openAll starts reading and the outbox runners where the journal says.
func (a *attempt) openAll(ctx context.Context, r *journal.Record) {
	for _, s := range r.Sources {
		var id [16]byte
		b, _ := hex.DecodeString(s.ID)
		copy(id[:], b)
		for _, p := range s.Partitions {
			a.pos.add(s.Topic, id, p)
		}
	}
	a.lastTail, a.outPos, a.outBytes = r.Tail, r.Tail.Pos, r.Tail.Bytes
	a.tail = outbox.NewTail(a.w.c.Memory.Handover, r.Tail.Pos)
	for name, c := range r.Cursors {
		a.cursors[name] = *c
	}
	a.openRouters()
	if !a.blank {
		a.openRunners(ctx, r)
	}
	a.trimmer = newTrimmer(a)
	a.wg.Go(func() { a.trimmer.run(ctx) })
	if a.reader != nil {
		a.wg.Go(func() { a.read(ctx) })
	}
	a.running, a.lastClosed, a.lastEnded = time.Now(), time.Now(), time.Now()
	a.w.emit(Event{Kind: TaskTakenOver, Task: a.task, Attempt: a.m.Attempt(), Epoch: a.m.Ended()})
	a.step(ctx, epoch.Opened{})
	a.addPartitions(ctx)
}

// unpacked is how much larger a fetch is in memory than on the wire, about:
// brokers count compressed bytes.
const unpacked = 4

// openReader begins to fetch at the given positions. Not in a command, which
// reads no source.
func (a *attempt) openReader(ctx context.Context, sources []journal.Source) (err error) {
	if a.w.settles() {
		return nil
	}
	compacted, err := a.w.admin.Compacted(ctx, a.w.c.Source.Topics...)
	if err != nil {
		return err
	}
	var starts []broker.Start
	for _, s := range sources {
		for _, p := range s.Partitions {
			starts = append(starts, broker.Start{Topic: s.Topic, Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch})
		}
	}
	a.reader, err = broker.NewReader(a.w.base(), starts, int32(min(a.w.c.Memory.Fetch/unpacked, 1<<30)), compacted)
	return err
}

// addPartitions takes up source partitions that appeared since: they start at
// 0, since nothing in them can be older than the pipeline's start.
func (a *attempt) addPartitions(ctx context.Context) {
	if a.reader == nil || !(a.m.Running() || a.plain) {
		return
	}
	var starts []broker.Start
	for topic, t := range a.s.topics() {
		for _, p := range owned(a.task, a.w.meta.Tasks, t.Partitions) {
			if a.pos.get(topic, p) == nil {
				a.pos.add(topic, t.ID, journal.Partition{Partition: p, LeaderEpoch: -1})
				starts = append(starts, broker.Start{Topic: topic, Partition: p})
			}
		}
	}
	if len(starts) > 0 {
		a.reader.Add(starts)
		a.log.Info("partitions_added", "partitions", starts)
		a.w.emit(Event{Kind: PartitionsAdded, Task: a.task, N: int64(len(starts))})
		if !a.plain {
			a.step(ctx, epoch.Moved{})
		}
	}
}
