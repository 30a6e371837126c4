package postgres

import (
	"slices"
	"sort"

	"exactly/sink"
)

// arrangement makes groups of what items write. Rows that are appended keep the
// order of the source. A statement cannot write a row twice, so the n-th write of
// each key goes into the n-th round; rounds are executed in order, and within one
// there is nothing to keep in order.
//
// With several tables, parents come before their children when rows are written,
// and children before their parents when they are removed. A change from one to
// the other is a phase, which nothing crosses.
type arrangement struct {
	w      *writer
	phased bool
	phase  int
	remove bool // what the phase does
	lanes  []lane
	groups []*group
}

// lane is where one table stands within the phase.
type lane struct {
	round map[string]int // by key: how many writes of it came
	open  map[place]*group
	base  int // no write goes into an earlier round
	last  int // the highest round so far
	shape *shape
	run   *group // of what is appended, or of statements
}

// place is what one statement takes: the rows of a shape in a round.
type place struct {
	round int
	shape *shape
}

func (w *writer) arrange(items []item) []*group {
	a := &arrangement{w: w, phased: len(w.plans) > 1 || len(w.plans) == 1 && w.plans[0].x.Each != nil}
	a.next()
	for i := range items {
		it := &items[i]
		if a.phased && it.remove != a.remove {
			a.phase, a.remove = a.phase+1, it.remove
			a.next()
		}
		for j := range it.writes {
			a.add(it.pos, &it.writes[j])
		}
	}
	slices.SortStableFunc(a.groups, func(g, h *group) int { return g.at.compare(h.at) })
	for _, g := range a.groups {
		if g.keys != nil && !g.inTurn {
			sort.Sort(g)
		}
	}
	return a.groups
}

func (a *arrangement) next() {
	a.lanes = make([]lane, max(1, len(a.w.plans)))
	for i := range a.lanes {
		a.lanes[i] = lane{round: map[string]int{}, open: map[place]*group{}}
	}
}

func (a *arrangement) add(pos sink.Pos, wr *write) {
	l := &a.lanes[wr.table]
	at := turn{phase: a.phase, rank: wr.table}
	if a.remove {
		at.rank = len(a.w.plans) - wr.table
	}
	var p *plan
	if len(a.w.plans) > 0 {
		p = a.w.plans[wr.table]
	}
	switch {
	case p == nil:
		if l.run == nil {
			l.run = a.group(&group{sql: a.w.s.cfg.Statement, each: true})
		}
		l.run.take(pos, wr.vals)
	case p.mode == modeAppend:
		if l.run == nil || l.shape != wr.shape {
			l.run, l.shape = a.group(&group{sql: wr.shape.sql, types: wr.shape.types, copy: p.copyFrom(wr.shape.cols), at: at}), wr.shape
		}
		l.run.take(pos, wr.vals)
	default:
		g := a.round(l, p, at, wr)
		g.take(pos, wr.vals)
		g.keys = append(g.keys, wr.key)
	}
}

func (a *arrangement) group(g *group) *group {
	a.groups = append(a.groups, g)
	return g
}

// round finds the group for a write of a key.
func (a *arrangement) round(l *lane, p *plan, at turn, wr *write) *group {
	if p.inTurn && wr.shape != l.shape {
		l.base, l.shape = l.last+1, wr.shape
	}
	n := max(l.round[wr.key], l.base)
	l.round[wr.key] = n + 1
	l.last = max(l.last, n)
	at.round = n
	g := l.open[place{n, wr.shape}]
	if g == nil {
		g = a.group(&group{sql: wr.shape.sql, types: wr.shape.types, at: at, inTurn: p.inTurn})
		l.open[place{n, wr.shape}] = g
	}
	return g
}

func (g *group) take(pos sink.Pos, vals [][]byte) {
	g.vals, g.pos = append(g.vals, vals), append(g.pos, pos)
}

// Sorted by key, the rows of a statement are locked in the same order by all tasks.
func (g *group) Len() int           { return len(g.pos) }
func (g *group) Less(i, j int) bool { return g.keys[i] < g.keys[j] }
func (g *group) Swap(i, j int) {
	g.vals[i], g.vals[j] = g.vals[j], g.vals[i]
	g.pos[i], g.pos[j] = g.pos[j], g.pos[i]
	g.keys[i], g.keys[j] = g.keys[j], g.keys[i]
}
