package object

import (
	"crypto/rand"
	"encoding/hex"
	"path"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/object/encode"
)

// start opens a file with its first record; if that is refused, there is none.
func (t *task) start(folder string, r *record.Record) error {
	g := t.group
	p := &part{folder: folder, number: g.parts}
	p.enc = t.s.format.New(&p.spool)
	if err := p.enc.Add(r); err != nil {
		return err
	}
	g.parts++
	g.cost += partCost(t.owner, folder)
	g.open = append(g.open, p)
	return nil
}

// roll ends files and the group where a limit is reached.
func (t *task) roll() error {
	if err := t.flush(); err != nil {
		return err
	}
	g, c := t.group, &t.s.config
	if n := len(g.open); n > 0 {
		if err := t.rollPart(g.open[n-1]); err != nil {
			return err
		}
	}
	if len(g.open) > c.MaxOpen {
		if err := t.end(g.open[0]); err != nil {
			return err
		}
	}
	full := len(g.done) > 0
	if t.s.parts != nil {
		full = g.bytes/int64(c.MaxOpen) >= c.Roll.Size
	}
	if full || g.cost >= maxCost || g.verdicts >= maxVerdicts {
		return t.seal()
	}
	return nil
}

// rollPart ends a file that has its size. What is held back counts as if it
// were not packed, so it is flushed before the judgement; a file that then
// comes close is not filled up by tiny row groups.
func (t *task) rollPart(p *part) error {
	size := t.s.config.Roll.Size
	if p.size() < size {
		return nil
	}
	if p.enc.Buffered() > 0 {
		if err := p.enc.Flush(); err != nil {
			return t.fatal(err)
		}
		if p.size() < size-size/8 {
			return nil
		}
	}
	return t.end(p)
}

// flush keeps what the encoders hold back within the budget.
func (t *task) flush() error {
	for {
		var sum, most int64
		var largest *part
		for _, p := range t.group.open {
			n := p.enc.Buffered()
			sum += n
			if n > most {
				most, largest = n, p
			}
		}
		if sum <= rowBudget {
			return nil
		}
		if err := largest.enc.Flush(); err != nil {
			return t.fatal(err)
		}
	}
}

// end ends a file at what is taken in now.
func (t *task) end(p *part) error {
	o, g := t.owner, t.group
	meta := encode.Meta{
		Incarnation: o.Incarnation, Pipeline: o.Pipeline, Sink: o.Sink,
		Generation: o.Generation, Task: o.Task, From: g.from, Through: t.taken,
	}
	name := Name{
		Pipeline: o.Pipeline, Sink: o.Sink, Generation: o.Generation, Task: o.Task, Incarnation: o.Incarnation,
		From: g.from, Through: t.taken, Part: p.number, Nonce: g.nonce, Ext: t.s.format.Ext(),
	}
	if err := g.close(p, meta, path.Join(p.folder, name.String())); err != nil {
		return t.fatal(err)
	}
	t.ended = append(t.ended, p)
	return nil
}

// seal ends the group at what is taken in now, and begins the next one.
func (t *task) seal() error {
	g := t.group
	for len(g.open) > 0 {
		if err := t.end(g.open[0]); err != nil {
			return err
		}
	}
	g.through = t.taken
	t.sealed = append(t.sealed, g)
	t.group = t.newGroup()
	return nil
}

func (t *task) newGroup() *group {
	g := &group{from: t.taken}
	if t.owner.Guarantee == sink.AtLeastOnce {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		g.nonce = hex.EncodeToString(b[:])
	}
	return g
}

// fatal remembers an error after which the collected content cannot be trusted:
// the attempt ends, and the next one collects again.
func (t *task) fatal(err error) error {
	if err == nil {
		return nil
	}
	t.broken = sink.Fatal(err)
	return t.broken
}
