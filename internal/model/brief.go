package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// brief names a record for people.
func brief(r *journal.Record) string {
	if r == nil {
		return "nothing"
	}
	s := fmt.Sprintf("R(%d) of attempt %d", r.Epoch, r.Attempt)
	if r.Claim {
		s = fmt.Sprintf("the claim of attempt %d at epoch %d", r.Attempt, r.Epoch)
	}
	if r.Sealed {
		s += ", sealed"
	}
	return s
}

func briefItem(p journal.Pending) string {
	return fmt.Sprintf("%s/%d/%d(%s,%s]%q", p.Sink, p.Attempt, p.Epoch, p.From, p.Through, p.Data)
}

func briefItems(ps []journal.Pending) string {
	var out []string
	for _, p := range ps {
		out = append(out, briefItem(p))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func briefCursors(cs map[string]*journal.Cursor) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(cs)) {
		out = append(out, fmt.Sprintf("%s:%s@%d", name, cs[name].Pos, cs[name].Offset))
	}
	return "{" + strings.Join(out, " ") + "}"
}

func briefCommitted(r *journal.Record) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.Committed)) {
		out = append(out, briefItem(journal.Pending{Committable: r.Committed[name]}))
	}
	return "{" + strings.Join(out, " ") + "}"
}

func briefRecord(r *journal.Record) string {
	if r == nil {
		return brief(nil)
	}
	return fmt.Sprintf("%s, tail %s@%d, cursors %s, pending %s, committed %s",
		brief(r), r.Tail.Pos, r.Tail.Offset, briefCursors(r.Cursors), briefItems(r.Pending), briefCommitted(r))
}

// describe is a step of a trace in a line.
func describe(what any) string {
	switch w := what.(type) {
	case *journal.Record:
		return briefRecord(w)
	case epoch.Producer:
		return "producer " + w.String()
	case epoch.Read:
		return fmt.Sprintf("read %s at %d", briefRecord(w.Record), w.Offset)
	case epoch.Resolved:
		return "resolved"
	case epoch.Claim:
		return "claim " + briefRecord(w.Record)
	case epoch.Verify:
		return "verify of " + brief(w.Claim) + " after " + brief(w.Prev)
	case epoch.Open:
		return "open at " + briefRecord(w.Record)
	case epoch.Journal:
		return fmt.Sprintf("journal %s, %d verdicts", briefRecord(w.Record), len(w.Verdicts))
	case epoch.Recover:
		return "recover " + briefItems(w.Pending)
	case epoch.Sweep:
		return "sweep but for " + briefItems(w.Keep)
	case epoch.Commit:
		return "commit " + briefItems(w.Items)
	case epoch.Committed:
		return "committed " + briefItems(w.Items)
	case epoch.Confirm:
		return "confirm " + briefCursors(w.Cursors)
	case epoch.Applied:
		return fmt.Sprintf("applied %s:%s@%d, %d verdicts", w.Sink, w.Cursor.Pos, w.Cursor.Offset, len(w.Verdicts))
	case epoch.Staged:
		return fmt.Sprintf("staged %s, cursor %s:%s@%d, %d verdicts", briefItems(w.Pending), w.Sink, w.Cursor.Pos, w.Cursor.Offset, len(w.Verdicts))
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", what, what), "epoch.")
}
