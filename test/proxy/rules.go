package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Always as Rule.Times: for as long as the rule is there.
const Always = -1

// Rule says which messages of type M meet which fault.
type Rule[M any] struct {
	Name  string       // in errors
	Match func(M) bool // which messages are counted; it must not block
	From  int          // the first one that is acted upon, counted from 1; 0: 1
	Times int          // how many are acted upon; 0: 1
	Act   Act[M]
}

// Rules are the rules of one proxy. The zero value has none. Its methods may be
// called from any goroutine, while messages pass.
type Rules[M any] struct {
	mu   sync.Mutex
	list []*Armed[M]
}

// Armed is a rule at work.
type Armed[M any] struct {
	rule     Rule[M]
	rules    *Rules[M]
	released chan struct{} // closed: nothing is held any more

	mu      sync.Mutex // after Rules.mu
	seen    int        // matches
	hits    int        // of these acted upon
	changed chan struct{}
	once    sync.Once
}

// Add arms a rule. Of the rules that match a message the first one with
// something left to act upon does; all count it.
func (rs *Rules[M]) Add(r Rule[M]) *Armed[M] {
	r.From, r.Times = max(r.From, 1), max(r.Times, Always)
	if r.Times == 0 {
		r.Times = 1
	}
	a := &Armed[M]{rule: r, rules: rs, released: make(chan struct{}), changed: make(chan struct{})}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = append(rs.list, a)
	return a
}

// Clear removes every rule.
func (rs *Rules[M]) Clear() {
	rs.mu.Lock()
	list := rs.list
	rs.list = nil
	rs.mu.Unlock()
	for _, a := range list {
		a.Release()
	}
}

// Remove disarms the rule and releases what it holds.
func (a *Armed[M]) Remove() {
	rs := a.rules
	rs.mu.Lock()
	for i, other := range rs.list {
		if other == a {
			rs.list = append(rs.list[:i:i], rs.list[i+1:]...)
			break
		}
	}
	rs.mu.Unlock()
	a.Release()
}

// Release lets go what the rule holds now and would hold later.
func (a *Armed[M]) Release() { a.once.Do(func() { close(a.released) }) }

// Hits is how many messages the rule has acted upon.
func (a *Armed[M]) Hits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits
}

// Wait returns when the rule has acted upon n messages: what it does to the
// last of them has begun, and for one that is held not ended.
func (a *Armed[M]) Wait(ctx context.Context, n int) error {
	for {
		a.mu.Lock()
		hits, changed := a.hits, a.changed
		a.mu.Unlock()
		if hits >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			a.mu.Lock()
			defer a.mu.Unlock()
			return fmt.Errorf("wait for hit %d of rule %q, which has met %d messages and acted upon %d: %w", n, a.rule.Name, a.seen, a.hits, context.Cause(ctx))
		}
	}
}

// meet counts a message that matches, and says whether the rule acts upon it.
func (a *Armed[M]) meet() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	return a.seen >= a.rule.From && (a.rule.Times == Always || a.hits < a.rule.Times)
}

func (a *Armed[M]) hit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hits++
	close(a.changed)
	a.changed = make(chan struct{})
}

// Fate is what a proxy does with a message after its rules were asked.
type Fate struct {
	Forward bool
	Cut     bool            // close the connection, both ways
	Again   <-chan struct{} // not nil: send a copy when it is closed
}

// Idle reports whether there is no rule, so that messages need not be looked
// at.
func (rs *Rules[M]) Idle() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.list) == 0
}

// Apply asks the rules about a message and blocks while it is held. Rewriting
// is done when it returns. The error is that of ctx, or of a rewriting that
// failed, which no proxy may pass over: the test would show something else than
// it says.
func (rs *Rules[M]) Apply(ctx context.Context, m M) (Fate, error) {
	a := rs.find(m)
	if a == nil {
		return Fate{Forward: true}, nil
	}
	act := a.rule.Act
	switch {
	case act.hold:
		if err := wait(ctx, a.released, 0); err != nil {
			return Fate{}, err
		}
	case act.delay > 0:
		if err := wait(ctx, a.released, act.delay); err != nil {
			return Fate{}, err
		}
	case act.drop, act.cut:
		return Fate{Cut: act.cut}, nil
	case act.again:
		return Fate{Forward: true, Again: a.released}, nil
	case act.rewrite != nil:
		if err := act.rewrite(m); err != nil {
			return Fate{}, fmt.Errorf("rule %q: rewrite: %w", a.rule.Name, err)
		}
	}
	return Fate{Forward: true}, nil
}

// find counts the message and gives the rule that acts upon it, or nil.
func (rs *Rules[M]) find(m M) *Armed[M] {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var first *Armed[M]
	for _, a := range rs.list {
		if a.rule.Match(m) && a.meet() && first == nil {
			first = a
		}
	}
	if first != nil {
		first.hit()
	}
	return first
}

// wait returns when done is closed, or after d unless that is 0.
func wait(ctx context.Context, done <-chan struct{}, d time.Duration) error {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-done:
	case <-after:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
