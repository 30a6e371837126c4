package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"exactly/test/proxy"
)

// conn is one connection of a client, and its own to the broker. Requests that
// were read are forwarded even if the client has gone meanwhile: they were on
// their way.
type conn struct {
	p          *Proxy
	broker     string
	client, up net.Conn

	mu      sync.Mutex
	pending []*Message // requests without an answer yet; brokers answer in order
	gone    bool       // no further request will come
}

// run returns when both directions have ended.
func (c *conn) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.answers(ctx) })
	c.requests(ctx)
	wg.Wait()
}

// cut closes both directions. What that is an error of was closed before.
func (c *conn) cut() {
	c.p.cutAll(c.client, c.up)
}

// requests forwards what the client sends.
func (c *conn) requests(ctx context.Context) {
	defer c.leave()
	in := bufio.NewReader(c.client)
	for {
		raw, err := readFrame(in)
		if err != nil {
			return // the client has closed it
		}
		m, err := request(c.broker, raw)
		if err != nil {
			c.broken(ctx, err)
			return
		}
		fate, err := c.p.rules.Apply(ctx, m)
		switch {
		case err != nil:
			c.broken(ctx, err)
			return
		case fate.Cut:
			c.cut()
			return
		case !fate.Forward:
			continue
		}
		c.repeat(ctx, m, fate)
		if c.forward(m) != nil {
			c.cut() // the broker has closed it
			return
		}
	}
}

func (c *conn) forward(m *Message) error {
	if m.expectsAnswer() {
		c.mu.Lock()
		c.pending = append(c.pending, m)
		c.mu.Unlock()
	}
	_, err := c.up.Write(m.frame())
	return err
}

// leave closes the connection to the broker once nothing is to be answered any
// more.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if len(c.pending) == 0 {
		c.cut()
	}
}

// answers forwards what the broker sends.
func (c *conn) answers(ctx context.Context) {
	defer c.cut()
	in := bufio.NewReader(c.up)
	for {
		raw, err := readFrame(in)
		if err != nil {
			return // the broker has closed it, or cut has
		}
		q, last := c.next()
		if q == nil {
			c.broken(ctx, fmt.Errorf("an answer that nobody asked for: %w", io.ErrUnexpectedEOF))
			return
		}
		m, fate, err := c.p.answered(ctx, q, raw)
		switch {
		case err != nil:
			c.broken(ctx, err)
			return
		case fate.Cut:
			return
		case fate.Forward:
			// The client may have gone; the broker's other answers are still looked at.
			_, _ = c.client.Write(m.frame())
			if fate.Again != nil {
				c.againTo(ctx, fate.Again, m)
			}
		}
		if last {
			return
		}
	}
}

// next takes the oldest request, and says whether it was the last one that the
// connection will have.
func (c *conn) next() (q *Message, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return nil, false
	}
	q, c.pending = c.pending[0], c.pending[1:]
	return q, c.gone && len(c.pending) == 0
}

// answered asks the rules about an answer and leads its addresses through the
// proxy.
func (p *Proxy) answered(ctx context.Context, q *Message, raw []byte) (*Message, proxy.Fate, error) {
	m, err := answer(q, raw)
	if err != nil {
		return nil, proxy.Fate{}, err
	}
	if err := p.learn(m); err != nil {
		return nil, proxy.Fate{}, err
	}
	fate, err := p.rules.Apply(ctx, m)
	return m, fate, err
}

// repeat sends a copy of a request on a connection of its own, once the rule
// lets it go, and throws the answer away.
func (c *conn) repeat(ctx context.Context, m *Message, fate proxy.Fate) {
	if fate.Again == nil {
		return
	}
	c.p.wg.Go(func() {
		select {
		case <-fate.Again:
		case <-ctx.Done():
			return
		}
		if err := c.copyOf(ctx, m); err != nil && ctx.Err() == nil {
			c.p.fail(fmt.Errorf("send a copy of a request %s: %w", m.Key.Name(), err))
		}
	})
}

func (c *conn) copyOf(ctx context.Context, m *Message) error {
	var d net.Dialer
	up, err := d.DialContext(ctx, "tcp", c.broker)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.p.cutAll(up) })
	defer stop()
	defer c.p.cutAll(up)
	if _, err := up.Write(m.frame()); err != nil || !m.expectsAnswer() {
		return err
	}
	raw, err := readFrame(bufio.NewReader(up))
	if err != nil {
		return err
	}
	_, _, err = c.p.answered(ctx, m, raw)
	return err
}

// againTo sends an answer a second time.
func (c *conn) againTo(ctx context.Context, when <-chan struct{}, m *Message) {
	c.p.wg.Go(func() {
		select {
		case <-when:
			_, _ = c.client.Write(m.frame()) // the client may have gone
		case <-ctx.Done():
		}
	})
}

// broken ends a connection of which something could not be understood.
func (c *conn) broken(ctx context.Context, err error) {
	c.cut()
	if ctx.Err() == nil {
		c.p.fail(fmt.Errorf("connection to broker %s: %w", c.broker, err))
	}
}

func (p *Proxy) cutAll(conns ...net.Conn) {
	for _, c := range conns {
		_ = c.Close() // closed before, or reset by the other side
	}
}

// mostFrame is more than brokers accept by default (100 MiB).
const mostFrame = 128 << 20

// readFrame reads one message without its size.
func readFrame(in *bufio.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > mostFrame {
		return nil, fmt.Errorf("a frame of %d bytes: %w", n, io.ErrUnexpectedEOF)
	}
	raw := make([]byte, n)
	_, err := io.ReadFull(in, raw)
	return raw, err
}
