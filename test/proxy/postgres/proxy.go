package postgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"exactly/test/proxy"
)

// Message is a statement on its way to the server, or the end of the answer to it:
// that it was carried out, or an error.
type Message struct {
	SQL    string
	Answer bool
	Failed bool // of an answer: it is an error
}

// Rule says which statements, or answers to them, meet which fault.
type Rule struct {
	SQL    string // its beginning, in any case
	Answer bool   // the answer to it, and with it all that follows on the connection
	From   int    // the first one that is acted upon, counted from 1; 0: 1
	Times  int    // how many; 0: 1
	Act    proxy.Act[*Message]
}

// Armed is a rule at work.
type Armed = proxy.Armed[*Message]

// Proxy stands before one server.
type Proxy struct {
	ln     net.Listener
	server string
	rules  proxy.Rules[*Message]
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*conn]bool
	closed bool
}

// Start returns a proxy before server, host:port, that ends with the test.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{ln: ln, server: server, conns: map[*conn]bool{}}
	p.wg.Go(func() { p.accept(ctx) })
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		p.mu.Lock()
		p.closed = true
		for c := range p.conns {
			c.cut()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// Address is where clients connect.
func (p *Proxy) Address() string { return p.ln.Addr().String() }

// Add arms a rule.
func (p *Proxy) Add(r Rule) *Armed {
	want := strings.ToLower(r.SQL)
	return p.rules.Add(proxy.Rule[*Message]{
		Name: fmt.Sprintf("%q, answer %v", r.SQL, r.Answer), From: r.From, Times: r.Times, Act: r.Act,
		Match: func(m *Message) bool {
			return m.Answer == r.Answer && strings.HasPrefix(strings.ToLower(m.SQL), want)
		},
	})
}

// CutAll cuts every connection there is.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.serve(ctx, client) })
	}
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	up, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return // as if the server had refused it
	}
	defer up.Close()
	c := &conn{p: p, client: client, up: up}
	p.mu.Lock()
	closed := p.closed
	p.conns[c] = true
	p.mu.Unlock()
	if !closed {
		c.run(ctx)
	}
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// conn is one connection of a client, and its own to the server.
type conn struct {
	p          *Proxy
	client, up net.Conn

	mu     sync.Mutex
	waits  []waits // what was sent and not answered
	parsed string  // the statement that the next Execute is of
	lost   bool    // answers are not forwarded any more
}

// waits is a statement, or the end of a series: what the server answers a Sync, or
// a Query, with.
type waits struct {
	sql string
	end bool
}

func (c *conn) cut() {
	_ = c.client.Close()
	_ = c.up.Close()
}

func (c *conn) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.answers(ctx) })
	if err := c.requests(ctx); err == nil || errors.Is(err, io.EOF) {
		// The client has gone. The server learns of it when it has answered.
		if tcp, ok := c.up.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	} else {
		c.cut()
	}
	wg.Wait()
}

// frame reads a message: its type, and the whole of it.
func frame(r *bufio.Reader) (byte, []byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n < 4 || n > 1<<30 {
		return 0, nil, fmt.Errorf("a message of %d bytes", n)
	}
	b := make([]byte, 1+n)
	copy(b, head)
	_, err := io.ReadFull(r, b[5:])
	return head[0], b, err
}

// startup forwards the first message, which has no type.
func (c *conn) startup(r *bufio.Reader) error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(head))
	if n < 8 || n > 1<<16 {
		return fmt.Errorf("a start of %d bytes", n)
	}
	b := make([]byte, n)
	copy(b, head)
	if _, err := io.ReadFull(r, b[4:]); err != nil {
		return err
	}
	_, err := c.up.Write(b)
	return err
}

// requests forwards what the client sends.
func (c *conn) requests(ctx context.Context) error {
	r := bufio.NewReader(c.client)
	if err := c.startup(r); err != nil {
		return err
	}
	for {
		kind, b, err := frame(r)
		if err != nil {
			return err
		}
		m, err := c.note(kind, b[5:])
		if err != nil {
			return err
		}
		if m != nil {
			fate, err := c.p.rules.Apply(ctx, m)
			if err != nil || fate.Cut {
				c.cut()
				return err
			}
			if !fate.Forward {
				c.mu.Lock()
				c.lost = true // and nothing that follows could be understood
				c.mu.Unlock()
				continue
			}
		}
		c.mu.Lock()
		lost := c.lost
		c.mu.Unlock()
		if lost {
			continue
		}
		if _, err := c.up.Write(b); err != nil {
			return err
		}
	}
}

// note takes up what will be answered, and gives the message if it is a statement.
func (c *conn) note(kind byte, body []byte) (*Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case 'Q':
		var q pgproto3.Query
		if err := q.Decode(body); err != nil {
			return nil, err
		}
		c.waits = append(c.waits, waits{sql: q.String}, waits{end: true})
		return &Message{SQL: q.String}, nil
	case 'P':
		var q pgproto3.Parse
		if err := q.Decode(body); err != nil {
			return nil, err
		}
		c.parsed = q.Query
		return &Message{SQL: q.Query}, nil
	case 'E':
		c.waits = append(c.waits, waits{sql: c.parsed})
	case 'S':
		c.waits = append(c.waits, waits{end: true})
	}
	return nil, nil
}

// answers forwards what the server sends.
func (c *conn) answers(ctx context.Context) {
	defer c.client.Close()
	r := bufio.NewReader(c.up)
	for {
		kind, b, err := frame(r)
		if err != nil {
			return
		}
		if m := c.answered(kind); m != nil {
			fate, err := c.p.rules.Apply(ctx, m)
			if err != nil || fate.Cut {
				c.cut()
				return
			}
			if !fate.Forward {
				c.mu.Lock()
				c.lost = true
				c.mu.Unlock()
			}
		}
		c.mu.Lock()
		lost := c.lost
		c.mu.Unlock()
		if lost {
			continue
		}
		if _, err := c.client.Write(b); err != nil {
			c.cut()
			return
		}
	}
}

// answered gives the message if it ends a statement.
func (c *conn) answered(kind byte) *Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case 'C', 'I', 's', 'E': // complete, empty, suspended, an error
		if len(c.waits) == 0 || c.waits[0].end {
			return nil // a further statement of one Query, or before any
		}
		m := &Message{SQL: c.waits[0].sql, Answer: true, Failed: kind == 'E'}
		c.waits = c.waits[1:]
		if kind == 'E' { // the rest of the series is skipped
			for len(c.waits) > 0 && !c.waits[0].end {
				c.waits = c.waits[1:]
			}
		}
		return m
	case 'Z':
		for len(c.waits) > 0 {
			end := c.waits[0].end
			c.waits = c.waits[1:]
			if end {
				break
			}
		}
	}
	return nil
}
