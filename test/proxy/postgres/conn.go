package postgres

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// conn is one connection of a client, and its own to the server.
type conn struct {
	p          *Proxy
	client, up net.Conn

	mu    sync.Mutex
	waits []waits           // what was sent and not answered
	named map[string]string // statements that were parsed
	bound string            // the one that the next Execute is of
	lost  bool              // nothing is forwarded any more, in either direction

	skips bool // by answers alone: the rest of a series, after an error of a rule
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
	if err := c.requests(ctx); errors.Is(err, io.EOF) {
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
		if err == nil && m != nil {
			b, err = c.statement(ctx, kind, b, m)
		}
		if err != nil {
			return err
		}
		if b == nil || c.isLost() {
			continue
		}
		if _, err := c.up.Write(b); err != nil {
			return err
		}
	}
}

// statement asks the rules and gives what is forwarded; nil: nothing.
func (c *conn) statement(ctx context.Context, kind byte, b []byte, m *Message) ([]byte, error) {
	was := m.SQL
	forward, err := c.ask(ctx, m)
	if err != nil || !forward || m.SQL == was {
		return b, err
	}
	if kind == 'Q' {
		return (&pgproto3.Query{String: m.SQL}).Encode(nil)
	}
	var q pgproto3.Parse
	if err := q.Decode(b[5:]); err != nil {
		return nil, err
	}
	q.Query = m.SQL
	return q.Encode(nil)
}

// ask asks the rules, and notes that what follows could not be understood where a
// message is not forwarded.
func (c *conn) ask(ctx context.Context, m *Message) (forward bool, err error) {
	fate, err := c.p.rules.Apply(ctx, m)
	switch {
	case err != nil:
		c.broken(ctx, err)
	case fate.Cut:
		err = errCut
	case fate.Again != nil:
		err = fmt.Errorf("%q: %w", m.SQL, errAgain)
		c.broken(ctx, err)
	case !fate.Forward:
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
	}
	return fate.Forward, err
}

var (
	errCut   = errors.New("cut by a rule")
	errAgain = errors.New("nothing comes twice on one connection")
)

// broken notes what no test may pass with.
func (c *conn) broken(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.errs = append(c.p.errs, err)
}

func (c *conn) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
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
		c.named[q.Name] = q.Query
		return &Message{SQL: q.Query}, nil
	case 'B':
		var b pgproto3.Bind
		if err := b.Decode(body); err != nil {
			return nil, err
		}
		c.bound = c.named[b.PreparedStatement]
	case 'E':
		c.waits = append(c.waits, waits{sql: c.bound})
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
		if b, err = c.answer(ctx, kind, b); err != nil {
			c.cut()
			return
		}
		if b == nil || c.isLost() {
			continue
		}
		if _, err := c.client.Write(b); err != nil {
			c.cut()
			return
		}
	}
}

// answer asks the rules and gives what is forwarded; nil: nothing.
func (c *conn) answer(ctx context.Context, kind byte, b []byte) ([]byte, error) {
	m, err := c.answered(kind, b[5:])
	switch {
	case err != nil:
		c.broken(ctx, err)
		return nil, err
	case kind == 'Z':
		c.skips = false
	case c.skips && !bytes.ContainsRune([]byte("ANS"), rune(kind)): // but notices and the like
		return nil, nil
	}
	if m == nil {
		return b, nil
	}
	tag := m.Tag
	if _, err := c.ask(ctx, m); err != nil {
		return nil, err
	}
	switch {
	case m.Error != nil:
		c.skips = true // as a server does after its errors
		return m.Error.Encode(nil)
	case m.Tag != tag || m.Failed:
		return (&pgproto3.CommandComplete{CommandTag: []byte(m.Tag)}).Encode(nil)
	}
	return b, nil
}

// answered gives the message if it ends a statement.
func (c *conn) answered(kind byte, body []byte) (*Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case 'C', 'I', 's', 'E': // complete, empty, suspended, an error
		if len(c.waits) == 0 || c.waits[0].end {
			return nil, nil // a further statement of one Query, or before any
		}
		m := &Message{SQL: c.waits[0].sql, Answer: true, Failed: kind == 'E'}
		c.waits = c.waits[1:]
		if m.Failed { // the rest of the series is skipped
			c.series()
		}
		return m, m.read(kind, body)
	case 'Z':
		c.series()
		c.waits = c.waits[min(1, len(c.waits)):]
	}
	return nil, nil
}

// series takes away what is waited for up to the end of the series.
func (c *conn) series() {
	for len(c.waits) > 0 && !c.waits[0].end {
		c.waits = c.waits[1:]
	}
}

func (m *Message) read(kind byte, body []byte) error {
	switch kind {
	case 'C':
		var done pgproto3.CommandComplete
		if err := done.Decode(body); err != nil {
			return err
		}
		m.Tag = string(done.CommandTag)
	case 'E':
		m.Error = &pgproto3.ErrorResponse{}
		return m.Error.Decode(body)
	}
	return nil
}
