//go:build services

package rig

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Partner is a server with idempotency keys, as partners document them, that
// misbehaves as partners do. It lives in the test process, which nobody kills.
type Partner struct {
	url  string
	Down atomic.Bool // every connection is cut

	mu      sync.Mutex
	calls   []Call            // executed, in their order
	bodies  map[string][]byte // of the first call of a key
	working map[string]bool
	faulty  map[string]bool        // keys that had their fault
	faults  map[string]int         // injected, by kind
	altered int                    // a key came again with another body
	cuts    int                    // calls while down
	calmed  bool                   // no faults any more
	Poison  func(body []byte) bool // refused for good; nil: nothing is
}

// Call is one that the partner has executed.
type Call struct{ Key, Body []byte }

// slowCall is longer than the time-out of the pipeline's sink.
const slowCall = 1500 * time.Millisecond

func newPartner(t *testing.T) *Partner {
	p := &Partner{bodies: map[string][]byte{}, working: map[string]bool{}, faulty: map[string]bool{}, faults: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/events", p.post)
	mux.HandleFunc("GET /v1/events", p.list)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.CloseClientConnections() // of workers that were killed
		srv.Close()
	})
	p.url = srv.URL
	return p
}

// The faults. One key meets one of them, once.
const (
	noFault   = ""
	lateFault = "executed, answered after the client's time-out"
	cutFault  = "executed, connection cut"
	failFault = "500, not executed"
	busyFault = "409 in progress, not executed"
)

// fault chooses by the key, so that it does not depend on time: two in a
// hundred keys meet one, and one of these in five is slow.
func (p *Partner) fault(key string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	n := h.Sum64() >> 8 % 250
	kinds := []string{lateFault, cutFault, failFault, busyFault, cutFault}
	p.mu.Lock()
	defer p.mu.Unlock()
	if key == "" || n >= uint64(len(kinds)) || p.faulty[key] || p.calmed {
		return noFault
	}
	p.faulty[key] = true
	p.faults[kinds[n]]++
	return kinds[n]
}

func (p *Partner) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller was killed
	}
	if p.Down.Load() {
		p.mu.Lock()
		p.cuts++
		p.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	key := r.Header.Get("Idempotency-Key")
	f := p.fault(key)
	switch f {
	case failFault:
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	case busyFault:
		http.Error(w, "in progress", http.StatusConflict)
		return
	}
	if p.Poison != nil && p.Poison(body) {
		http.Error(w, "no such merchant", http.StatusBadRequest)
		return
	}
	if !p.execute(key, body) {
		http.Error(w, "in progress", http.StatusConflict)
		return
	}
	if f == lateFault {
		<-time.After(slowCall) // the fault itself
	}
	p.mu.Lock()
	delete(p.working, key)
	p.mu.Unlock()
	if f == cutFault {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

// execute carries a call out unless its key was; false: it is at work.
func (p *Partner) execute(key string, body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key != "" {
		first, known := p.bodies[key]
		switch {
		case p.working[key]:
			return false
		case known && !bytes.Equal(first, body):
			p.altered++
			return true
		case known:
			return true
		}
		p.bodies[key], p.working[key] = body, true
	}
	p.calls = append(p.calls, Call{[]byte(key), body})
	return true
}

// list answers with what was executed, as the audit reads it.
func (p *Partner) list(w http.ResponseWriter, _ *http.Request) {
	for _, c := range p.Since(0) {
		key := "null"
		if len(c.Key) > 0 {
			key = fmt.Sprintf("%q", c.Key)
		}
		fmt.Fprintf(w, "{\"key\":%s,\"body\":%s}\n", key, c.Body)
	}
}

// Since gives the executed calls from number n on.
func (p *Partner) Since(n int) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[n:len(p.calls):len(p.calls)]
}

// Edit changes what the partner says that it has executed.
func (p *Partner) Edit(f func([]Call) []Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = f(p.calls)
}

// Calm ends the faults, so that what is left is done soon.
func (p *Partner) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calmed = true
}

// CutWhileDown is how many calls came while the partner was down.
func (p *Partner) CutWhileDown() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Verify wants every key executed once, always with the same body, and that
// there were faults of every kind.
func (p *Partner) Verify(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	times := map[string]int{}
	for _, c := range p.calls {
		times[string(c.Key)]++
	}
	for key, n := range times {
		if key == "" || n != 1 {
			t.Errorf("partner: key %q was executed %d times", key, n)
		}
	}
	if p.altered > 0 {
		t.Errorf("partner: %d calls came with the key of another body", p.altered)
	}
	for _, kind := range []string{lateFault, cutFault, failFault, busyFault} {
		if p.faults[kind] == 0 {
			t.Errorf("partner: no fault of the kind %q was injected", kind)
		}
	}
	t.Logf("partner: %d calls executed; faults: %v", len(p.calls), p.faults)
}
