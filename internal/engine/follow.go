package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"exactly/internal/journal"
	"exactly/internal/mutation"
	"exactly/internal/outbox"
	"exactly/sink"
)

// progress is how far a sink has come in an attempt, for those that follow it.
type progress struct {
	mu      sync.Mutex
	staged  bool
	through sink.Pos // of an outbox sink
	held    []int64  // of a staging sink: epochs that are prepared and not yet committed
	moved   chan struct{}
}

func newProgress(staged bool) *progress {
	return &progress{staged: staged, moved: make(chan struct{})}
}

func (p *progress) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.moved)
	p.moved = make(chan struct{})
}

// reach: everything up to pos is applied or refused.
func (p *progress) reach(pos sink.Pos) { p.change(func() { p.through = pos }) }

// hold is called before epoch n can be decided.
func (p *progress) hold(n int64) { p.change(func() { p.held = append(p.held, n) }) }

func (p *progress) release(ps []journal.Pending) {
	p.change(func() {
		for _, one := range ps {
			p.held = slices.DeleteFunc(p.held, func(n int64) bool { return n == one.Epoch })
		}
	})
}

// covers reports whether the sink is done with the record at pos, and else what is
// closed when it has moved on.
func (p *progress) covers(pos sink.Pos) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.staged {
		return !slices.ContainsFunc(p.held, func(n int64) bool { return n <= pos.Epoch }), p.moved
	}
	return !p.through.Before(pos), p.moved
}

// led waits until the sinks that r follows are done with the first entry, and gives
// the entries that they are done with.
func (r *runner) led(ctx context.Context, es []outbox.Entry) ([]outbox.Entry, error) {
	if mutation.On(mutation.FollowEarly) {
		return es, nil
	}
	for _, p := range r.follows {
		for {
			done, moved := p.covers(es[0].Pos)
			if done {
				break
			}
			select {
			case <-moved:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		n := 1
		for n < len(es) {
			if done, _ := p.covers(es[n].Pos); !done {
				break
			}
			n++
		}
		es = es[:n]
	}
	return es, nil
}

// followed are the sinks that s follows.
func followed(s sink.Sink) []string {
	if f, ok := s.(sink.Follower); ok {
		return f.Follows()
	}
	return nil
}

// progressOf gives that of the named sink of the attempt.
func (a *attempt) progressOf(name string) *progress {
	if st := a.staging(name); st != nil {
		return st.progress
	}
	for _, r := range a.runners {
		if r.name == name {
			return r.progress
		}
	}
	return nil
}

// CheckFollowers refuses sinks that follow what cannot be followed. It names the
// first.
func CheckFollowers(sinks []Sink) (name string, err error) {
	byName := map[string]sink.Sink{}
	for _, s := range sinks {
		byName[s.Name] = s.Sink
	}
	for _, s := range sinks {
		for _, leader := range followed(s.Sink) {
			if why := unledBy(byName[leader], leader == s.Name); why != "" {
				return s.Name, fmt.Errorf("from: %s %s", leader, why)
			}
		}
	}
	return "", nil
}

// unledBy says why a sink cannot be followed, "" if it can.
func unledBy(s sink.Sink, itself bool) string {
	_, outboxed := s.(sink.Outbox)
	_, staged := s.(sink.Staging)
	switch {
	case s == nil:
		return "is no sink of this pipeline"
	case itself:
		return "is the sink itself"
	case !outboxed && !staged:
		return "writes inside of the Kafka transaction: nothing can be read from it here"
	case s.Features().Stages:
		return "collects records over many epochs, and cannot be waited for"
	case len(followed(s)) > 0:
		return "follows other sinks itself; name those"
	}
	return ""
}
