//go:build synctests

package sim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"exactly/internal/engine"
	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/internal/model"
	"exactly/sink"
	"exactly/sinktest"
)

// watcher holds the promise against every step while a run goes on.
type watcher struct {
	w       *world
	outputs bool // only what sinks, journals and readers show is looked at

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
	ending  int64           // the last epoch that a broker was asked to decide
	decided *journal.Record // the newest record that somebody knows as decided
	largest int             // bytes of a journal record
}

// owner is one attempt.
type owner struct {
	n       int // its number for the model
	lane    lane
	records map[int64]*journal.Record // built, by epoch
	claim   *journal.Record
	owns    bool     // its takeover is over
	fenced  [2]bool  // the broker was asked to fence the id
	asked   [2]int64 // the epoch that each producer is to end
}

// checksVar with checkOutputs leaves out what looks inside: the model that
// follows, and the rules for takeovers, trims and what sinks are said to hold.
const (
	checksVar    = "EXACTLY_SIM_CHECKS"
	checkOutputs = "outputs"
)

func newWatcher(w *world) *watcher {
	return &watcher{w: w, outputs: os.Getenv(checksVar) == checkOutputs, owners: map[any]*owner{}, lanes: map[lane]*known{}, models: map[modelled]*model.Checker{}, newest: map[string]*owner{}}
}

func (v *watcher) violated(format string, args ...any) {
	v.broken = append(v.broken, fmt.Sprintf(format, args...))
}

// say is violated for a caller without the lock.
func (v *watcher) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.violated(format, args...)
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
	if h := v.w.owners[c.Owner.Failpoints]; h != nil && h.isDead() {
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
			v.w.note(string(loseSink))
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
	o := v.newest[newest(h, id)]
	if o == nil || v.outputs {
		return
	}
	if o.owns {
		v.violated("%s is taken back by the attempt that had it, without a claim", id)
	}
	o.fenced[producer(id)] = true
}

// ends is told of each transaction that a broker is asked to commit.
func (v *watcher) ends(h *host, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o := v.newest[newest(h, id)]; o != nil {
		k := v.lane(o.lane)
		k.ending = max(k.ending, o.asked[producer(id)])
	}
}

func producer(id string) epoch.Producer {
	if strings.HasSuffix(id, "b") {
		return epoch.B
	}
	return epoch.A
}

// newest names the owner of a transactional id on a host.
func newest(h *host, id string) string { return h.name + " " + strings.TrimRight(id, "ab") }

// step is told every step of every attempt.
func (v *watcher) step(h *host, s engine.Step) {
	sure := v.took(h, s)
	if v.outputs {
		return
	}
	wrong := v.standing(s, sure)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.broken = append(v.broken, wrong...)
}

// took notes a step, and gives what is certain of its lane.
func (v *watcher) took(h *host, s engine.Step) known {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.owners[s.Owner]
	if o == nil {
		o = &owner{n: len(v.owners) + 1, records: map[int64]*journal.Record{}}
		v.owners[s.Owner] = o
		v.newest[newest(h, fmt.Sprintf("exactly.%s.g%d.t%d.", pipeline, s.Generation, s.Task))] = o
	}
	if !v.outputs {
		if err := v.follow(o.n, s); err != nil {
			v.violated("the model does not allow a step of task %d: %v", s.Task, err)
		}
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
	return *v.lane(o.lane)
}

// oneMore is what may come on top of the budget for what is not acknowledged, all
// that one source record becomes, beside a journal record of each producer.
const oneMore = 2 << 10

// standing holds the engine's memory against its budgets, and what it believes of
// sinks against what their servers know: what is reported as committed is
// committed, what is reported as applied is applied, and what is decided and
// unconfirmed is still there. It is called without the lock, since a server that
// asks the watcher holds its own.
func (v *watcher) standing(s engine.Step, sure known) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if limit := v.w.s.Shape.Memory; limit > 0 {
		if s.Held.Produced > limit+oneMore+2*int64(sure.largest) {
			say("task %d holds %d bytes that are not acknowledged, with a budget of %d", s.Task, s.Held.Produced, limit)
		}
		if s.Held.Epochs > 1 && s.Held.Handover > limit {
			say("task %d holds %d bytes for its sinks, with a budget of %d", s.Task, s.Held.Handover, limit)
		}
	}
	switch ev := s.Event.(type) {
	case epoch.Committed:
		for _, p := range ev.Items {
			if _, done, err := v.w.server(p.Sink).Holds(p.Committable); err != nil || !done {
				say("work of epoch %d is reported as committed, and sink %s does not show it (%v)", p.Epoch, p.Sink, err)
			}
		}
	case epoch.Applied:
		if ev.Sink != "rows" && ev.Sink != sums {
			break
		}
		at := v.w.server(ev.Sink).Through(sink.Owner{Pipeline: pipeline, Sink: ev.Sink, Generation: s.Generation, Task: s.Task})
		if at.Before(ev.Cursor.Pos) {
			say("sink %s of task %d is reported to stand at %s, and stands at %s", ev.Sink, s.Task, ev.Cursor.Pos, at)
		}
	}
	if sure.decided == nil {
		return wrong
	}
	for _, p := range sure.decided.Pending {
		if waiting, done, err := v.w.server(p.Sink).Holds(p.Committable); err != nil || !waiting && !done {
			say("decided work of epoch %d is gone from sink %s (%v)", p.Epoch, p.Sink, err)
		}
	}
	return wrong
}

// follow holds a step against the relation.
func (v *watcher) follow(owner int, s engine.Step) error {
	l := modelled{s.Incarnation, lane{s.Generation, s.Task}}
	c := v.models[l]
	if c == nil {
		c = model.NewChecker(model.Config{Incarnation: s.Incarnation, Generation: s.Generation, Task: s.Task, Staging: v.w.server("db") != nil})
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
		if !v.outputs && o.fenced != [2]bool{true, true} {
			v.violated("task %d is claimed with the producers fenced: %v", task, o.fenced)
		}
	case epoch.Journal:
		o.records[a.Epoch] = a.Record
		if b, err := a.Record.Encode(); err == nil {
			k := v.lane(o.lane)
			k.largest = max(k.largest, len(b))
		}
	case epoch.End:
		o.asked[epoch.Of(a.Epoch)] = a.Epoch
	case epoch.Trim:
		if v.outputs {
			break
		}
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
