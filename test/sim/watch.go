//go:build synctests

package sim

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"exactly/internal/engine"
	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/internal/model"
	"exactly/sinktest"
)

// watcher holds the promise against every step while a run goes on.
type watcher struct {
	w *world

	mu       sync.Mutex
	broken   []string // what was violated, in order
	owners   map[any]*owner
	lanes    map[lane]*known
	loseNth  int                         // the answer of the sinks' server to lose; 0: none
	refusals int                         // of process starts
	models   map[modelled]*model.Checker // the relation of internal/model follows every step
	newest   map[string]*owner           // by transactional id without its last letter, and host
}

// lane is one task of one generation.
type lane struct {
	generation, task int32
}

// modelled is a lane of one incarnation.
type modelled struct {
	incarnation string
	lane        lane
}

// known is what is certain of a lane.
type known struct {
	ending  int64           // the last epoch that somebody asked the broker to decide
	decided *journal.Record // the newest record that somebody knows as decided
}

// owner is one attempt.
type owner struct {
	n       int // its number for the model
	lane    lane
	records map[int64]*journal.Record // built, by epoch
	claim   *journal.Record
	owns    bool // its takeover is over
}

func newWatcher(w *world) *watcher {
	return &watcher{w: w, owners: map[any]*owner{}, lanes: map[lane]*known{}, models: map[modelled]*model.Checker{}, newest: map[string]*owner{}}
}

func (v *watcher) violated(format string, args ...any) {
	v.broken = append(v.broken, fmt.Sprintf(format, args...))
}

// first is the first violation.
func (v *watcher) first() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.broken) == 0 {
		return nil
	}
	return errors.New(v.broken[0])
}

func (v *watcher) lane(l lane) *known {
	if v.lanes[l] == nil {
		v.lanes[l] = &known{}
	}
	return v.lanes[l]
}

// request is asked about each request to the sinks' server.
func (v *watcher) request(c sinktest.Call) sinktest.Outcome {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.w.hosts[c.Owner.Failpoints]; h != nil && h.isDead() {
		return sinktest.Refuse
	}
	if c.Epoch > 0 {
		if k := v.lane(lane{c.Owner.Generation, c.Owner.Task}); k.ending < c.Epoch {
			v.violated("visible before the decision: %s by sink %s of task %d shows epoch %d, asked to be decided were those up to %d",
				c.Op, c.Owner.Sink, c.Owner.Task, c.Epoch, k.ending)
		}
	}
	if v.loseNth > 0 {
		if v.loseNth--; v.loseNth == 0 {
			v.w.note("sink answer lost")
			return sinktest.LoseAnswer
		}
	}
	return sinktest.Proceed
}

// takesID is told of each transactional id that a host asks a producer epoch for:
// only a takeover may, since whoever fences also has to read and to claim.
func (v *watcher) takesID(h *host, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o := v.newest[h.name+" "+strings.TrimRight(id, "ab")]; o != nil && o.owns {
		v.violated("%s is taken back by the attempt that had it, without a claim", id)
	}
}

// step is told every step of every attempt.
func (v *watcher) step(h *host, s engine.Step) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.owners[s.Owner]
	if o == nil {
		o = &owner{n: len(v.owners) + 1, records: map[int64]*journal.Record{}}
		v.owners[s.Owner] = o
		v.newest[fmt.Sprintf("%s exactly.%s.g%d.t%d.", h.name, pipeline, s.Generation, s.Task)] = o
	}
	if err := v.follow(o.n, s); err != nil {
		v.violated("the model does not allow a step of task %d: %v", s.Task, err)
	}
	switch ev := s.Event.(type) {
	case epoch.Read:
		if r := ev.Record; r != nil {
			o.lane = lane{r.Generation, s.Task}
			k := v.lane(o.lane)
			k.ending = max(k.ending, r.Epoch)
			v.decided(o, r)
		}
	case epoch.Decided:
		v.decided(o, o.records[ev.Epoch])
	case epoch.Verified:
		if ev.Undisturbed {
			v.decided(o, o.claim)
			o.owns = true
		}
	}
	for _, a := range s.Actions {
		v.action(o, s.Task, a)
	}
}

// follow holds a step against the relation.
func (v *watcher) follow(owner int, s engine.Step) error {
	l := modelled{s.Incarnation, lane{s.Generation, s.Task}}
	c := v.models[l]
	if c == nil {
		c = model.NewChecker(model.Config{Incarnation: s.Incarnation, Generation: s.Generation, Task: s.Task, Staging: true})
		v.models[l] = c
	}
	if c.Err() != nil {
		return nil // said already
	}
	if err := c.Event(owner, s.Event); err != nil {
		return err
	}
	for _, a := range s.Actions {
		if err := c.Action(owner, a); err != nil {
			return err
		}
	}
	return nil
}

// decided notes a record that is known to be decided.
func (v *watcher) decided(o *owner, r *journal.Record) {
	k := v.lane(o.lane)
	if r != nil && (k.decided == nil || r.Attempt > k.decided.Attempt || r.Attempt == k.decided.Attempt && r.Epoch >= k.decided.Epoch) {
		k.decided = r
	}
}

func (v *watcher) action(o *owner, task int32, a epoch.Action) {
	switch a := a.(type) {
	case epoch.Claim:
		o.lane, o.claim = lane{a.Record.Generation, task}, a.Record
	case epoch.Journal:
		o.records[a.Epoch] = a.Record
	case epoch.End:
		k := v.lane(o.lane)
		k.ending = max(k.ending, a.Epoch)
	case epoch.Trim:
		if k := v.lane(o.lane); k.decided != nil {
			if low := needed(k.decided); a.Offset > low {
				v.violated("trim of task %d to %d: the decided record of epoch %d still needs %d", task, a.Offset, k.decided.Epoch, low)
			}
		}
	}
}

// needed is the lowest outbox offset that a decided record leaves in use.
func needed(r *journal.Record) int64 {
	low := r.Tail.Offset
	for _, c := range r.Cursors {
		low = min(low, c.Offset)
	}
	for _, p := range r.Pending {
		if !p.Through.IsZero() {
			low = min(low, p.Offset)
		}
	}
	return low
}

// ended is told why a process ended by itself.
func (v *watcher) ended(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if errors.As(err, new(engine.StartError)) {
		v.refusals++
		return
	}
	v.violated("a worker gave up: %v", err)
}
