package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// partner is an HTTP API that carries out calls, once per idempotency key, and
// misbehaves as real ones do.
type partner struct {
	url  string
	srv  *http.Server
	slow time.Duration // longer than the sink's time-out
	rate uint64        // one call in so many is slow; the other faults are more frequent
	seed uint64

	mu     sync.Mutex
	calls  []executed       // in the order of execution
	keys   map[string]state // by idempotency key
	faults map[string]int   // injected, by kind
	met    map[string]bool  // keys or bodies that have had their fault
}

type executed struct {
	key  string // "": none was sent
	body []byte
}

type state int

const (
	absent state = iota
	working
	done
)

// startPartner listens on a free port of the loop-back interface.
func startPartner(seed uint64, payments int64, slow time.Duration) (*partner, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the partner's API: %w", err)
	}
	p := &partner{
		url: "http://" + ln.Addr().String(), slow: slow, seed: seed,
		rate: uint64(max(100, payments/50)), // about 50 slow calls in a long run
		keys: map[string]state{}, faults: map[string]int{}, met: map[string]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/events", p.post)
	mux.HandleFunc("GET /v1/events", p.list)
	p.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.srv.Serve(ln) }() // ends by close
	return p, nil
}

func (p *partner) close() { _ = p.srv.Close() }

// post carries out a call: the fault comes first, and each key meets one fault
// at most.
func (p *partner) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	fault := p.fault(key, body)
	if fault == "500 before execution" {
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	if fault == "409 in progress" || !p.begin(key, body) {
		http.Error(w, "in progress", http.StatusConflict)
		return
	}
	if fault == "slower than the time-out, but executed" {
		p.pause(r.Context())
	}
	p.finish(key)
	if fault == "executed, then cut" && cut(w) {
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// begin executes the call unless its key was carried out before; false: another
// call of the key is at work.
func (p *partner) begin(key string, body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key != "" {
		switch p.keys[key] {
		case working:
			return false
		case done:
			return true
		}
		p.keys[key] = working
	}
	p.calls = append(p.calls, executed{key, body})
	return true
}

func (p *partner) finish(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key != "" {
		p.keys[key] = done
	}
}

// pause holds the answer back; the key is in progress for half of that time.
func (p *partner) pause(ctx context.Context) {
	t := time.NewTimer(p.slow)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done(): // the caller has given up; the work goes on
		<-t.C
	}
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) bool {
	h, ok := w.(http.Hijacker)
	if !ok {
		return false
	}
	conn, _, err := h.Hijack()
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// fault chooses by seed and key what goes wrong with a call, "" for nothing.
func (p *partner) fault(key string, body []byte) string {
	id := key
	if id == "" {
		id = string(body)
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, strconv.FormatUint(p.seed, 10)+id)
	n := h.Sum64() >> 16 % (4 * p.rate)
	var kind string
	switch {
	case n < 4:
		kind = "slower than the time-out, but executed"
	case n < 12:
		kind = "executed, then cut"
	case n < 20:
		kind = "500 before execution"
	case n < 28:
		kind = "409 in progress"
	default:
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met[id] {
		return ""
	}
	p.met[id] = true
	p.faults[kind]++
	return kind
}

// list answers with what was executed, one JSON line per call.
func (p *partner) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	out := bufio.NewWriterSize(w, 64<<10)
	for i, c := range p.since(0) {
		key := "null"
		if c.key != "" {
			key = strconv.Quote(c.key)
		}
		if _, err := fmt.Fprintf(out, "{\"order\":%d,\"key\":%s,\"body\":%s}\n", i, key, c.body); err != nil {
			return
		}
	}
	_ = out.Flush() // the reader has gone
}

// since gives the calls from number n on; the slice is shared and only read.
func (p *partner) since(n int) []executed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[n:len(p.calls):len(p.calls)]
}

// injected gives how many faults of each kind there were.
func (p *partner) injected() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := make(map[string]int, len(p.faults))
	for k, n := range p.faults {
		m[k] = n
	}
	return m
}

var errNoID = errors.New("there is no payment_id")

// paymentID finds the id in a payment's JSON without decoding all of it.
func paymentID(body []byte) (string, error) {
	const name = `"payment_id":"`
	for i := 0; i+len(name) <= len(body); i++ {
		if string(body[i:i+len(name)]) != name {
			continue
		}
		rest := body[i+len(name):]
		for j, c := range rest {
			if c == '"' {
				return string(rest[:j]), nil
			}
		}
	}
	return "", errNoID
}
