//go:build synctests

package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// host is one worker's side of the network: everything between its clients and
// the brokers passes here, request by request.
type host struct {
	w    *world
	name string

	mu    sync.Mutex
	state hostState
	died  time.Time
	moved chan struct{} // closed and replaced when state changes
	conns []net.Conn    // in their order: a map of pointers has none that replays
	rules []*rule
	deaf  bool // the next answer to a heartbeat is late
}

type hostState int

const (
	up hostState = iota
	frozen
	dead
)

// errDead is what a dead process's calls get, which nobody hears any more.
var errDead = errors.New("the process is dead")

// fault is what becomes of a message.
type fault string

// The faults of the network.
const (
	dropRequest fault = "drop request"  // it never arrives
	dropAnswer  fault = "drop answer"   // it is carried out, the client hears nothing
	cutBefore   fault = "cut before"    // the connection breaks in its place
	cutAfter    fault = "cut after"     // the connection breaks after it arrived
	delayIt     fault = "delay request" // it arrives late, and all behind it
	delayAnswer fault = "delay answer"  // its answer does
	repeatIt    fault = "repeat"        // it arrives twice, the second answer is lost
	lieAbout    fault = "rewrite"       // carried out, answered with UNKNOWN_SERVER_ERROR
)

// rule is one fault for the n-th request of a kind from now on.
type rule struct {
	key   int16
	nth   int
	fault fault
	delay time.Duration
	done  bool
}

func newHost(w *world, name string) *host {
	return &host{w: w, name: name, moved: make(chan struct{})}
}

func (h *host) set(s hostState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == dead || h.state == s {
		return
	}
	h.state = s
	close(h.moved)
	h.moved = make(chan struct{})
	if s == dead {
		h.died = time.Now()
		for _, c := range h.conns {
			_ = c.Close()
		}
	}
}

// gate lets a living process pass and holds a frozen one.
func (h *host) gate(ctx context.Context) error {
	for {
		h.mu.Lock()
		s, moved := h.state, h.moved
		h.mu.Unlock()
		switch s {
		case up:
			return nil
		case dead:
			return errDead
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *host) arm(r rule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = append(h.rules, &r)
}

// deafen delays the answer to the heartbeat that is under way, or comes next: a
// client sends no other one before it.
func (h *host) deafen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = true
}

// slowAnswer is how long a deaf host waits for the answer to its heartbeat.
const slowAnswer = 4 * time.Second

// hears reports whether the answer to a request comes at once.
func (h *host) hears(key int16) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key != int16(kmsg.Heartbeat) || !h.deaf {
		return true
	}
	h.deaf = false
	return false
}

// meet finds the fault for a request.
func (h *host) meet(key int16) (rule, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rules {
		if r.key != key || r.done {
			continue
		}
		if r.nth--; r.nth <= 0 {
			r.done = true
			return *r, true
		}
	}
	return rule{}, false
}

// dial is the Dialer of a worker's clients.
func (h *host) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := h.gate(ctx); err != nil {
		return nil, err
	}
	server, err := h.w.stack.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	h.mu.Lock()
	h.conns = append(h.conns, near, server)
	isDead := h.state == dead
	h.mu.Unlock()
	l := &link{h: h, near: near, server: server, asked: map[int32]asked{}, gone: make(chan struct{})}
	if isDead {
		l.close()
		return nil, errDead
	}
	go l.requests()
	go l.answers()
	return client, nil
}

// link is one connection.
type link struct {
	h            *host
	near, server net.Conn
	once         sync.Once
	gone         chan struct{}

	mu    sync.Mutex
	asked map[int32]asked // by correlation id
}

type asked struct {
	key, version int16
	r            rule
	swallow      bool // the answer to a repetition comes too
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.near.Close()
		_ = l.server.Close()
		l.h.mu.Lock()
		l.h.conns = slices.DeleteFunc(l.h.conns, func(c net.Conn) bool { return c == l.near || c == l.server })
		l.h.mu.Unlock()
	})
}

func (l *link) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.gone:
	}
}

func (l *link) requests() {
	defer l.close()
	for {
		frame, err := readFrame(l.near)
		if err != nil || len(frame) < 12 || l.h.gate(context.Background()) != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
		id := int32(binary.BigEndian.Uint32(frame[8:]))
		l.h.w.asked(l.h, key, len(frame))
		switch req := request(frame, key, version).(type) {
		case *kmsg.InitProducerIDRequest:
			if req.TransactionalID != nil && req.ProducerID < 0 { // it does not say which epoch it has
				l.h.w.watch.takesID(l.h, *req.TransactionalID)
			}
		case *kmsg.EndTxnRequest:
			if req.Commit {
				l.h.w.watch.ends(l.h, req.TransactionalID)
			}
		}
		r, hit := l.h.meet(key)
		if hit {
			if r.fault != lieAbout { // which may find nothing to rewrite
				l.h.w.met(r.fault)
			}
			switch r.fault {
			case dropRequest:
				continue
			case cutBefore:
				return
			case delayIt:
				l.wait(r.delay)
				if l.h.gate(context.Background()) != nil {
					return
				}
			}
		}
		l.mu.Lock()
		l.asked[id] = asked{key: key, version: version, r: r, swallow: r.fault == repeatIt}
		l.mu.Unlock()
		if _, err := l.server.Write(frame); err != nil {
			return
		}
		switch r.fault {
		case cutAfter:
			return
		case repeatIt:
			if _, err := l.server.Write(frame); err != nil {
				return
			}
		}
	}
}

func (l *link) answers() {
	defer l.close()
	for {
		frame, err := readFrame(l.server)
		if err != nil || len(frame) < 8 {
			return
		}
		id := int32(binary.BigEndian.Uint32(frame[4:]))
		l.mu.Lock()
		a, known := l.asked[id]
		if a.swallow {
			l.asked[id] = asked{r: rule{fault: dropAnswer}}
		} else {
			delete(l.asked, id)
		}
		l.mu.Unlock()
		if l.h.gate(context.Background()) != nil {
			return
		}
		if known && !l.h.hears(a.key) {
			l.wait(slowAnswer)
		}
		switch {
		case !known || a.r.fault == dropAnswer:
			continue
		case a.r.fault == delayAnswer:
			l.wait(a.r.delay)
		case a.r.fault == lieAbout:
			if frame, err = lie(frame, a); err != nil {
				l.h.w.log.Error("an answer cannot be rewritten", "key", a.key, "err", err)
				return
			}
			l.h.w.met(lieAbout)
		}
		if _, err := l.near.Write(frame); err != nil {
			return
		}
	}
}

// readFrame reads one message with its length.
func readFrame(c net.Conn) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(n[:]))
	copy(frame, n[:])
	_, err := io.ReadFull(c, frame[4:])
	return frame, err
}

// request reads those that the watcher looks at; nil: it is another, or cannot
// be read.
func request(frame []byte, key, version int16) kmsg.Request {
	if key != int16(kmsg.InitProducerID) && key != int16(kmsg.EndTxn) {
		return nil
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	head := 12
	if n := int16(binary.BigEndian.Uint16(frame[head:])); n > 0 {
		head += int(n) // the client's id
	}
	head += 2
	if req.IsFlexible() {
		head++ // no tags
	}
	if req.ReadFrom(frame[min(head, len(frame)):]) != nil {
		return nil
	}
	return req
}

// lie puts an error into an answer: what happened stays as it is.
func lie(frame []byte, a asked) ([]byte, error) {
	resp := kmsg.ResponseForKey(a.key)
	if resp == nil {
		return nil, fmt.Errorf("no answer of kind %d", a.key)
	}
	resp.SetVersion(a.version)
	head := 8
	if resp.IsFlexible() && a.key != int16(kmsg.ApiVersions) {
		head++ // no tags
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, err
	}
	if fail(reflect.ValueOf(resp)) == 0 {
		return nil, errors.New("it has no place for an error")
	}
	out := resp.AppendTo(append([]byte(nil), frame[:head]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// fail puts UNKNOWN_SERVER_ERROR wherever an answer has room for an error, and
// counts the places.
func fail(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += fail(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += fail(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case v.Type().Field(i).Name == "ErrorCode" && f.Kind() == reflect.Int16:
				f.SetInt(int64(kerr.UnknownServerError.Code))
				n++
			case f.CanSet():
				n += fail(f)
			}
		}
	}
	return n
}

// deadFor is how long the process has been dead; 0: it lives.
func (h *host) deadFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != dead {
		return 0
	}
	return time.Since(h.died)
}

func (h *host) isDead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == dead
}
