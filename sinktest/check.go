package sinktest

import (
	"fmt"
	"sort"
	"strings"
)

// must ends the scenario on an error.
func (w *world) must(err error, what string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// started is start for scenarios in which it has to work.
func (l *lane) started() *process {
	l.w.t.Helper()
	p, err := l.start(nil)
	l.w.must(err, "take over")
	return p
}

// finish takes every lane over once more, brings it to its end and checks.
func (w *world) finish() {
	w.t.Helper()
	for _, l := range w.lanes {
		p := l.started()
		w.must(p.advance(), "bring the task to its end")
	}
	w.check()
}

// check demands that an ordinary reader sees every decided record exactly
// once, in order, and that every refused record has one verdict.
func (w *world) check() {
	w.t.Helper()
	w.checkRows(w.want())
	for _, l := range w.lanes {
		l.checkDead()
	}
}

// want is every effect that there has to be, in the order of each key.
func (w *world) want() []Row {
	var rows []Row
	for _, l := range w.lanes {
		for _, it := range l.log {
			if !it.mine || it.poison {
				continue
			}
			rows = append(rows, Row{ID: it.spec.ID, Value: it.spec.Value, Extra: it.spec.Extra})
			if it.spec.Tombstone {
				rows[len(rows)-1].Writes = -1
			}
		}
	}
	return rows
}

// checkRows compares what is there with the effects wanted; one with Writes -1
// is a delete.
func (w *world) checkRows(effects []Row) {
	w.t.Helper()
	got, want := byID(w.target.Read(w.t)), map[string][]Row{}
	for _, r := range effects {
		switch {
		case r.Writes < 0:
			delete(want, r.ID)
		case w.feat.Keyless:
			want[r.ID] = append(want[r.ID], r)
		default:
			n := int64(1)
			if old := want[r.ID]; len(old) > 0 {
				n = old[0].Writes + 1
			}
			r.Writes = n
			want[r.ID] = []Row{r}
		}
	}
	var diffs []string
	for id := range union(got, want) {
		if d := differ(got[id], want[id]); d != "" {
			diffs = append(diffs, id+": "+d)
		}
	}
	sort.Strings(diffs)
	if n := len(diffs); n > 0 {
		w.t.Errorf("%d of %d keys are wrong:\n\t%s", n, len(want), strings.Join(diffs[:min(n, 8)], "\n\t"))
	}
}

func byID(rows []Row) map[string][]Row {
	m := map[string][]Row{}
	for _, r := range rows {
		m[r.ID] = append(m[r.ID], r)
	}
	return m
}

func union(a, b map[string][]Row) map[string]struct{} {
	u := map[string]struct{}{}
	for id := range a {
		u[id] = struct{}{}
	}
	for id := range b {
		u[id] = struct{}{}
	}
	return u
}

// differ says in words how the rows of one key differ, "" if they do not.
func differ(got, want []Row) string {
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		g, w := got[i], want[i]
		same = g.Value == w.Value && g.Extra == w.Extra
		if same && g.Writes > 0 && w.Writes > 0 && g.Writes != w.Writes {
			return fmt.Sprintf("written %d times, want %d", g.Writes, w.Writes)
		}
	}
	switch {
	case same:
		return ""
	case len(got) < len(want):
		return fmt.Sprintf("missing: got %v, want %v", got, want)
	case len(got) > len(want):
		return fmt.Sprintf("too many: got %v, want %v", got, want)
	}
	return fmt.Sprintf("wrong value or order: got %v, want %v", got, want)
}

// checkDead demands one verdict per refused record and none else.
func (l *lane) checkDead() {
	l.w.t.Helper()
	want := 0
	for _, it := range l.log {
		if !it.poison {
			continue
		}
		want++
		if _, ok := l.j.Dead[it.Pos.String()]; !ok {
			l.w.t.Errorf("refused record %s at %s has no verdict", it.spec.ID, it.Pos)
		}
	}
	if got := len(l.j.Dead); got != want {
		l.w.t.Errorf("%d verdicts, want %d: %v", got, want, l.j.Dead)
	}
}

// sees compares the number of visible rows.
func (w *world) sees(n int, when string) {
	w.t.Helper()
	if got := len(w.target.Read(w.t)); got != n {
		w.t.Errorf("%s a reader sees %d rows, want %d", when, got, n)
	}
}
