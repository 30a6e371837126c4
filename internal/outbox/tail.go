package outbox

import (
	"sync"

	"exactly/sink"
)

// Tail holds the newest decided entries of a task, in order and without a gap,
// up to a number of bytes: the oldest epochs go first. It never holds up the
// engine: a sink that lags reads the outbox topic instead.
type Tail struct {
	limit int64

	mu    sync.Mutex
	runs  []run
	bytes int64
	head  sink.Pos // of the last decided entry, held or not
	wake  chan struct{}
}

// entryOverhead is what an entry costs in memory beside its record's bytes.
const entryOverhead = 200

type run struct {
	entries []Entry
	bytes   int64
}

// NewTail starts behind head and holds at most limit bytes, but always the
// newest epoch.
func NewTail(limit int64, head sink.Pos) *Tail {
	return &Tail{limit: limit, head: head, wake: make(chan struct{})}
}

// Append adds the entries of a decided epoch. The slice belongs to the Tail.
func (t *Tail) Append(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := run{entries: entries}
	for i := range entries {
		r.bytes += int64(entries[i].Size() + entryOverhead)
	}
	t.runs = append(t.runs, r)
	t.bytes += r.bytes
	t.head = entries[len(entries)-1].Pos
	for len(t.runs) > 1 && t.bytes > t.limit {
		t.bytes -= t.runs[0].bytes
		t.runs[0] = run{}
		t.runs = t.runs[1:]
	}
	close(t.wake)
	t.wake = make(chan struct{})
}

// Forget drops what every sink has passed.
func (t *Tail) Forget(through sink.Pos) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.runs) > 0 {
		es := t.runs[0].entries
		if through.Before(es[len(es)-1].Pos) {
			return
		}
		t.bytes -= t.runs[0].bytes
		t.runs[0] = run{}
		t.runs = t.runs[1:]
	}
}

// Head is the place of the last decided entry.
func (t *Tail) Head() sink.Pos {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// Held is how many bytes the Tail holds, of how many epochs.
func (t *Tail) Held() (bytes int64, epochs int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes, len(t.runs)
}

// From gives entries behind pos: part of one epoch's, at most max and about
// maxBytes. ok is false where the Tail does not reach back to pos: the caller
// reads the topic. No entries with ok: nothing is behind pos yet; wake is
// closed when there is.
func (t *Tail) From(pos sink.Pos, maxEntries, maxBytes int) (es []Entry, wake <-chan struct{}, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !pos.Before(t.head) {
		return nil, t.wake, true
	}
	if len(t.runs) == 0 || pos.Before(t.runs[0].entries[0].Prev) {
		return nil, t.wake, false
	}
	for _, r := range t.runs {
		last := r.entries[len(r.entries)-1]
		if !pos.Before(last.Pos) {
			continue
		}
		i := 0
		for !pos.Before(r.entries[i].Pos) {
			i++
		}
		return cut(r.entries[i:], maxEntries, maxBytes), t.wake, true
	}
	return nil, t.wake, true
}

func cut(es []Entry, maxEntries, maxBytes int) []Entry {
	n, size := 0, 0
	for n < len(es) && n < maxEntries && (n == 0 || size < maxBytes) {
		size += es[n].Size()
		n++
	}
	return es[:n]
}
