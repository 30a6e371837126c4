package model

import (
	"fmt"
	"strings"
	"sync"

	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// Checker follows the trace of one task: what each of its owners asks for and
// is told, in the order in which it happens. An owner is one attempt, one
// epoch.Machine, named by a number above 0 that is never used again; it comes
// into being with its first event. A crash needs no call.
//
// The first step that the relation does not allow is an error, with the steps
// before it; every later call returns the same error. The methods may be called
// from several goroutines, if their order is that of the trace. What they are
// given is kept and must not be changed afterwards.
type Checker struct {
	mu    sync.Mutex
	rel   relation
	trace []step // the last steps, a ring
	steps int
	err   error
}

type step struct {
	owner int
	kind  string
	what  any
}

// tailLength is how many steps an error shows.
const tailLength = 40

// NewChecker begins with a task that never had an owner.
func NewChecker(c Config) *Checker {
	return &Checker{rel: relation{cfg: c}, trace: make([]step, tailLength)}
}

// Event: the owner is told ev, before its machine takes it.
func (c *Checker) Event(id int, ev epoch.Event) error {
	return c.step(step{id, "is told", ev}, func() error {
		o := c.rel.owner(id)
		if o == nil {
			if _, ok := ev.(epoch.Start); !ok {
				return refuse("it was not started")
			}
			o = newOwner(id)
			c.rel.owners = append(c.rel.owners, o)
		}
		return c.rel.event(o, ev)
	})
}

// Action: the owner's machine asks for a.
func (c *Checker) Action(id int, a epoch.Action) error {
	return c.step(step{id, "asks for", a}, func() error {
		o := c.rel.owner(id)
		if o == nil {
			return refuse("it was not started")
		}
		return c.rel.action(o, a)
	})
}

// Fenced: the broker let the owner's producer in, and fenced whoever held it.
func (c *Checker) Fenced(id int, p epoch.Producer) error {
	return c.truth(id, "fences", p, func(o *owner) error { return c.rel.fenced(o, p) })
}

// Committed: the broker has committed a transaction of the owner that holds
// this journal record. In log order.
func (c *Checker) Committed(id int, r *journal.Record) error {
	return c.truth(id, "commits", r, func(o *owner) error { return c.rel.committed(o, r) })
}

// Aborted: the broker has aborted the open transaction of a producer by itself,
// and fenced who held it.
func (c *Checker) Aborted(p epoch.Producer) error {
	return c.step(step{0, "aborts", p}, func() error { c.rel.aborted(p); return nil })
}

// Err is the first error, or nil.
func (c *Checker) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Steps is how many steps were taken.
func (c *Checker) Steps() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps
}

func (c *Checker) truth(id int, kind string, what any, f func(*owner) error) error {
	return c.step(step{id, kind, what}, func() error {
		o := c.rel.owner(id)
		if o == nil {
			return refuse("there is no such owner")
		}
		return f(o)
	})
}

func (c *Checker) step(s step, f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.trace[c.steps%tailLength] = s
	c.steps++
	if err := f(); err != nil {
		c.err = fmt.Errorf("step %d of task %d, generation %d: %w\n%s", c.steps, c.rel.cfg.Task, c.rel.cfg.Generation, err, c.tail())
	}
	return c.err
}

func (c *Checker) tail() string {
	var b strings.Builder
	for i := max(0, c.steps-tailLength); i < c.steps; i++ {
		s := c.trace[i%tailLength]
		who := fmt.Sprintf("owner %d", s.owner)
		if s.owner == 0 {
			who = "the broker"
		}
		fmt.Fprintf(&b, "%6d %s %s %s\n", i+1, who, s.kind, describe(s.what))
	}
	return b.String()
}

func newOwner(id int) *owner { return &owner{id: id, readAt: -1} }

// action is a step of the relation: o asks for a.
func (r *relation) action(o *owner, a epoch.Action) error {
	if _, ok := a.(epoch.Over); ok {
		o.phase = over
		return nil
	}
	switch {
	case o.phase == over: // I7
		return refuse("the attempt is over")
	case o.phase == mustEnd:
		return refuse("the attempt must end")
	case o.phase == running:
		return r.runAction(o, a)
	}
	return r.takeoverAction(o, a)
}

// event is a step of the relation: o is told e.
func (r *relation) event(o *owner, e epoch.Event) error {
	if o.phase == over || o.phase == mustEnd {
		return nil // what comes late is not looked at
	}
	o.barred = false                   // a barrier is answered at once, or is none
	if _, ok := e.(epoch.Failed); ok { // I7
		o.phase = mustEnd
		return nil
	}
	if o.phase == running {
		return r.runEvent(o, e)
	}
	return r.takeoverEvent(o, e)
}
