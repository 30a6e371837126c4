package engine

import (
	"context"
	"sync"
)

// queue hands work from the loop to a goroutine beside it without ever blocking
// the loop. Its length is bounded by what the loop lets in.
type queue[T any] struct {
	mu    *sync.Mutex
	items *[]T
	wake  chan struct{}
}

func newQueue[T any]() queue[T] {
	return queue[T]{mu: new(sync.Mutex), items: new([]T), wake: make(chan struct{}, 1)}
}

func (q queue[T]) add(v T) {
	q.mu.Lock()
	*q.items = append(*q.items, v)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q queue[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(*q.items)
}

// next blocks until there is an item; false: ctx ended.
func (q queue[T]) next(ctx context.Context) (T, bool) {
	for {
		q.mu.Lock()
		if len(*q.items) > 0 {
			v := (*q.items)[0]
			*q.items = (*q.items)[1:]
			q.mu.Unlock()
			return v, true
		}
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-ctx.Done():
			var zero T
			return zero, false
		}
	}
}
