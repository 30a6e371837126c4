package model

import (
	"errors"
	"fmt"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// phase is how far an owner has come: what is due, or what was asked for and
// not answered yet.
type phase int

const (
	idle phase = iota
	dueFenceA
	fencingA
	dueFenceB
	fencingB
	dueRead
	reading
	dueResolve
	resolving
	dueClaim
	claiming
	dueVerify
	verifying
	dueRecover
	recovering
	dueSweep
	sweeping
	dueOpen
	opening
	running
	mustEnd // sealed, or disturbed: nothing but Over is allowed
	over
)

func (p phase) String() string {
	return [...]string{
		"idle", "fence of a due", "fencing a", "fence of b due", "fencing b", "read due", "reading", "resolve due", "resolving",
		"claim due", "claiming", "verify due", "verifying", "recover due", "recovering", "sweep due", "sweeping", "open due", "opening",
		"running", "must end", "over",
	}[p]
}

// rules are the switches that break one rule each; zero is the protocol.
type rules struct {
	lax       bool // promises are not checked, so that all states of a broken protocol can be visited
	noClaim   bool // a new owner starts without the claim's transaction
	staleRead bool // the journal may be read before both fences
	noChain   bool // an epoch may be ended before the one in front of it
	noPending bool // a journal record forgets older committables
	trimAny   bool // the outbox may be trimmed anywhere
	early     bool // work may be committed before its decision
	noSeal    bool // a sealed record is taken for any other
	anyCursor bool // a claim need not carry the cursors
}

// producer is what the transaction coordinator knows of a transactional id.
type producer struct {
	owner  int // who was let in last; 0: nobody
	open   bool
	record *journal.Record // the journal record inside the open transaction
}

// lane is an epoch that is begun and not decided.
type lane struct {
	epoch     int64 // 0: free
	closed    bool  // the barrier was reached and the flush asked for
	flushed   bool
	preparing bool
	prepared  bool
	built     bool
	journaled bool
	sending   bool
	offsets   bool
	ending    bool
	committed bool // the broker has committed it; the owner need not know

	sources []journal.Source
	tail    journal.Tail
	staged  []journal.Pending
	record  *journal.Record
}

// item is staged work that is not known as done.
type item struct {
	journal.Pending
	listed int64 // the epoch that decides it; 0: no record lists it yet
	handed bool
}

// owner is an attempt, as far as the relation cares.
type owner struct {
	id      int
	phase   phase
	fences  [2]bool // asked for
	inside  [2]bool // took effect
	bound   int     // what was read may not be older than the log's first bound records
	read    *journal.Record
	readAt  int // index in the log; -1: the journal was empty
	offset  int64
	first   *journal.Record // the resolved start
	claim   *journal.Record
	claimed bool // the claim's transaction has committed
	seal    bool

	next, ended, published int64
	barrier                []journal.Source
	barred                 bool
	lanes                  [2]lane
	tail                   journal.Tail
	cursors, confirmed     map[string]*journal.Cursor
	verdicts               []epoch.Verdict
	pending                []item
	committed              map[string]sink.Committable // the newest work of each staging sink; never changed in place
}

// relation is one task: its journal, its two producers and its owners.
type relation struct {
	cfg    Config
	rules  rules
	log    []*journal.Record // committed, in order
	prods  [2]producer
	owners []*owner
	low    int64 // the outbox is trimmed below
}

func (r *relation) owner(id int) *owner {
	for _, o := range r.owners {
		if o.id == id {
			return o
		}
	}
	return nil
}

// last is the truth about the task; nil before the first claim.
func (r *relation) last() *journal.Record {
	if len(r.log) == 0 {
		return nil
	}
	return r.log[len(r.log)-1]
}

// rightful: nobody has claimed the task after o did.
func (r *relation) rightful(o *owner) bool {
	return o.claimed && r.last() != nil && r.last().Attempt == o.claim.Attempt
}

func (o *owner) attempt() int64 {
	if o.claim == nil {
		return 0
	}
	return o.claim.Attempt
}

func (o *owner) lane(n int64) *lane { return &o.lanes[n&1] }

// behind is the epoch in front of n, if it is not decided yet.
func (o *owner) behind(n int64) *lane {
	if l := o.lane(n - 1); l.epoch != 0 && l.epoch == n-1 {
		return l
	}
	return nil
}

var errNotAllowed = errors.New("not allowed")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errNotAllowed}, args...)...)
}

// expect is an error unless the owner is in the phase.
func (o *owner) expect(p phase) error {
	if o.phase != p {
		return refuse("the owner is at %q, not at %q", o.phase, p)
	}
	return nil
}
