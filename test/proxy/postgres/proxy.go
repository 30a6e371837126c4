package postgres

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"exactly/test/proxy"
)

// Proxy stands before one server.
type Proxy struct {
	ln     net.Listener
	server string
	rules  proxy.Rules[*Message]
	end    context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*conn]bool
	closed bool
	errs   []error // no test may pass with them
}

// Start returns a proxy before server, host:port, that ends with the test. A rewriting
// that failed, or what the proxy could not understand, fails it.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	p, err := start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func start(server string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{ln: ln, server: server, end: cancel, conns: map[*conn]bool{}}
	p.wg.Go(func() { p.accept(ctx) })
	return p, nil
}

// close ends all connections and gives what went wrong.
func (p *Proxy) close() error {
	p.end()
	_ = p.ln.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.CutAll()
	p.wg.Wait()
	return errors.Join(p.errs...)
}

// Address is where clients connect.
func (p *Proxy) Address() string { return p.ln.Addr().String() }

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
	c := &conn{p: p, client: client, up: up, named: map[string]string{}}
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
