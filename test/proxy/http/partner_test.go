package httpproxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// partner is an API with idempotency keys, that does everything right: a key is
// executed once, its answer is kept and given again. What goes wrong goes wrong on
// the way.
type partner struct {
	*httptest.Server

	mu       sync.Mutex
	bodies   map[string][]byte // of what was executed, by key
	executed map[string]int    // by key
	requests int
	changed  chan struct{} // closed at the next request
}

func newPartner(t *testing.T) *partner {
	t.Helper()
	p := &partner{bodies: map[string][]byte{}, executed: map[string]int{}, changed: make(chan struct{})}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	close(p.changed)
	p.changed = make(chan struct{})
	first, known := p.bodies[key]
	switch {
	case r.URL.Path != "/v1/events":
		w.WriteHeader(http.StatusNotFound)
		return
	case known && !bytes.Equal(first, body):
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	case known:
		w.Header().Set("Idempotent-Replayed", "true")
	default:
		p.bodies[key] = body
		p.executed[key]++
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"payment"}`)
}

// wait returns when n requests have arrived.
func (p *partner) wait(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		got, changed := p.requests, p.changed
		p.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
