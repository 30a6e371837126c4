package postgres

import (
	"context"
	"slices"
	"sync"

	"exactly/sink"
)

var (
	_ sink.Warmer = (*Sink)(nil)
	_ sink.Warmer = (*Staged)(nil)
)

// Warm implements sink.Warmer with the session that the task will begin with.
func (s *Sink) Warm(ctx context.Context, o sink.Owner) { s.warm(ctx, o, 1) }

// Warm implements sink.Warmer: two sessions write in turn, one ends what is prepared.
func (s *Staged) Warm(ctx context.Context, o sink.Owner) { s.s.warm(ctx, o, 3) }

// spares are sessions that were opened before it was known for which attempt of the
// task.
type spares struct {
	mu  sync.Mutex
	all map[int32][]*spare // by task
}

type spare struct {
	opened chan struct{} // closed once c is set
	c      *conn         // nil: it could not be opened, which whoever opens the task will tell
}

func (s *Sink) warm(ctx context.Context, o sink.Owner, n int) {
	var wg sync.WaitGroup
	for range n {
		x := &spare{opened: make(chan struct{})}
		s.spares.put(o.Task, x)
		wg.Go(func() {
			x.c, _ = s.connect(ctx, sessionsOf(o)+"-") // no number: nobody ends it for being older
			close(x.opened)
			<-ctx.Done()
			if s.spares.remove(o.Task, x) && x.c != nil {
				x.c.close()
			}
		})
	}
	wg.Wait()
}

func (p *spares) put(task int32, x *spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[int32][]*spare{}
	}
	p.all[task] = append(p.all[task], x)
}

// remove says whether it was still there: then it is the caller's.
func (p *spares) remove(task int32, x *spare) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.all[task], x)
	if i < 0 {
		return false
	}
	p.all[task] = slices.Delete(p.all[task], i, i+1)
	return true
}

// take gives a session of the task that is open; nil, if there is none.
func (p *spares) take(ctx context.Context, task int32) *conn {
	p.mu.Lock()
	waiting := slices.Clone(p.all[task])
	p.mu.Unlock()
	for _, x := range waiting {
		select {
		case <-x.opened:
		case <-ctx.Done():
			return nil
		}
		if p.remove(task, x) && x.c != nil {
			return x.c
		}
	}
	return nil
}

// session opens a session for the owner, or gives it one that is open.
func (s *Sink) session(ctx context.Context, o sink.Owner) (*conn, error) {
	name := sessionName(o)
	if c := s.spares.take(ctx, o.Task); c != nil {
		if err := c.exec(ctx, "SET application_name = "+literal(name)); err == nil {
			return c, nil
		}
		c.close() // the server ended it meanwhile
	}
	return s.connect(ctx, name)
}
