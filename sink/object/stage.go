package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"exactly/internal/failpoint"
	"exactly/sink"
	"exactly/sink/object/store"
)

// Stage ends the group if it is ripe and gives every group that is sealed, its
// files durable and under staged names. See sink.OutboxStager.
func (t *task) Stage(ctx context.Context, now time.Time, force bool) ([]sink.Committable, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	if t.ripe(now, force) {
		if err := t.owner.Failpoints.Hit(ctx, failpoint.SinkStageBefore, t.owner.Task, t.taken.Epoch); err != nil {
			return nil, t.stageError(err)
		}
		if err := t.seal(); err != nil {
			return nil, t.stageError(err)
		}
	}
	if err := t.settle(ctx); err != nil {
		return nil, t.stageError(err)
	}
	var cs []sink.Committable
	for _, g := range t.sealed {
		c, err := t.committable(g)
		if err == nil && len(g.done) > 0 && !g.staged {
			err = t.owner.Failpoints.Hit(ctx, failpoint.SinkStageAfter, t.owner.Task, g.through.Epoch)
		}
		if err != nil {
			return nil, t.stageError(err)
		}
		g.staged = true
		cs = append(cs, c)
	}
	t.sealed, t.quiet = nil, true
	return cs, nil
}

func (t *task) stageError(err error) error {
	return fmt.Errorf("stage files of sink %s through %s: %w", t.s.name, t.taken, err)
}

// ripe says whether the group that takes records in is to end now.
func (t *task) ripe(now time.Time, force bool) bool {
	g := t.group
	if !g.from.Before(t.taken) {
		return false // nothing has come at all
	}
	if g.seen.IsZero() {
		g.seen = now
	}
	roll := &t.s.config.Roll
	if force || now.Sub(g.seen) >= roll.Age {
		return true
	}
	// An epoch is whole when a later one was seen, or nothing followed it for
	// as long as it takes from one Stage to the next.
	return roll.Epoch && g.epoch != 0 && (t.quiet || t.taken.Epoch > g.epoch)
}

// settle moves bytes from memory to the store, and makes files that have ended
// durable. After an error it goes on where it stopped.
func (t *task) settle(ctx context.Context) error {
	for len(t.ended) > 0 {
		if err := t.finish(ctx, t.ended[0]); err != nil {
			return t.storeError(err)
		}
		t.ended = t.ended[1:]
	}
	for _, p := range t.group.open {
		if err := t.drain(ctx, p, drainAt); err != nil {
			return t.storeError(err)
		}
	}
	return nil
}

const drainAt = 256 << 10 // bytes that a file holds in memory until it is written

// drain writes what a file has in memory, if it is as much as least or as the
// store's part.
func (t *task) drain(ctx context.Context, p *part, least int) error {
	if len(p.spool.buf) < least {
		return nil
	}
	if p.spool.upload == nil {
		u, err := t.create(ctx)
		if err != nil {
			return err
		}
		p.spool.upload = u
	}
	if least > 0 && len(p.spool.buf) < p.spool.upload.PartSize() {
		return nil
	}
	return p.spool.drain(ctx)
}

// create begins an upload. Its name may be taken where this attempt opened the
// task before.
func (t *task) create(ctx context.Context) (store.Upload, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := t.owner
		name := stagedName{
			Pipeline: o.Pipeline, Sink: o.Sink, Generation: o.Generation, Task: o.Task,
			Incarnation: o.Incarnation, Attempt: o.Attempt, Seq: t.seq,
		}
		u, err := t.s.store.Create(ctx, name.String())
		if errors.Is(err, store.ErrExists) {
			t.seq++
			continue
		}
		if err == nil {
			t.seq++
		}
		return u, err
	}
}

func (t *task) finish(ctx context.Context, p *part) error {
	if err := t.drain(ctx, p, 0); err != nil {
		return err
	}
	staged, err := p.spool.upload.Finish(ctx, p.final)
	if err != nil {
		return err
	}
	p.staged, p.spool = staged, spool{put: staged.Size}
	return nil
}

// storeError classes an error of the store while files are being made.
func (t *task) storeError(err error) error {
	if errors.Is(err, store.ErrBroken) {
		return t.fatal(fmt.Errorf("%w; the next attempt collects the records again", err))
	}
	return err
}

// manifest is the Data of a committable.
type manifest struct {
	Version int            `json:"v"`
	Files   []store.Staged `json:"files"` // none: the range holds no record for this sink
}

const manifestVersion = 1

// partCost is about what a file takes in a manifest, in bytes.
func partCost(o sink.Owner, folder string) int {
	return 400 + 2*(len(escape(o.Pipeline))+len(escape(o.Sink))+len(escape(o.Incarnation))) + 3*len(folder)
}

func (t *task) committable(g *group) (sink.Committable, error) {
	m := manifest{Version: manifestVersion, Files: []store.Staged{}}
	for _, p := range g.done {
		m.Files = append(m.Files, p.staged)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return sink.Committable{}, fmt.Errorf("encode manifest: %w", err)
	}
	return sink.Committable{
		Sink: t.owner.Sink, Attempt: t.owner.Attempt, From: g.from, Through: g.through, Data: data,
	}, nil
}

// closeTimeout bounds the clean-up of Close, which has no context.
const closeTimeout = 10 * time.Second

// Close throws away what was collected and never given by Stage. What Stage gave
// stays: the journal may need it (FLINK-40595).
func (t *task) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, g := range append(t.sealed, t.group) {
		for _, p := range append(g.done, g.open...) {
			errs = append(errs, t.discard(ctx, p))
		}
	}
	t.sealed, t.ended, t.group = nil, nil, &group{from: t.taken}
	t.broken = errors.New("the task is closed")
	return errors.Join(errs...)
}

func (t *task) discard(ctx context.Context, p *part) error {
	err := p.spool.close()
	name := p.staged.Name
	if name == "" && p.spool.upload != nil {
		name = p.spool.upload.Name()
	}
	if name == "" {
		return err
	}
	return errors.Join(err, t.s.store.Abort(ctx, name))
}
