package sinktest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
)

// workID names staged work, every part apart, so that it can be compared for
// equality.
type workID struct {
	Incarnation, Pipeline, Sink string
	Generation, Task            int32
	Attempt                     int64
	Epoch                       int64    // staging
	From, Through               sink.Pos // stager
}

func ownerID(o sink.Owner) workID {
	return workID{
		Incarnation: o.Incarnation, Pipeline: o.Pipeline, Sink: o.Sink,
		Generation: o.Generation, Task: o.Task, Attempt: o.Attempt,
	}
}

// work is what an Observer says of it.
func (id workID) work() sink.StagedWork {
	name := fmt.Sprintf("%+v", id)
	return sink.StagedWork{
		Name: name, Place: "model", Undo: "forget " + name,
		Generation: id.Generation, Task: id.Task, Attempt: id.Attempt, Epoch: id.Epoch,
	}
}

// drop rolls staged work back.
func (c *modelCommitter) drop(id workID) {
	if _, ok := c.srv.staged[id]; ok {
		delete(c.srv.staged, id)
		c.tell(id, false)
	}
}

func (c *modelCommitter) tell(id workID, committed bool) {
	if c.o.Settled != nil {
		c.o.Settled(id.work(), committed)
	}
}

// modelCommitter finishes staged work of both kinds.
type modelCommitter struct {
	srv *Server
	opt Options
	o   sink.Owner
}

// committable names the work of id.
func (c *modelCommitter) committable(id workID) ([]sink.Committable, error) {
	data, err := json.Marshal(id)
	if err != nil {
		return nil, fmt.Errorf("name staged work: %w", err)
	}
	return []sink.Committable{{Sink: c.o.Sink, Attempt: c.o.Attempt, From: id.From, Through: id.Through, Data: data}}, nil
}

// stage makes records durable and invisible.
func (c *modelCommitter) stage(id workID, rs []record.Record) {
	c.srv.staged[id] = rs
	if c.srv.defects[VisibleWhileStaged] {
		c.srv.insert(c.opt, pointers(rs))
	}
}

// Commit implements sink.Committer.
func (c *modelCommitter) Commit(ctx context.Context, cs []sink.Committable) error {
	for _, one := range cs {
		id, err := parseID(one)
		if err != nil {
			return err
		}
		if err := c.o.Failpoints.Hit(ctx, failpoint.SinkTxnBefore, c.o.Task, one.Epoch); err != nil {
			return sink.Transient(err)
		}
		if err := c.commitOne(ctx, id, one.Epoch); err != nil {
			return fmt.Errorf("commit work of attempt %d: %w", id.Attempt, err)
		}
		if c.srv.defects[PointLeftOut] {
			continue
		}
		if err := c.o.Failpoints.Hit(ctx, failpoint.SinkTxnAfter, c.o.Task, one.Epoch); err != nil {
			return sink.Transient(err)
		}
	}
	return nil
}

func (c *modelCommitter) commitOne(ctx context.Context, id workID, epoch int64) error {
	d := c.srv.defects
	rs, found := []record.Record(nil), false
	look := func() error {
		if rs, found = c.srv.staged[id]; found {
			return nil
		}
		old, done := c.srv.done[id]
		switch {
		case done && d[CommitDoubles]:
			c.srv.insert(c.opt, pointers(old))
		case !done && !d[LostIsSuccess]:
			return sink.ErrLost
		}
		return nil
	}
	act := func() error {
		if !found {
			return nil
		}
		delete(c.srv.staged, id)
		c.srv.done[id] = nil // the mark is all that has to stay
		if d[CommitDoubles] {
			c.srv.done[id] = rs
		}
		c.tell(id, true)
		if !d[VisibleWhileStaged] {
			c.srv.insert(c.opt, pointers(rs))
		}
		return nil
	}
	if d[RaceyCommit] {
		if err := c.srv.do(ctx, "commit", c.o, look); err != nil {
			return err
		}
		runtime.Gosched()
		return c.srv.do(ctx, "commit", c.o, act)
	}
	return c.srv.show(ctx, "commit", c.o, epoch, func() error {
		if err := look(); err != nil {
			return err
		}
		return act()
	})
}

// Abort implements sink.Committer.
func (c *modelCommitter) Abort(ctx context.Context, cs []sink.Committable) error {
	for _, one := range cs {
		id, err := parseID(one)
		if err != nil {
			return err
		}
		err = c.rollBack(ctx, "abort", one.Epoch, func() error {
			if _, ok := c.srv.staged[id]; !ok && c.srv.defects[AbortNeedsWork] {
				return fmt.Errorf("abort work of attempt %d: not there", id.Attempt)
			}
			if !c.srv.defects[AbortForgets] {
				c.drop(id)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rollBack is a request that ends staged work, between its fail points.
func (c *modelCommitter) rollBack(ctx context.Context, what string, epoch int64, f func() error) error {
	if err := c.o.Failpoints.Hit(ctx, failpoint.SinkAbortBefore, c.o.Task, epoch); err != nil {
		return sink.Transient(err)
	}
	if err := c.srv.do(ctx, what, c.o, f); err != nil {
		return err
	}
	return sink.Transient(c.o.Failpoints.Hit(ctx, failpoint.SinkAbortAfter, c.o.Task, epoch))
}

// Sweep implements sink.Committer.
func (c *modelCommitter) Sweep(ctx context.Context, keep []sink.Committable) error {
	kept := map[workID]bool{}
	for _, one := range keep {
		id, err := parseID(one)
		if err != nil {
			return err
		}
		kept[id] = true
	}
	return c.rollBack(ctx, "sweep", 0, func() error {
		d := c.srv.defects
		for id := range c.srv.staged {
			if d[SweepNothing] {
				continue
			}
			if c.older(id) && !kept[id] && !d[SweepOwnGeneration] {
				c.drop(id)
				continue
			}
			if !c.mine(id) {
				continue
			}
			if id.Attempt >= c.o.Attempt && !d[SweepLater] || kept[id] && !d[SweepIgnoresKeep] {
				continue
			}
			c.drop(id)
		}
		return nil
	})
}

// older: of an older generation of the sink.
func (c *modelCommitter) older(id workID) bool {
	return id.Incarnation == c.o.Incarnation && id.Pipeline == c.o.Pipeline && id.Sink == c.o.Sink && id.Generation < c.o.Generation
}

// mine compares every part of the owner but the attempt.
func (c *modelCommitter) mine(id workID) bool {
	if c.srv.defects[SweepByPrefix] {
		return strings.HasPrefix(fmt.Sprint(id.Task), fmt.Sprint(c.o.Task)) && strings.HasPrefix(id.Pipeline, c.o.Pipeline)
	}
	own := ownerID(c.o)
	if c.srv.defects[GenerationIgnored] {
		own.Generation = id.Generation
	}
	own.Attempt, own.Epoch, own.From, own.Through = id.Attempt, id.Epoch, id.From, id.Through
	return own == id
}

func parseID(c sink.Committable) (workID, error) {
	var id workID
	if err := json.Unmarshal(c.Data, &id); err != nil {
		return id, sink.Fatal(fmt.Errorf("read the name of staged work: %w", err))
	}
	return id, nil
}

func pointers(rs []record.Record) []*record.Record {
	out := make([]*record.Record, len(rs))
	for i := range rs {
		out[i] = &rs[i]
	}
	return out
}
