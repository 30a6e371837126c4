package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// outputs reads the output topic as any consumer would, and measures from each
// kill how long it takes until there is output again.
type outputs struct {
	cl    *kgo.Client
	x     *index
	feed  *topicFeed
	tasks int

	mu    sync.Mutex
	waits []*recovery
}

// recovery is the time from a moment to new outputs: of any task, and of every
// task. Only records that were not decided at the moment count.
type recovery struct {
	from  time.Time
	marks map[int32]int64 // committed source offsets at the moment
	first time.Duration   // 0: none yet
	tasks map[int]time.Duration
	all   chan struct{} // closed when every task has had one
}

func newOutputs(c *cluster, x *index, tasks int) (*outputs, error) {
	cl, err := kgo.NewClient(append(c.opts(),
		kgo.ConsumeTopics(c.out), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("read the output topic: %w", err)
	}
	return &outputs{cl: cl, x: x, feed: &topicFeed{}, tasks: tasks}, nil
}

func (o *outputs) run(ctx context.Context) {
	defer o.cl.Close()
	for ctx.Err() == nil {
		fs := o.cl.PollFetches(ctx) // its errors are retried by the client
		now := time.Now()
		fs.EachRecord(func(r *kgo.Record) {
			id := string(r.Key)
			o.feed.add(id)
			o.note(id, now)
		})
	}
}

func (o *outputs) note(id string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waits) == 0 {
		return
	}
	at, ok := o.x.locate(id)
	if !ok {
		return
	}
	open := o.waits[:0]
	for _, w := range o.waits {
		if at.Offset >= w.marks[at.Partition] {
			task := int(at.Partition) % o.tasks
			if w.first == 0 {
				w.first = now.Sub(w.from)
			}
			if _, ok := w.tasks[task]; !ok {
				w.tasks[task] = now.Sub(w.from)
			}
			if len(w.tasks) == o.tasks {
				close(w.all)
				continue
			}
		}
		open = append(open, w)
	}
	o.waits = open
}

// after begins to measure. marks are the committed offsets.
func (o *outputs) after(from time.Time, marks map[int32]int64) *recovery {
	r := &recovery{from: from, marks: marks, tasks: map[int]time.Duration{}, all: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = append(o.waits, r)
	return r
}

// measured gives the time to the first output, and to that of the slowest task;
// 0 where there was none.
func (o *outputs) measured(r *recovery) (first, every time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(r.tasks) == o.tasks {
		for _, d := range r.tasks {
			every = max(every, d)
		}
	}
	return r.first, every
}
