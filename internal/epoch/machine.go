package epoch

import (
	"errors"
	"fmt"

	"exactly/internal/journal"
	"exactly/internal/mutation"
	"exactly/sink"
)

// Config is what a Machine must know of its task.
type Config struct {
	Incarnation string
	Pipeline    string
	Generation  int32
	Task        int32
	Worker      string // for people, in the journal

	Outbox  []string // names of the outbox sinks
	Staging bool     // there are staging sinks

	// MaxPending and MaxPendingBytes bound the unconfirmed committables, and with
	// them the journal record. 0: 64, and 512 KiB. Work of two-phase sinks at the
	// bound keeps new epochs from being filled; that of a stager keeps the stager
	// waiting.
	MaxPending      int
	MaxPendingBytes int
	// Seal makes every record sealed, and nothing is ever filled: how a
	// generation ends.
	Seal bool
}

// ErrSealed: the generation has ended.
var ErrSealed = errors.New("this generation of the pipeline was sealed")

// ErrDisturbed: someone else decided between the read and the claim.
var ErrDisturbed = errors.New("another owner took over meanwhile")

type state int

const (
	stIdle state = iota
	stFenceA
	stFenceB
	stRead
	stResolve
	stClaim
	stVerify
	stRecover
	stSweep
	stOpen
	stRun
	stOver
)

var stateNames = [...]string{"idle", "fence a", "fence b", "read", "resolve", "claim", "verify", "recover", "sweep", "open", "run", "over"}

func (s state) String() string { return stateNames[s] }

// lane is one of the two open epochs.
type lane struct {
	epoch     int64 // 0: free
	closed    bool  // the barrier was reached
	flushed   bool
	preparing bool
	prepared  bool
	built     bool // the journal record was handed out
	journaled bool
	sending   bool // the offsets were handed out
	offsets   bool
	ending    bool
	early     bool // decided before the epoch in front: only with a broken rule

	sources []journal.Source
	tail    journal.Tail
	staged  []journal.Pending // of the staging sinks
	record  *journal.Record
}

// item is pending work; it may be committed once listedBy is decided.
type item struct {
	journal.Pending
	listedBy int64 // the first epoch whose record lists it; 0: none yet
	handed   bool  // given out by Commit
}

// Machine is one attempt of one task. Not safe for concurrent use.
type Machine struct {
	cfg   Config
	state state

	read       *journal.Record
	readOffset int64
	claim      *journal.Record
	attempt    int64

	next, ended int64 // the next epoch to begin; the last decided
	lanes       [2]lane
	sources     []journal.Source
	tail        journal.Tail
	cursors     map[string]*journal.Cursor
	verdicts    []Verdict
	pending     []item
	confirmed   map[string]*journal.Cursor // by the last decided record
	listed      []journal.Pending          // by the same
	trimmed     int64
	committed   map[string]sink.Committable // the newest of each staging sink

	dirty    bool // there is something to confirm
	renew    int  // epochs owed to Renew
	stopping bool
	out      []Action
}

// New returns a Machine that waits for Start.
func New(cfg Config) *Machine {
	if cfg.MaxPending == 0 {
		cfg.MaxPending = 64
	}
	if cfg.MaxPendingBytes == 0 {
		cfg.MaxPendingBytes = 512 << 10
	}
	return &Machine{cfg: cfg, cursors: map[string]*journal.Cursor{}}
}

// Attempt is this ownership's number; 0 before the journal was read.
func (m *Machine) Attempt() int64 { return m.attempt }

// Ended is the last decided epoch.
func (m *Machine) Ended() int64 { return m.ended }

// Open is the epoch that is being filled, or 0.
func (m *Machine) Open() int64 {
	if l := &m.lanes[(m.next-1)&1]; m.state == stRun && l.epoch == m.next-1 && l.epoch != 0 && !l.closed {
		return l.epoch
	}
	return 0
}

// CanFill reports whether a record may be produced now.
func (m *Machine) CanFill() bool {
	if m.state != stRun || m.stopping || m.cfg.Seal {
		return false
	}
	return m.Open() != 0 || (m.canBegin() && !m.full(twoPhase))
}

// CanStage reports whether a stager's pending work is below its bound. Above it
// the sink waits, whose records stay in the outbox, and nothing else does.
func (m *Machine) CanStage(sink string) bool {
	return m.state == stRun && !m.full(func(p *journal.Pending) bool { return p.Sink == sink && !twoPhase(p) })
}

// twoPhase tells work of a staging sink, which is in no outbox.
func twoPhase(p *journal.Pending) bool { return p.From.IsZero() && p.Through.IsZero() }

// Running reports whether the takeover is done and the attempt not over.
func (m *Machine) Running() bool { return m.state == stRun }

// Quiet reports that nothing is open and nothing waits to be confirmed.
func (m *Machine) Quiet() bool {
	return m.state == stRun && m.lanes[0].epoch == 0 && m.lanes[1].epoch == 0 && !m.dirty && m.renew == 0
}

// Dirty reports whether a Barrier would make an epoch that only confirms.
func (m *Machine) Dirty() bool { return m.state == stRun && (m.dirty || m.renew > 0) && m.canBegin() }

// Pending is how much decided work is not known as done.
func (m *Machine) Pending() int { return len(m.pending) }

// full reports whether the pending work of a kind has come to its bound.
func (m *Machine) full(of func(*journal.Pending) bool) bool {
	items, bytes := 0, 0
	for i := range m.pending {
		if p := &m.pending[i].Pending; of(p) {
			items++
			bytes += len(p.Data) + 128
		}
	}
	return items >= m.cfg.MaxPending || bytes >= m.cfg.MaxPendingBytes
}

// canBegin: I2, two open at most; I6, the epoch before is flushed.
func (m *Machine) canBegin() bool {
	if m.next > m.ended+2 || m.lanes[m.next&1].epoch != 0 {
		return false
	}
	prev := &m.lanes[(m.next-1)&1]
	return prev.epoch == 0 || prev.epoch != m.next-1 || (prev.closed && (prev.flushed || mutation.On(mutation.SentBeforeFlush)))
}

// Step takes an event and returns what to do. The slice is valid until the next
// Step.
func (m *Machine) Step(ev Event) []Action {
	m.out = m.out[:0]
	if m.state == stOver {
		return nil
	}
	if f, ok := ev.(Failed); ok {
		m.over(f.Err)
		return m.out
	}
	if m.state == stRun {
		m.run(ev)
	} else {
		m.takeover(ev)
	}
	return m.out
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) over(err error) {
	m.state = stOver
	m.do(Over{Err: err})
}

func (m *Machine) unexpected(ev Event) {
	m.over(fmt.Errorf("protocol: %T in state %s", ev, m.state))
}
