package epoch

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"exactly/internal/journal"
	"exactly/internal/mutation"
	"exactly/sink"
)

// run handles the events of a running attempt.
func (m *Machine) run(ev Event) {
	switch ev := ev.(type) {
	case Fill:
		if m.CanFill() && m.Open() == 0 {
			m.begin()
		}
	case Barrier:
		m.barrier(ev)
	case Flushed:
		m.inLane(ev, ev.Epoch, func(l *lane) { l.flushed, l.tail = true, ev.Tail })
	case Prepared:
		m.inLane(ev, ev.Epoch, func(l *lane) {
			l.prepared = true
			for _, c := range ev.Committables {
				c.Attempt, c.Epoch = m.attempt, ev.Epoch
				l.staged = append(l.staged, journal.Pending{Committable: c})
			}
		})
	case Journaled:
		m.inLane(ev, ev.Epoch, func(l *lane) { l.journaled = true })
	case OffsetsSent:
		m.inLane(ev, ev.Epoch, func(l *lane) { l.offsets = true })
	case Decided:
		m.decided(ev)
	case Applied, Staged, Committed:
		m.sinkEvent(ev)
	case Renew:
		m.renew = 2
	case Moved:
		m.dirty = true
	case Stop:
		m.stopping = true
	default:
		m.unexpected(ev)
	}
}

func (m *Machine) begin() {
	l := &m.lanes[m.next&1]
	*l = lane{epoch: m.next}
	m.do(Begin{Epoch: m.next, Producer: Of(m.next)})
	m.next++
}

// barrier closes the open epoch. With none open it makes one that only
// confirms, if there is something to say; an epoch with nothing to say is
// skipped.
func (m *Machine) barrier(ev Barrier) {
	n := m.Open()
	if n == 0 {
		if !(m.dirty || m.renew > 0) || !m.canBegin() {
			return
		}
		m.begin()
		n = m.next - 1
	}
	l := &m.lanes[n&1]
	l.closed, l.sources = true, ev.Sources
	if m.renew > 0 {
		m.renew--
	}
	m.do(Flush{Epoch: n})
	m.advance()
}

func (m *Machine) inLane(ev Event, n int64, f func(*lane)) {
	l := &m.lanes[n&1]
	if l.epoch != n || !l.closed {
		m.over(fmt.Errorf("protocol: %T of epoch %d, which is not open", ev, n))
		return
	}
	f(l)
	m.advance()
}

// advance gives out what has become possible, oldest epoch first.
func (m *Machine) advance() {
	for n := m.ended + 1; n < m.next; n++ {
		l := &m.lanes[n&1]
		if l.epoch != n || !l.closed {
			return
		}
		older := &m.lanes[(n-1)&1]
		behind := n > 1 && older.epoch == n-1 // the epoch before is still undecided
		if !l.preparing && (!behind || older.prepared) {
			l.preparing = true
			if m.cfg.Staging {
				m.do(Prepare{Epoch: n})
			} else {
				l.prepared = true
			}
		}
		if !l.built && l.flushed && l.prepared && (!behind || older.journaled) {
			m.build(l)
		}
		// In order: of two commits in one group, brokers keep the one that was
		// written last to the log, whichever transaction ended last.
		if l.built && !l.sending && (!behind || older.offsets) {
			l.sending = true
			m.do(Offsets{Epoch: n, Sources: l.sources})
		}
		// I2: never before the epoch in front was acknowledged as committed.
		if l.journaled && l.offsets && !l.ending && (!behind || mutation.On(mutation.NoChain)) {
			l.ending = true
			m.do(End{Epoch: n})
			if mutation.On(mutation.CommitEarly) {
				m.handOut(n)
			}
		}
	}
}

// build makes R(n): all that is decided by n or was before and is not known as
// done (I3), and the cursors with their verdicts (I5).
func (m *Machine) build(l *lane) {
	l.built = true
	for _, p := range l.staged {
		m.pending = append(m.pending, item{Pending: p})
	}
	for i := range m.pending {
		if m.pending[i].listedBy == 0 {
			m.pending[i].listedBy = l.epoch
			m.pending[i].Epoch = l.epoch
		}
	}
	r := &journal.Record{
		Format: journal.Format, Incarnation: m.cfg.Incarnation, Pipeline: m.cfg.Pipeline,
		Generation: m.cfg.Generation, Task: m.cfg.Task, Attempt: m.attempt, Epoch: l.epoch,
		Sealed: m.cfg.Seal, Worker: m.cfg.Worker,
		Sources: l.sources, Tail: l.tail, Cursors: map[string]*journal.Cursor{},
	}
	r.Pending, r.Committed = m.list(r.Pending), maps.Clone(m.committed)
	if mutation.On(mutation.PendingForgotten) {
		r.Pending = slices.DeleteFunc(r.Pending, func(p journal.Pending) bool { return p.Epoch != l.epoch })
	}
	for k, c := range m.cursors {
		cur := *c
		r.Cursors[k] = &cur
	}
	l.record = r
	v := m.verdicts
	m.verdicts, m.dirty = nil, false
	m.do(Journal{Epoch: l.epoch, Record: r, Verdicts: v})
}

// decided: the epoch happened. Only now may anything of it be seen (I1).
func (m *Machine) decided(ev Decided) {
	l := &m.lanes[ev.Epoch&1]
	if mutation.On(mutation.NoChain) && l.ending && ev.Epoch == m.ended+2 {
		l.early = true
		return
	}
	if l.epoch != ev.Epoch || !l.ending || ev.Epoch != m.ended+1 {
		m.over(fmt.Errorf("protocol: epoch %d decided after %d", ev.Epoch, m.ended))
		return
	}
	m.ended = ev.Epoch
	m.sources, m.tail, m.confirmed, m.listed = l.sources, l.tail, l.record.Cursors, l.record.Pending
	*l = lane{}
	m.do(Publish{Epoch: ev.Epoch, Tail: m.tail})
	m.handOut(m.ended)
	m.do(Confirm{Cursors: m.confirmed})
	m.trim()
	m.advance()
	if next := &m.lanes[(m.ended+1)&1]; next.early {
		m.decided(Decided{Epoch: next.epoch})
	}
}

// handOut gives work decided through an epoch out for commit, in epoch order.
func (m *Machine) handOut(through int64) {
	var items []journal.Pending
	for i := range m.pending {
		it := &m.pending[i]
		if it.listedBy != 0 && it.listedBy <= through && !it.handed {
			it.handed = true
			items = append(items, it.Pending)
		}
	}
	if len(items) > 0 {
		m.do(Commit{Items: items})
	}
}

func (m *Machine) sinkEvent(ev Event) {
	switch ev := ev.(type) {
	case Applied:
		m.move(ev.Sink, ev.Cursor, ev.Verdicts)
	case Staged:
		for _, p := range ev.Pending {
			p.Attempt = m.attempt
			m.pending = append(m.pending, item{Pending: p})
		}
		m.move(ev.Sink, ev.Cursor, ev.Verdicts)
	case Committed:
		for _, done := range ev.Items {
			m.pending = slices.DeleteFunc(m.pending, func(it item) bool {
				gone := it.handed && same(it.Pending, done)
				if gone {
					m.done(&it.Pending)
				}
				return gone
			})
		}
		m.dirty = true
	}
}

// done remembers the newest work of a staging sink that was committed.
func (m *Machine) done(p *journal.Pending) {
	if twoPhase(p) && p.Epoch >= m.committed[p.Sink].Epoch {
		m.committed[p.Sink] = p.Committable
	}
}

// Committed is the newest work of a staging sink that is known as committed; false:
// there is none.
func (m *Machine) Committed(name string) (c sink.Committable, known bool) {
	c, known = m.committed[name]
	return c, known
}

func (m *Machine) move(name string, c journal.Cursor, vs []Verdict) {
	old := m.cursors[name]
	if old == nil || c.Pos.Before(old.Pos) {
		m.over(fmt.Errorf("protocol: cursor of sink %s moved back to %s", name, c.Pos))
		return
	}
	if c.Pos == old.Pos && len(vs) == 0 {
		return
	}
	m.cursors[name] = &c
	if !mutation.On(mutation.VerdictDropped) {
		m.verdicts = append(m.verdicts, vs...)
	}
	m.dirty = true
}

// trim: I8. By what the decided record lists, also where it is done since: the
// next owner begins with that record.
func (m *Machine) trim() {
	low := m.tail.Offset
	early := mutation.On(mutation.TrimEarly)
	for _, c := range m.confirmed {
		if !early {
			low = min(low, c.Offset)
		}
	}
	for _, p := range m.listed {
		if !p.Through.IsZero() && !early {
			low = min(low, p.Offset)
		}
	}
	if low > m.trimmed {
		m.trimmed = low
		m.do(Trim{Offset: low})
	}
}

func (m *Machine) list(to []journal.Pending) []journal.Pending {
	for _, it := range m.pending {
		to = append(to, it.Pending)
	}
	return to
}

func same(a, b journal.Pending) bool {
	return a.Sink == b.Sink && a.Attempt == b.Attempt && a.Through == b.Through && bytes.Equal(a.Data, b.Data)
}

// Stamp sets the time that people see in a record; the engine calls it with
// its clock before encoding.
func Stamp(r *journal.Record, now time.Time) { r.Time = now.UnixMilli() }
