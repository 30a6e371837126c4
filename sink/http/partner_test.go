package httpsink

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// partner is an API with idempotency keys, as the IETF draft describes it, and
// with faults: it carries out a key once, stores the answer, and can cut the
// connection, be slow, or refuse, as its script says.
type partner struct {
	*httptest.Server
	script func(q query) act // nil: carry everything out

	mu       sync.Mutex
	seen     map[string]*memory
	requests []query        // in order of arrival
	executed map[string]int // by id of the payload
	order    []string       // ids, as they were carried out
	bodies   []string       // of what was carried out, in order
	running  map[string]int // requests at work, by Kafka key in the payload
	times    map[string]int // asked, by id
	peak     int            // most requests at a time
	overlaps int            // requests of one Kafka key at a time
	conns    int            // connections opened
	closed   chan struct{}
	away     atomic.Bool // it answers nothing, and notes nothing
}

// query is one request as the partner saw it.
type query struct {
	key      string // idempotency key
	id, lane string // of the payload
	nth      int    // how often this id was asked, from 1
	body     string
	method   string
	path     string
	query    string
	host     string
	header   http.Header
	proto    string
}

// act is what the partner does with a request.
type act struct {
	refuse int           // answer this status, carry nothing out
	header http.Header   // of that answer
	body   string        // of that answer
	store  int           // carry it out, store and answer this status; 0: 201
	cut    bool          // carry it out, then cut the connection
	slow   time.Duration // carry it out, then take so long to answer
}

// memory is what the partner knows of a key.
type memory struct {
	body     string
	answered bool
	status   int
}

func newPartner(t *testing.T, script func(query) act) *partner {
	t.Helper()
	p := unstarted(script)
	p.Start()
	t.Cleanup(p.stop)
	return p
}

func unstarted(script func(query) act) *partner {
	p := &partner{
		script: script, seen: map[string]*memory{}, executed: map[string]int{},
		running: map[string]int{}, times: map[string]int{}, closed: make(chan struct{}),
	}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.conns++
		}
	}
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	return p
}

func (p *partner) stop() {
	close(p.closed)
	p.Close()
}

func (p *partner) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if p.away.Load() {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the caller went away
	}
	q := p.arrive(req, body)
	defer p.leave(q)
	var a act
	if p.script != nil {
		a = p.script(q)
	}
	if a.refuse != 0 {
		for k, v := range a.header {
			w.Header()[k] = v
		}
		w.WriteHeader(a.refuse)
		_, _ = io.WriteString(w, a.body)
		return
	}
	status, replayed := p.carryOut(q, a)
	switch {
	case replayed == "" && a.cut:
		panic(http.ErrAbortHandler)
	case replayed == "" && a.slow > 0:
		select {
		case <-time.After(a.slow):
		case <-p.closed:
		}
		p.answered(q)
	case replayed != "":
		w.Header().Set("Idempotent-Replayed", replayed)
	}
	if status == http.StatusUnprocessableEntity {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"https://partner.example/problems/idempotency-key","title":"Idempotency-Key is already used"}`)
		return
	}
	w.WriteHeader(status)
}

// arrive notes a request.
func (p *partner) arrive(req *http.Request, body []byte) query {
	var payload struct{ ID, Lane string }
	_ = json.Unmarshal(body, &payload)
	q := query{
		key: req.Header.Get("Idempotency-Key"), id: payload.ID, lane: payload.Lane, body: string(body),
		method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, host: req.Host, header: req.Header.Clone(), proto: req.Proto,
	}
	if q.id == "" {
		q.id = req.URL.Path
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[q.id]++
	q.nth = p.times[q.id]
	p.requests = append(p.requests, q)
	p.running[q.lane]++
	if q.lane != "" && p.running[q.lane] > 1 {
		p.overlaps++
	}
	n := 0
	for _, r := range p.running {
		n += r
	}
	p.peak = max(p.peak, n)
	return q
}

func (p *partner) leave(q query) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[q.lane]--
}

// carryOut gives the answer's status; replayed is not empty where nothing was
// carried out.
func (p *partner) carryOut(q query, a act) (status int, replayed string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.seen[q.key]; m != nil && q.key != "" {
		switch {
		case m.body != q.body:
			return http.StatusUnprocessableEntity, "false"
		case !m.answered:
			return http.StatusConflict, "false"
		}
		return m.status, "true"
	}
	p.executed[q.id]++
	p.order = append(p.order, q.id)
	p.bodies = append(p.bodies, q.body)
	status = a.store
	if status == 0 {
		status = http.StatusCreated
	}
	p.seen[q.key] = &memory{body: q.body, status: status, answered: a.slow == 0}
	return status, ""
}

func (p *partner) answered(q query) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[q.key].answered = true
}

// all lists the requests so far.
func (p *partner) all() []query {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// asked lists the requests for one id.
func (p *partner) asked(id string) []query {
	return slices.DeleteFunc(p.all(), func(q query) bool { return q.id != id })
}

// wantExecuted fails unless each id was carried out exactly n times.
func (p *partner) wantExecuted(t *testing.T, n int, ids ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if got := p.executed[id]; got != n {
			t.Errorf("executed %s: got %d, want %d", id, got, n)
		}
	}
}

// wantSameBytes fails unless every request for an id carried the same bytes and
// key.
func (p *partner) wantSameBytes(t *testing.T, id string, want []byte) {
	t.Helper()
	qs := p.asked(id)
	for i, q := range qs {
		if !bytes.Equal([]byte(q.body), want) {
			t.Errorf("request %d for %s: got body %q, want %q", i+1, id, q.body, want)
		}
		if q.key != qs[0].key {
			t.Errorf("request %d for %s: got key %q, want %q", i+1, id, q.key, qs[0].key)
		}
	}
}
