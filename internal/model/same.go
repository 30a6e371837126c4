package model

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"

	"exactly/internal/epoch"
	"exactly/internal/journal"
	"exactly/sink"
)

// sameRecord says in what two records differ as statements about the task. The
// time, the worker's and the pipeline's name are for people.
func sameRecord(got, want *journal.Record) error {
	switch {
	case got == want:
		return nil
	case got == nil || want == nil:
		return fmt.Errorf("got %s, want %s", brief(got), brief(want))
	case got.Incarnation != want.Incarnation || got.Generation != want.Generation || got.Task != want.Task:
		return fmt.Errorf("it is of incarnation %s, generation %d, task %d", got.Incarnation, got.Generation, got.Task)
	case !got.Same(want):
		return fmt.Errorf("got %s, want %s", brief(got), brief(want))
	case got.Tail != want.Tail:
		return fmt.Errorf("tail is %+v, want %+v", got.Tail, want.Tail)
	}
	if err := sameSources(got.Sources, want.Sources); err != nil {
		return err
	}
	if err := sameCursors(got.Cursors, want.Cursors); err != nil {
		return err
	}
	if !maps.EqualFunc(got.Committed, want.Committed, sameWork) {
		return fmt.Errorf("committed is %s, want %s", briefCommitted(got), briefCommitted(want))
	}
	return samePending(got.Pending, want.Pending)
}

func sameWork(a, b sink.Committable) bool {
	return a.Attempt == b.Attempt && a.Epoch == b.Epoch && bytes.Equal(a.Data, b.Data)
}

func sameSources(got, want []journal.Source) error {
	if len(got) == len(want) && (len(got) == 0 || &got[0] == &want[0] || reflect.DeepEqual(got, want)) {
		return nil
	}
	return fmt.Errorf("sources are %+v, want %+v", got, want)
}

func sameCursors(got, want map[string]*journal.Cursor) error {
	if maps.EqualFunc(got, want, func(a, b *journal.Cursor) bool { return a == b || a != nil && b != nil && *a == *b }) {
		return nil
	}
	return fmt.Errorf("cursors are %s, want %s", briefCursors(got), briefCursors(want))
}

// samePending compares two lists: the same work, each in epoch order.
func samePending(got, want []journal.Pending) error {
	for i, p := range got {
		if i > 0 && p.Epoch != 0 && p.Epoch < got[i-1].Epoch {
			return fmt.Errorf("pending work is not in epoch order: %s", briefItems(got))
		}
	}
	left := append([]journal.Pending(nil), want...)
	for _, p := range got {
		at := -1
		for i := range left {
			if sameItem(left[i], p) && left[i].Epoch == p.Epoch && left[i].Offset == p.Offset && left[i].From == p.From {
				at = i
				break
			}
		}
		if at < 0 {
			return fmt.Errorf("pending work is %s, want %s", briefItems(got), briefItems(want))
		}
		left = append(left[:at], left[at+1:]...)
	}
	if len(left) > 0 {
		return fmt.Errorf("pending work is %s, want %s", briefItems(got), briefItems(want))
	}
	return nil
}

func sameItem(a, b journal.Pending) bool {
	return a.Sink == b.Sink && a.Attempt == b.Attempt && a.Through == b.Through && bytes.Equal(a.Data, b.Data)
}

func sameVerdicts(got, want []epoch.Verdict) error {
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i].Sink == want[i].Sink && got[i].Verdict == want[i].Verdict
	}
	if same {
		return nil
	}
	return fmt.Errorf("it comes with %d verdicts, reported since the last one were %d", len(got), len(want))
}

func cloneCursors(from map[string]*journal.Cursor) map[string]*journal.Cursor {
	to := maps.Clone(from) // nobody changes a cursor, only the map
	if to == nil {
		to = map[string]*journal.Cursor{}
	}
	return to
}
