package sinktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"exactly/internal/failpoint"
	"exactly/sink"
)

// errLost stands for an answer that did not arrive.
var errLost = errors.New("sinktest: the answer was lost")

// crash is what a fail point panics with.
type crash struct{ at failpoint.Point }

// hook is what a process does at a fail point.
type hook func(ctx context.Context, p failpoint.Point, task int32, epoch int64) error

// process is one attempt at a task: a worker, as far as a sink can tell.
type process struct {
	l       *lane
	sink    sink.Sink
	owner   sink.Owner
	outbox  sink.OutboxTask
	stager  sink.OutboxStager // the same task, if it stages
	staging sink.StagingTask

	through sink.Pos       // outbox: taken through here
	held    []sink.Verdict // stager: verdicts ahead of the cursor
	size    int            // items per batch
	calls   int            // of the sink so far
	dropAt  int            // the answer of this call is lost; 0: none
	ended   tally          // staged work, if the sink is an Observer
	written func()         // called between the last write of an epoch and its staging
}

// start is a takeover: a new process, opened, recovered and swept.
func (l *lane) start(h hook) (*process, error) {
	p, err := l.open(h)
	if err != nil {
		return p, err
	}
	return p, p.recover()
}

// open is a takeover up to before recovery.
func (l *lane) open(h hook) (*process, error) {
	return l.openWith(h, 0)
}

func (l *lane) openWith(h hook, dropAt int) (*process, error) {
	l.mu.Lock()
	l.j.Attempt++
	l.persist()
	o := l.identity.owner(l.j.Attempt)
	o.Fresh, o.Committed = l.fresh, l.j.Committed
	confirmed := l.j.Confirmed
	l.mu.Unlock()
	if h != nil {
		o.Failpoints = failpoint.New(h)
	}
	p := &process{l: l, sink: l.w.target.New(l.w.t), size: 5, dropAt: dropAt}
	o.Settled = p.settled
	p.owner = o
	l.w.t.Cleanup(p.close)
	return p, p.call(func(ctx context.Context) error { return p.openTask(ctx, confirmed) })
}

func (p *process) openTask(ctx context.Context, confirmed sink.Pos) error {
	if p.l.w.kind == kindStaging {
		task, err := p.sink.(sink.Staging).OpenStaging(ctx, p.owner)
		if err == nil {
			p.staging = task
		}
		return err
	}
	task, resume, err := p.sink.(sink.Outbox).OpenOutbox(ctx, p.owner, confirmed)
	if err != nil {
		return err
	}
	p.outbox = task
	stager, stages := task.(sink.OutboxStager)
	if claim := p.l.w.kind == kindStager; claim != stages {
		return sink.Fatal(fmt.Errorf("Features.Stages is %v, but that the task is an OutboxStager is %v", claim, stages))
	}
	p.stager = stager
	if resume.Through.Before(confirmed) {
		return fmt.Errorf("the task resumes at %s, before the confirmed %s", resume.Through, confirmed)
	}
	p.through = resume.Through
	return p.l.confirm(resume.Through, resume.Verdicts)
}

// recover commits what is pending and sweeps.
func (p *process) recover() error {
	c := p.committer()
	if c == nil {
		return nil
	}
	if err := p.commit(); err != nil {
		return err
	}
	return p.call(func(ctx context.Context) error { return c.Sweep(ctx, nil) })
}

func (p *process) committer() sink.Committer {
	switch {
	case p.staging != nil:
		return p.staging
	case p.stager != nil:
		return p.stager
	}
	return nil
}

// close is the graceful end; after a crash it only frees what the test holds.
func (p *process) close() {
	if p.outbox != nil {
		_ = p.outbox.Close()
	}
	if p.staging != nil {
		_ = p.staging.Close()
	}
	_ = p.sink.Close()
}

// call makes one call of the sink: a crash inside becomes an error, and an
// answer may get lost.
func (p *process) call(f func(ctx context.Context) error) (err error) {
	p.calls++
	lost := p.calls == p.dropAt
	ctx, cancel := context.WithTimeout(p.l.w.t.Context(), time.Minute)
	defer cancel()
	defer func() {
		switch r := recover().(type) {
		case nil:
			if lost {
				err = errLost
			}
		case crash:
			err = fmt.Errorf("crash at %s", r.at)
		default:
			panic(r)
		}
	}()
	return f(ctx)
}

// advance carries everything that was fed to visibility and confirms it.
func (p *process) advance() error {
	switch p.l.w.kind {
	case kindOutbox:
		return p.applyAll()
	case kindStaging:
		for p.l.j.Decided < p.l.epoch {
			if err := p.epoch(); err != nil {
				return err
			}
		}
		return nil
	}
	for p.l.j.Confirmed.Before(p.l.end()) {
		if err := p.epoch(); err != nil {
			return err
		}
	}
	return nil
}

// epoch is stage, decide, commit.
func (p *process) epoch() error {
	w, err := p.stage()
	if err != nil {
		return err
	}
	if err := p.decide(w); err != nil {
		return err
	}
	return p.commit()
}

// applyAll applies the outbox from where the task stands to its end.
func (p *process) applyAll() error {
	for p.through.Before(p.l.end()) {
		before := p.through
		res, err := p.apply(p.l.batch(p.through, p.size))
		if errors.Is(err, errLost) {
			return err
		}
		if before.Before(res.Through) {
			p.through = res.Through
			if cerr := p.l.confirm(res.Through, res.Verdicts); cerr != nil {
				return cerr
			}
		}
		if err != nil {
			return fmt.Errorf("apply behind %s: %w", before, err)
		}
		if !before.Before(res.Through) {
			return fmt.Errorf("apply behind %s: neither progress nor an error", before)
		}
	}
	return nil
}

// apply is one call; the result is empty where the answer was lost.
func (p *process) apply(b sink.Batch) (res sink.Result, err error) {
	err = p.call(func(ctx context.Context) (err error) {
		res, err = p.outbox.Apply(ctx, b)
		return err
	})
	if errors.Is(err, errLost) {
		return sink.Result{}, err
	}
	if b.Through.Before(res.Through) {
		return res, fmt.Errorf("apply (%s, %s] says it came to %s", b.Prev, b.Through, res.Through)
	}
	return res, err
}

func (p *process) pause() {
	if p.written != nil {
		p.written()
	}
}

// work is what was staged and is not decided.
type work struct {
	epoch    int64 // staging
	through  sink.Pos
	verdicts []sink.Verdict
	cs       []sink.Committable
}

// stage prepares the next epoch, or stages everything that the outbox holds.
func (p *process) stage() (work, error) {
	if p.staging != nil {
		return p.prepare(p.l.j.Decided + 1)
	}
	for p.through.Before(p.l.end()) {
		res, err := p.apply(p.l.batch(p.through, p.size))
		if err != nil {
			return work{}, err
		}
		p.held = append(p.held, res.Verdicts...)
		if !p.through.Before(res.Through) {
			break // full: what it has must be staged first
		}
		p.through = res.Through
	}
	return p.stageTaken()
}

// stageTaken stages what an OutboxStager has taken in.
func (p *process) stageTaken() (work, error) {
	w := work{through: p.through}
	p.pause()
	err := p.call(func(ctx context.Context) (err error) {
		w.cs, err = p.stager.Stage(ctx, time.Unix(1_800_000_000, 0), true)
		return err
	})
	if err != nil {
		return work{}, err
	}
	from := p.l.j.Confirmed
	for _, c := range w.cs {
		if c.From != from || !c.From.Before(c.Through) {
			return w, fmt.Errorf("staged range (%s, %s] does not follow %s", c.From, c.Through, from)
		}
		from = c.Through
	}
	if len(w.cs) > 0 && from != p.through {
		return w, fmt.Errorf("Stage with force came to %s of %s", from, p.through)
	}
	w.verdicts, p.held = p.held, nil
	return w, nil
}

// prepare writes a staging epoch in two calls and prepares it.
func (p *process) prepare(epoch int64) (work, error) {
	w := work{epoch: epoch}
	rs, its := p.l.epochRecords(epoch)
	for _, part := range [][2]int{{0, len(rs) / 2}, {len(rs) / 2, len(rs)}} {
		if part[0] == part[1] {
			continue
		}
		err := p.write(&w, its[part[0]:], func(ctx context.Context) error {
			return p.staging.Write(ctx, epoch, rs[part[0]:part[1]])
		})
		if err != nil {
			return work{}, err
		}
	}
	if f, ok := p.staging.(sink.StagingFlusher); ok {
		if err := p.write(&w, its, func(ctx context.Context) error { return f.Flush(ctx, epoch) }); err != nil {
			return work{}, err
		}
	}
	p.pause()
	err := p.call(func(ctx context.Context) (err error) {
		w.cs, err = p.staging.Prepare(ctx, epoch)
		return err
	})
	return w, err
}

// write is a call that may refuse some of its items.
func (p *process) write(w *work, its []item, f func(ctx context.Context) error) error {
	err := p.call(f)
	var poison *sink.PoisonError
	if !errors.As(err, &poison) {
		return err
	}
	for i, k := range poison.Index {
		w.verdicts = append(w.verdicts, sink.Verdict{
			Pos: its[k].Pos, Code: sink.Code(poison.Errs[i]), Reason: poison.Errs[i].Error(),
		})
	}
	return nil
}

// decide makes staged work decided.
func (p *process) decide(w work) error {
	for i := range w.cs {
		c := &w.cs[i]
		c.Epoch = max(w.epoch, 1)
		if c.Sink != p.owner.Sink || c.Attempt != p.owner.Attempt {
			return fmt.Errorf("committable names sink %q attempt %d, want %q %d", c.Sink, c.Attempt, p.owner.Sink, p.owner.Attempt)
		}
		if len(c.Data) >= 64<<10 {
			return fmt.Errorf("committable holds %d bytes, want below 64 KiB", len(c.Data))
		}
	}
	cs, err := throughJSON(w.cs)
	if err != nil {
		return err
	}
	l := p.l
	if p.stager != nil {
		l.mu.Lock()
		l.j.Pending = append(l.j.Pending, cs...)
		l.mu.Unlock()
		return l.confirm(w.through, w.verdicts)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range w.verdicts {
		if err := l.bury(v); err != nil {
			return err
		}
	}
	l.j.Pending = append(l.j.Pending, cs...)
	l.j.Decided = w.epoch
	l.persist()
	return nil
}

// commit commits what is pending and confirms it.
func (p *process) commit() error {
	p.l.mu.Lock()
	cs := append([]sink.Committable(nil), p.l.j.Pending...)
	p.l.mu.Unlock()
	if len(cs) == 0 {
		return nil
	}
	if err := p.call(func(ctx context.Context) error { return p.committer().Commit(ctx, cs) }); err != nil {
		return fmt.Errorf("commit %d works: %w", len(cs), err)
	}
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.j.Pending = p.l.j.Pending[len(cs):]
	if p.staging != nil {
		p.l.j.Committed = &cs[len(cs)-1]
	}
	p.l.persist()
	return nil
}
