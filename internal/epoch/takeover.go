package epoch

import (
	"fmt"
	"maps"

	"exactly/internal/journal"
	"exactly/sink"
)

// takeover is the protocol's "Takeover": fence, read, claim, recover, sweep,
// open. Any other event than the awaited one is a bug of the caller, except
// Stop and Renew, which have nothing to do yet.
func (m *Machine) takeover(ev Event) {
	switch ev := ev.(type) {
	case Stop:
		m.stopping = true
		return
	case Renew, Moved:
		return
	case Start:
		if m.state == stIdle {
			m.state = stFenceA
			m.do(Fence{A})
			return
		}
	case Fenced:
		if m.state == stFenceA && ev.Producer == A {
			m.state = stFenceB
			m.do(Fence{B})
			return
		}
		if m.state == stFenceB && ev.Producer == B {
			m.state = stRead // I4: read only after both fences
			m.do(ReadJournal{})
			return
		}
	case Read:
		if m.state == stRead {
			m.onRead(ev)
			return
		}
	case Resolved:
		if m.state == stResolve {
			m.makeClaim(ev.Record)
			return
		}
	case Claimed:
		if m.state == stClaim {
			m.state = stVerify
			m.do(Verify{Prev: m.read, PrevOffset: m.readOffset, Claim: m.claim})
			return
		}
	case Verified:
		if m.state == stVerify {
			m.onVerified(ev)
			return
		}
	case Recovered:
		if m.state == stRecover {
			m.onRecovered()
			return
		}
	case Swept:
		if m.state == stSweep {
			m.state = stOpen
			rec := m.claim.Clone()
			rec.Pending = m.list(nil)
			m.do(Open{Record: rec})
			return
		}
	case Opened:
		if m.state == stOpen {
			m.state = stRun
			m.handOut(m.ended)
			m.trim()
			return
		}
	case Applied, Staged, Committed:
		if m.state == stOpen { // a sink that is opened may report at once
			m.sinkEvent(ev)
			return
		}
	}
	m.unexpected(ev)
}

func (m *Machine) onRead(ev Read) {
	m.read, m.readOffset = ev.Record, ev.Offset
	if r := ev.Record; r != nil {
		switch {
		case r.Incarnation != m.cfg.Incarnation || r.Generation != m.cfg.Generation || r.Task != m.cfg.Task:
			m.over(fmt.Errorf("the journal of %s generation %d task %d holds a record of incarnation %s, generation %d, task %d",
				m.cfg.Pipeline, m.cfg.Generation, m.cfg.Task, r.Incarnation, r.Generation, r.Task))
			return
		case r.Sealed && !m.cfg.Seal:
			m.over(ErrSealed)
			return
		}
		m.makeClaim(r)
		return
	}
	m.state = stResolve
	m.do(ResolveStart{})
}

// makeClaim carries over everything that was read, under the next attempt.
func (m *Machine) makeClaim(from *journal.Record) {
	c := from.Clone()
	c.Format, c.Incarnation, c.Pipeline = journal.Format, m.cfg.Incarnation, m.cfg.Pipeline
	c.Generation, c.Task, c.Worker = m.cfg.Generation, m.cfg.Task, m.cfg.Worker
	c.Claim, c.Sealed = true, m.cfg.Seal
	c.Attempt = 1
	if m.read != nil {
		c.Attempt = m.read.Attempt + 1
	} else {
		c.Epoch, c.Pending, c.Committed = 0, nil, nil
	}
	m.addMissingCursors(c)
	m.claim, m.attempt = c, c.Attempt
	m.state = stClaim
	m.do(Claim{Record: c})
}

// addMissingCursors starts sinks that were added to the pipeline at the current
// end of the outbox. Sinks that are gone keep their cursor, and with it their
// hold on the outbox, until they are removed by command.
func (m *Machine) addMissingCursors(c *journal.Record) {
	for _, name := range m.cfg.Outbox {
		if c.Cursors[name] == nil {
			c.Cursors[name] = &journal.Cursor{Pos: c.Tail.Pos, Offset: c.Tail.Offset, Bytes: c.Tail.Bytes, Fresh: true}
		}
	}
}

func (m *Machine) onVerified(ev Verified) {
	if !ev.Undisturbed {
		m.over(ErrDisturbed)
		return
	}
	c := m.claim
	m.ended, m.next = c.Epoch, c.Epoch+1
	m.sources, m.tail, m.listed = c.Sources, c.Tail, c.Pending
	m.confirmed, m.committed = map[string]*journal.Cursor{}, map[string]sink.Committable{}
	maps.Copy(m.committed, c.Committed)
	for k, v := range c.Cursors {
		cur, con := *v, *v
		m.cursors[k], m.confirmed[k] = &cur, &con
	}
	staging := []journal.Pending{}
	for _, p := range c.Pending {
		isStaging := p.Through.IsZero()
		m.pending = append(m.pending, item{Pending: p, listedBy: p.Epoch, handed: isStaging})
		if isStaging {
			staging = append(staging, p)
		}
	}
	m.state = stRecover
	m.do(Recover{Pending: staging})
}

// onRecovered drops what Recover has committed, then asks for the sweep.
func (m *Machine) onRecovered() {
	kept := m.pending[:0]
	for _, it := range m.pending {
		if it.handed {
			m.done(&it.Pending)
			m.dirty = true
			continue
		}
		kept = append(kept, it)
	}
	m.pending = kept
	m.state = stSweep
	m.do(Sweep{Keep: m.list(nil)})
}
