package engine

import (
	"errors"
	"testing"
	"time"

	"exactly/internal/outbox"
	"exactly/sink"
)

// I9: a sink is never given entries behind a gap, wherever in a batch it is.
func TestFeedRefusesGaps(t *testing.T) {
	t.Parallel()
	at := func(n int64) sink.Pos { return sink.Pos{Epoch: n} }
	entry := func(n, prev int64) outbox.Entry {
		return outbox.Entry{Entry: sink.Entry{Pos: at(n)}, Prev: at(prev)}
	}
	for name, c := range map[string]struct {
		entries []outbox.Entry
		gap     bool
	}{
		"contiguous":            {[]outbox.Entry{entry(2, 1), entry(3, 2), entry(5, 3)}, false},
		"first entry missing":   {[]outbox.Entry{entry(3, 2), entry(4, 3)}, true},
		"entry between missing": {[]outbox.Entry{entry(2, 1), entry(4, 3)}, true},
		"last link broken":      {[]outbox.Entry{entry(2, 1), entry(3, 2), entry(5, 4)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &feed{w: &Worker{}, most: 10, pos: at(1), held: c.entries, tail: outbox.NewTail(1, at(9))}
			if err := f.contiguous(c.entries); errors.Is(err, errOutboxGap) != c.gap {
				t.Errorf("contiguous: %v, want a gap: %t", err, c.gap)
			}
			f.tail = outbox.NewTail(1<<20, at(1))
			f.tail.Append(c.entries)
			if c.entries[0].Prev != at(1) {
				return // the tail does not reach back: it would be read from the topic
			}
			if _, err := f.next(t.Context(), time.Second); errors.Is(err, errOutboxGap) != c.gap {
				t.Errorf("next: %v, want a gap: %t", err, c.gap)
			}
		})
	}
}
