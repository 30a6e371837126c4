package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"exactly/internal/broker"
	"exactly/internal/journal"
	"exactly/sink"
)

// ResolveOptions say how much a resolve may do.
type ResolveOptions struct {
	DryRun bool          // only look
	Wait   time.Duration // for one task; 0: a minute
}

// ResolveResult tells what a resolve found and did.
type ResolveResult struct {
	Pipeline   string
	Generation int32
	DryRun     bool
	Workers    []string // that are in the group; a dry run only
	Rows       []ResolvedTask
	Skipped    []int32 // tasks without a journal record: nothing of them can be decided
	Staged     []Found // in a dry run: what there is; else: what is left
	Unseen     bool    // what is left could not be asked for
	Foreign    []sink.StagedWork
}

// ResolvedTask is what was done for one task of one sink. A task of an ended
// generation may stand beside that of the same number.
type ResolvedTask struct {
	Sink             string
	Generation, Task int32
	Found            int64 // pieces of staged work in the sink's system at the begin
	Committed        int64 // of what was decided
	RolledBack       int64 // of what was not
	Applied          int64 // records of the outbox
}

// Found is one piece of staged work of the pipeline.
type Found struct {
	Sink string
	sink.StagedWork
	Fate Fate
	Why  string
}

// Fate is what a takeover would do with staged work.
type Fate string

// The fates.
const (
	FateCommit   Fate = "commit"
	FateRollBack Fate = "roll_back"
	FateUnknown  Fate = "unknown" // not decided either way yet
)

// Resolve finishes what dead workers left: every task is taken over as by a worker
// (protocol: "Takeover"), what the journal lists is committed, what it does not is
// rolled back, and the outboxes are drained. No source record is read. It refuses
// while workers are in the group; one that joins meanwhile takes over in its turn,
// and harms nothing. Called again after a failure it goes on where it stopped.
func (w *Worker) Resolve(ctx context.Context, o ResolveOptions) (res ResolveResult, err error) {
	sinks := w.c.Sinks
	defer func() {
		w.c.Sinks = sinks // all are closed, also those that the pipeline does not have yet
		err = errors.Join(err, w.close())
	}()
	w.resolve = true
	w.c.StopWithin = or(o.Wait, time.Minute)
	r := &resolver{w: w, rows: map[rowKey]*ResolvedTask{}, failed: map[string]error{}}
	if err := r.open(ctx); err != nil {
		return res, StartError{err}
	}
	if res.Workers, err = w.members(ctx); err != nil {
		return res, err
	}
	if len(res.Workers) > 0 && !o.DryRun {
		return res, w.workersRun(res.Workers)
	}
	own, foreign, err := r.observe(ctx)
	if err != nil {
		return res, StartError{err}
	}
	res.Pipeline, res.Generation, res.DryRun = w.c.Pipeline, w.meta.Generation, o.DryRun
	for _, f := range own {
		r.row(f.Sink, f.Generation, f.Task).Found++
	}
	if o.DryRun {
		res.Rows, res.Foreign = r.table(), foreign
		res.Staged, err = r.judgeAll(ctx, own)
		return res, err
	}
	res.Skipped, err = r.settleAll(ctx)
	res.Rows = r.table()
	// What was done is told also where something failed.
	left, foreign, lerr := r.observe(context.WithoutCancel(ctx))
	if err = errors.Join(err, lerr); lerr != nil {
		res.Unseen = true
		return res, err
	}
	res.Foreign = foreign
	res.Staged, lerr = r.judgeAll(context.WithoutCancel(ctx), left)
	return res, errors.Join(err, lerr)
}

// resolver is one Resolve at work.
type resolver struct {
	w *Worker

	mu     sync.Mutex // guards what follows: sinks tell from goroutines of their own
	rows   map[rowKey]*ResolvedTask
	failed map[string]error // the last failure of a sink
}

type rowKey struct {
	sink             string
	generation, task int32
}

// open reads what the cluster has of the pipeline, and looks at the sinks. It
// creates nothing, and does not look at the source, which may be gone.
func (r *resolver) open(ctx context.Context) error {
	w := r.w
	if err := w.dial(ctx); err != nil {
		return err
	}
	have, found, err := w.admin.LoadMeta(ctx)
	if err != nil && broker.CodeOf(err) != broker.CodeTopicMissing {
		return err
	}
	if !found {
		return &broker.Problem{
			Code: broker.CodeMetaUnreadable, Place: "pipeline " + w.c.Pipeline,
			Cause: "was never started on this cluster", Remedy: "check kafka.brokers, kafka.prefix and the name; there is nothing to resolve",
		}
	}
	if !w.exactly() || !w.exactlyOnce(have) {
		return &broker.Problem{
			Code: broker.CodeConfig, Place: "guarantee", Cause: "is at_least_once here or on the cluster: nothing is staged, and no journal says what was decided",
			Remedy: "there is nothing to resolve",
		}
	}
	if err := w.sinksOf(have); err != nil {
		return err
	}
	w.meta, w.names = have, w.admin.Names(have.Generation)
	// The journal's and the dead letters' limits; nothing else is produced.
	if err := w.limits.Load(ctx, w.c.Dead.Topic, w.names.Journal()); err != nil {
		return err
	}
	r.listen()
	return r.checkSinks(ctx)
}

// sinksOf leaves of the file's sinks those that the running generation has, which
// must all be there: their decided work is what is to be finished.
func (w *Worker) sinksOf(have broker.Meta) error {
	same := func(h broker.MetaSink, s Sink) bool { return h.Name == s.Name && h.Kind == kindOf(s.Sink) }
	for _, h := range have.Sinks {
		if !slices.ContainsFunc(w.c.Sinks, func(s Sink) bool { return same(h, s) }) {
			return &broker.Problem{
				Code: broker.CodeMetaConflict, Place: fmt.Sprintf("sink %s (%s)", h.Name, h.Kind), Cause: "is in the running generation and not in the pipeline file",
				Remedy: "add it back as it was, so that its work can be finished",
			}
		}
	}
	w.c.Sinks = slices.DeleteFunc(slices.Clone(w.c.Sinks), func(s Sink) bool {
		return !slices.ContainsFunc(have.Sinks, func(h broker.MetaSink) bool { return same(h, s) })
	})
	return nil
}

// checkSinks wants every sink that stages before the decision to be there. One that
// is fed from the outbox may be away: it costs the others nothing.
func (r *resolver) checkSinks(ctx context.Context) error {
	var errs []error
	for _, s := range r.w.c.Sinks {
		if kindOf(s.Sink) == "transactional" {
			continue
		}
		err := s.Sink.Check(ctx)
		if _, staging := s.Sink.(sink.Staging); err != nil && (staging || !sink.IsTransient(err)) {
			errs = append(errs, fmt.Errorf("sink %s: %w", s.Name, err))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("nothing was touched, and nothing is lost; mend it and run the command again: %w", errors.Join(errs...))
	}
	return nil
}

// listen counts what the sinks do.
func (r *resolver) listen() {
	r.w.settled = func(name string, work sink.StagedWork, committed bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if row := r.row(name, work.Generation, work.Task); committed {
			row.Committed++
		} else {
			row.RolledBack++
		}
	}
	next := r.w.c.Events
	r.w.c.Events = func(e Event) {
		r.see(e)
		next(e)
	}
}

func (r *resolver) see(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case SinkApplied:
		r.row(e.Sink, r.w.meta.Generation, e.Task).Applied += e.N
	case SinkCommitted: // of a stager, which tells nothing itself
		r.row(e.Sink, r.w.meta.Generation, e.Task).Committed += e.N
	case SinkFailed:
		r.failed[e.Sink] = e.Err
	}
}

func (r *resolver) row(name string, generation, task int32) *ResolvedTask {
	k := rowKey{name, generation, task}
	if r.rows[k] == nil {
		r.rows[k] = &ResolvedTask{Sink: name, Generation: generation, Task: task}
	}
	return r.rows[k]
}

// table has a row for each task of each sink that may leave something to do, in
// the order of the file, and for what ended generations left.
func (r *resolver) table() (out []ResolvedTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.w.c.Sinks {
		if kindOf(s.Sink) == "transactional" {
			continue
		}
		for task := range r.w.meta.Tasks {
			r.row(s.Name, r.w.meta.Generation, task)
		}
		from := len(out)
		for k, row := range r.rows {
			if k.sink == s.Name {
				out = append(out, *row)
			}
		}
		slices.SortFunc(out[from:], func(a, b ResolvedTask) int {
			if a.Generation != b.Generation {
				return int(a.Generation - b.Generation)
			}
			return int(a.Task - b.Task)
		})
	}
	return out
}

// observe asks every sink that can say so what is staged. Foreign is only what is
// of no sink of the pipeline.
func (r *resolver) observe(ctx context.Context) (own []Found, foreign []sink.StagedWork, err error) {
	mine := map[string]bool{}
	for _, s := range r.w.c.Sinks {
		o, ok := s.Sink.(sink.Observer)
		if !ok {
			continue
		}
		works, err := o.Observe(ctx, r.w.owner(s.Name))
		if err != nil {
			return nil, nil, fmt.Errorf("sink %s: %w", s.Name, err)
		}
		for _, work := range works {
			if work.Foreign {
				foreign = append(foreign, work)
				continue
			}
			mine[work.Name] = true
			own = append(own, Found{Sink: s.Name, StagedWork: work})
		}
	}
	seen := map[string]bool{}
	foreign = slices.DeleteFunc(foreign, func(work sink.StagedWork) bool {
		known := mine[work.Name] || seen[work.Name]
		seen[work.Name] = true
		return known
	})
	return own, foreign, nil
}

// settleAll takes over every task that ever ran. One that fails does not keep the
// others from being finished.
func (r *resolver) settleAll(ctx context.Context) (skipped []int32, err error) {
	for task := range r.w.meta.Tasks {
		ran, terr := r.settle(ctx, task)
		if terr != nil {
			err = errors.Join(err, fmt.Errorf("task %d: %w", task, terr))
		}
		if ctx.Err() != nil {
			return skipped, err
		}
		if !ran && terr == nil {
			skipped = append(skipped, task)
		}
	}
	return skipped, err
}

// settle takes one task over and ends as a worker does that is told to stop.
func (r *resolver) settle(ctx context.Context, task int32) (ran bool, err error) {
	w := r.w
	// A claim that nothing precedes would fix where the source begins.
	if rec, err := w.lastRecord(ctx, task); err != nil || rec == nil {
		return false, err
	}
	s := newSupervisor(w, task)
	s.end(w.c.StopWithin)
	a := newAttempt(s)
	if err := a.live(ctx); err != nil {
		return true, fmt.Errorf("%w; what is decided is in the journal: run the command again, or start a worker", err)
	}
	return true, r.unfinished(a)
}

// unfinished says what an attempt that was told to stop did not get to in time.
func (r *resolver) unfinished(a *attempt) error {
	left := func(what, name string) error {
		err := fmt.Errorf("%s within %s; what is decided is in the journal: mend it and run the command again, or start a worker", what, r.w.c.StopWithin)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.w.c.Sinks {
			if why := r.failed[s.Name]; why != nil && (name == "" || name == s.Name) {
				err = fmt.Errorf("%w; sink %s: %w", err, s.Name, why)
			}
		}
		return err
	}
	if !a.m.Running() {
		return left("was not taken over", "")
	}
	for _, rn := range a.runners {
		if rn.stages && !rn.swept.Load() {
			return left("what older attempts staged in sink "+rn.name+" was not removed", rn.name)
		}
		if !rn.stages && a.cursors[rn.name].Pos != a.lastTail.Pos {
			return left(fmt.Sprintf("sink %s did not drain its outbox (it stands at %s of %s)", rn.name, a.cursors[rn.name].Pos, a.lastTail.Pos), rn.name)
		}
	}
	if n := a.m.Pending(); n > 0 {
		return left(fmt.Sprintf("%d decided pieces of work were not committed", n), "")
	}
	return nil
}

// judgeAll says what a takeover would do with each piece, without fencing anybody:
// a picture, not a promise.
func (r *resolver) judgeAll(ctx context.Context, found []Found) (_ []Found, err error) {
	known := map[int32]*taskPicture{}
	for i := range found {
		f := &found[i]
		p := known[f.Task]
		if p == nil && f.Generation == r.w.meta.Generation && f.Task >= 0 && f.Task < r.w.meta.Tasks {
			p = r.w.picture(ctx, f.Task)
			known[f.Task] = p
			err = errors.Join(err, p.err)
		}
		f.Fate, f.Why = r.w.fate(*f, p)
	}
	return found, err
}

// taskPicture is what can be known of a task from outside.
type taskPicture struct {
	err  error                  // the journal could not be read
	last *journal.Record        // nil: none
	open map[broker.Lane]string // transactions that may still be decided, and why
}

// picture asks for the transactions first: what is over by then is in what is read
// of the journal afterwards.
func (w *Worker) picture(ctx context.Context, task int32) *taskPicture {
	p := &taskPicture{open: map[broker.Lane]string{}}
	for _, lane := range []broker.Lane{broker.LaneA, broker.LaneB} {
		if why := w.mayBeDecided(ctx, w.names.TxnID(task, lane)); why != "" {
			p.open[lane] = why
		}
	}
	p.last, p.err = w.lastRecord(ctx, task)
	return p
}

func (w *Worker) fate(f Found, p *taskPicture) (Fate, string) {
	switch {
	case f.Generation < w.meta.Generation:
		return FateRollBack, fmt.Sprintf("generation %d has ended with all that it decided committed", f.Generation)
	case p == nil:
		return FateUnknown, fmt.Sprintf("generation %d has no task %d of generation %d yet", w.meta.Generation, f.Task, f.Generation)
	case p.err != nil:
		return FateUnknown, fmt.Sprintf("the task's journal cannot be read: %v", p.err)
	case p.last == nil:
		return FateUnknown, "the task's journal is empty"
	}
	listed := slices.ContainsFunc(p.last.Pending, func(l journal.Pending) bool {
		return l.Sink == f.Sink && l.Attempt == f.Attempt && l.Epoch == f.Epoch
	})
	switch why := p.open[broker.LaneOf(f.Epoch)]; {
	case listed:
		return FateCommit, "the journal lists it"
	case f.Attempt > p.last.Attempt:
		return FateUnknown, fmt.Sprintf("the journal knows no attempt above %d", p.last.Attempt)
	case f.Attempt == p.last.Attempt && f.Epoch > p.last.Epoch && why != "":
		return FateUnknown, why
	}
	return FateRollBack, "no decision lists it"
}

// mayBeDecided says why a transaction may still be decided; "": it is over, or
// there is none.
func (w *Worker) mayBeDecided(ctx context.Context, id string) string {
	got, err := kadm.NewClient(w.admin.Client()).DescribeTransactions(ctx, id)
	d := got[id]
	switch {
	case err != nil:
		return fmt.Sprintf("the brokers do not say whether transaction %s is open: %v", id, err)
	case errors.Is(d.Err, kerr.TransactionalIDNotFound):
		return ""
	case d.Err != nil:
		return fmt.Sprintf("the brokers do not say whether transaction %s is open: %v", id, d.Err)
	case d.State == "Empty", d.State == "CompleteCommit", d.State == "CompleteAbort", d.State == "Dead":
		return ""
	}
	return fmt.Sprintf("its Kafka transaction %s is not over (%s)", id, d.State)
}
