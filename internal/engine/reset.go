package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/sink"
)

// ResetOptions say what the next generation is to be.
type ResetOptions struct {
	To        string        // start position; "": where the old generation stopped
	DropSinks []string      // sinks that are gone from the pipeline, whose lag is given up
	Wait      time.Duration // for the outboxes to drain; 0: 5 min
}

// ResetResult tells what a reset did.
type ResetResult struct {
	From, Generation int32
	Tasks            int32
	Starts           map[string][]int64
	OldTopics        []string // of the old generation, which nothing reads any more
}

// Reset ends the pipeline's generation and begins the next one (protocol:
// "Generations"): it fences both ids of every task, commits a sealed claim to
// each journal partition, finishes what is pending, drains the outboxes, and
// only then writes the next generation, with its start offsets, to meta. No
// worker may run. Called again after a crash it goes on where it stopped.
func (w *Worker) Reset(ctx context.Context, o ResetOptions) (res ResetResult, err error) {
	defer func() { err = errors.Join(err, w.close()) }()
	w.seal = true
	if o.To != "" {
		if _, err := broker.ParseStart(o.To); err != nil {
			return res, &broker.Problem{
				Code: broker.CodeConfig, Place: "--to", Cause: fmt.Sprintf("%q is no position", o.To),
				Remedy: "give earliest, latest, a time as in 2026-01-31T15:04:05Z, group:NAME or group:NAME,earliest",
			}
		}
	}
	want, have, err := w.openReset(ctx)
	if err != nil {
		return res, StartError{err}
	}
	if err := w.noWorkers(ctx); err != nil {
		return res, err
	}
	if err := w.checkDropped(have, want, o.DropSinks); err != nil {
		return res, err
	}
	w.meta, w.names = have, w.admin.Names(have.Generation)
	// Of a generation that no worker has begun yet, or whose journal was deleted,
	// there is something to seal all the same: nobody must begin it any more.
	if err := w.topics(ctx); err != nil {
		return res, err
	}
	if err := w.checkSinks(ctx); err != nil {
		return res, err
	}
	if w.exactlyOnce(have) {
		if err := w.sealAll(ctx, o); err != nil {
			return res, err
		}
	}
	next := want
	next.Incarnation, next.Generation = have.Incarnation, have.Generation+1
	if next.Starts, err = w.nextStarts(ctx, o.To); err != nil {
		return res, err
	}
	if err := w.c.Failpoints.Hit(ctx, failpoint.ResetSealed, -1, 0); err != nil {
		return res, err
	}
	// Before meta says it: the first start of the generation compares.
	if err := w.moveGroup(ctx, next.Starts); err != nil {
		return res, err
	}
	if err := w.c.Failpoints.Hit(ctx, failpoint.ResetMoved, -1, 0); err != nil {
		return res, err
	}
	if next.Tasks == 0 {
		next.Tasks = DefaultTasks(mostPartitions(w.sources), w.c.Epoch.Interval)
	}
	if _, err := w.admin.UpdateMeta(ctx, have, next); err != nil {
		return res, err
	}
	if err := w.c.Failpoints.Hit(ctx, failpoint.ResetBegun, -1, 0); err != nil {
		return res, err
	}
	return ResetResult{
		From: have.Generation, Generation: next.Generation, Tasks: next.Tasks, Starts: next.Starts,
		OldTopics: []string{w.names.Journal(), w.names.Outbox()},
	}, nil
}

// openReset reads what there is and what the file wants.
func (w *Worker) openReset(ctx context.Context) (want, have broker.Meta, err error) {
	if err := w.connect(ctx); err != nil {
		return want, have, err
	}
	have, found, err := w.admin.LoadMeta(ctx)
	if err != nil {
		return want, have, err
	}
	if !found {
		return want, have, &broker.Problem{
			Code: broker.CodeMetaUnreadable, Place: "pipeline " + w.c.Pipeline,
			Cause: "was never started on this cluster", Remedy: "start it; there is nothing to reset",
		}
	}
	return w.wanted(), have, nil
}

// noWorkers refuses while somebody is in the group: a worker of the old
// generation that is fenced would only take over again.
func (w *Worker) noWorkers(ctx context.Context) error {
	who, err := w.members(ctx)
	if err == nil && len(who) > 0 {
		err = w.workersRun(who)
	}
	return err
}

// members are the workers in the pipeline's group.
func (w *Worker) members(ctx context.Context) (who []string, err error) {
	group := w.admin.Names(1).Group()
	got, err := kadm.NewClient(w.admin.Client()).DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("look for workers in group %s: %w", group, err)
	}
	g := got[group]
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("look for workers in group %s: %w", group, g.Err)
	}
	for _, m := range g.Members {
		who = append(who, m.ClientID+" at "+m.ClientHost)
	}
	return who, nil
}

func (w *Worker) workersRun(who []string) error {
	return &broker.Problem{
		Code: broker.CodeWorkersRun, Place: "group " + w.admin.Names(1).Group(),
		Cause:  fmt.Sprintf("%d workers are running (%s)", len(who), strings.Join(who, ", ")),
		Remedy: "stop every worker of the pipeline first; one that was killed leaves the group after kafka.session_timeout",
	}
}

// checkDropped wants a word for sinks that are gone: what they have not applied
// is given up. The word counts for no other sink, least of all for one that the
// pipeline goes on with.
func (w *Worker) checkDropped(have, want broker.Meta, dropped []string) error {
	named := func(sinks []broker.MetaSink, name string) bool {
		return slices.ContainsFunc(sinks, func(s broker.MetaSink) bool { return s.Name == name })
	}
	for _, name := range dropped {
		switch {
		case named(want.Sinks, name):
			return &broker.Problem{
				Code: broker.CodeConfig, Place: "--drop-sink " + name, Cause: "is in the pipeline file: what is decided for it would be lost",
				Remedy: "take it out of the file first, or leave --drop-sink out",
			}
		case !named(have.Sinks, name):
			return &broker.Problem{
				Code: broker.CodeConfig, Place: "--drop-sink " + name, Cause: "is no sink of the running generation",
				Remedy: "leave it out, or correct the name",
			}
		}
	}
	for _, h := range have.Sinks {
		if named(want.Sinks, h.Name) || slices.Contains(dropped, h.Name) {
			continue
		}
		return &broker.Problem{
			Code: broker.CodeMetaConflict, Place: "sink " + h.Name, Cause: "is in the running generation and not in the pipeline file",
			Remedy: "add it back so that it can finish, or give up what it has not applied with --drop-sink " + h.Name,
		}
	}
	return nil
}

// sealAll seals and drains every task of the old generation.
func (w *Worker) sealAll(ctx context.Context, o ResetOptions) error {
	w.dropped = o.DropSinks
	w.c.StopWithin = or(o.Wait, 5*time.Minute)
	for task := range w.meta.Tasks {
		s := newSupervisor(w, task)
		s.end(w.c.StopWithin) // nothing is filled: it stops as soon as everything is drained
		a := newAttempt(s)
		if err := a.live(ctx); err != nil {
			return fmt.Errorf("seal task %d: %w", task, err)
		}
		for _, r := range a.runners {
			if r.stages && !r.swept.Load() {
				return fmt.Errorf("seal task %d: what older workers left staged in sink %s could not be removed within %s; "+
					"mend the sink and run the command again", task, r.name, w.c.StopWithin)
			}
			if a.cursors[r.name].Pos != a.lastTail.Pos {
				return fmt.Errorf("seal task %d: sink %s did not drain its outbox within %s: it stands at %s of %s; "+
					"mend the sink and run the command again", task, r.name, w.c.StopWithin, a.cursors[r.name].Pos, a.lastTail.Pos)
			}
		}
		if a.m.Pending() > 0 {
			return fmt.Errorf("seal task %d: %d decided pieces of work are not committed yet; mend the sink and run the command again", task, a.m.Pending())
		}
	}
	return nil
}

// nextStarts are where the sealed records stopped, or the given position.
func (w *Worker) nextStarts(ctx context.Context, to string) (map[string][]int64, error) {
	infos, err := w.admin.DescribeTopics(ctx, w.c.Source.Topics...)
	if err != nil {
		return nil, err
	}
	starts := map[string][]int64{}
	for _, t := range w.c.Source.Topics {
		starts[t] = make([]int64, infos[t].Partitions)
	}
	if to != "" {
		offs, err := w.admin.ResolveStart(ctx, to, w.c.Source.Topics...)
		if err != nil {
			return nil, err
		}
		for t, ps := range offs {
			for p, at := range ps {
				starts[t][p] = at.Offset
			}
		}
		return starts, nil
	}
	if !w.exactlyOnce(w.meta) {
		return starts, w.startsOfGroup(ctx, starts)
	}
	for task := range w.meta.Tasks {
		r, err := w.lastJournal(ctx, task)
		if err != nil {
			return nil, err
		}
		for _, s := range r.Sources {
			if err := addStarts(starts, s, infos); err != nil {
				return nil, err
			}
		}
	}
	return starts, nil
}

// exactlyOnce: a generation without the protocol has no journal to seal.
func (w *Worker) exactlyOnce(m broker.Meta) bool { return m.Guarantee != string(sink.AtLeastOnce) }

// startsOfGroup are where a generation without a journal stopped.
func (w *Worker) startsOfGroup(ctx context.Context, starts map[string][]int64) error {
	want := map[string][]int32{}
	for t, at := range starts {
		for p := range at {
			want[t] = append(want[t], int32(p))
		}
	}
	have, err := w.admin.Committed(ctx, want)
	if err != nil {
		return err
	}
	for t, parts := range have {
		for p, at := range parts {
			starts[t][p] = at.Offset
		}
	}
	return nil
}

// moveGroup sets the group's offsets to where the next generation begins.
func (w *Worker) moveGroup(ctx context.Context, starts map[string][]int64) error {
	infos, err := w.admin.DescribeTopics(ctx, w.c.Source.Topics...)
	if err != nil {
		return err
	}
	offs, ids := broker.Offsets{}, map[string][16]byte{}
	for t, at := range starts {
		offs[t], ids[t] = map[int32]kgo.EpochOffset{}, infos[t].ID
		for p, o := range at {
			offs[t][int32(p)] = kgo.EpochOffset{Offset: o, Epoch: -1}
		}
	}
	return broker.Settle(ctx, func() error {
		return w.admin.CommitOffsets(ctx, broker.Membership{Generation: -1}, offs, ids)
	})
}

func addStarts(starts map[string][]int64, s journal.Source, infos map[string]broker.TopicInfo) error {
	t, ok := infos[s.Topic]
	if !ok {
		return nil // the topic left the pipeline
	}
	if id := broker.SourceOf(t).ID; id != s.ID {
		return &broker.Problem{
			Code: broker.CodeTopicRecreated, Place: "source topic " + s.Topic, Cause: "was deleted and made again: the old offsets do not hold",
			Remedy: "say where to begin: --to earliest, latest or a time",
		}
	}
	for _, p := range s.Partitions {
		if int(p.Partition) < len(starts[s.Topic]) {
			starts[s.Topic][p.Partition] = p.Offset
		}
	}
	return nil
}

func (w *Worker) lastJournal(ctx context.Context, task int32) (*journal.Record, error) {
	r, err := w.lastRecord(ctx, task)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, fmt.Errorf("journal %s-%d holds no record after it was sealed", w.names.Journal(), task)
	case !r.Sealed:
		return nil, fmt.Errorf("journal %s-%d is not sealed: a worker was started meanwhile; stop it and run the command again", w.names.Journal(), task)
	}
	return r, nil
}

// lastRecord is the last committed one of a task's journal, nil if there is
// none.
func (w *Worker) lastRecord(ctx context.Context, task int32) (*journal.Record, error) {
	start, end, err := w.log.Ends(ctx, w.names.Journal(), task)
	if err != nil {
		return nil, err
	}
	rec, err := w.log.LastCommitted(ctx, w.names.Journal(), task, start, end)
	if err != nil || rec == nil {
		return nil, err
	}
	return decodeJournal(rec)
}
