package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"

	"exactly/test/proxy"
)

// Proxy stands in front of the brokers of one cluster. Its methods may be
// called from any goroutine.
type Proxy struct {
	rules proxy.Rules[*Message]
	ends  context.CancelFunc
	done  <-chan struct{} // closed: no connection is taken any more
	serve func(net.Listener, string)
	wg    sync.WaitGroup

	mu     sync.Mutex
	fronts map[string]net.Listener // by address of the broker
	topics map[[16]byte]string     // names by id
	seeds  []string                // addresses of the brokers that were given
	conns  map[*conn]bool
	errs   []error
}

// Start starts a proxy in front of brokers, of which some are given. It ends
// with the test, and fails it if something could not be forwarded as the rules
// say.
func Start(t testing.TB, brokers []string) *Proxy {
	t.Helper()
	p, err := open(brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func open(brokers []string) (*Proxy, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		ends: cancel, done: ctx.Done(), seeds: brokers,
		fronts: map[string]net.Listener{}, topics: map[[16]byte]string{}, conns: map[*conn]bool{},
	}
	p.serve = func(l net.Listener, broker string) { p.accept(ctx, l, broker) }
	for _, b := range brokers {
		if _, err := p.listen(b); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Bootstrap are the addresses of the listeners for the brokers that Start was
// given.
func (p *Proxy) Bootstrap() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, b := range p.seeds {
		out = append(out, p.fronts[b].Addr().String())
	}
	return out
}

// Close ends every connection and what is held, and returns the errors of all
// that went otherwise than the rules say.
func (p *Proxy) Close() error {
	p.ends()
	p.mu.Lock()
	for _, l := range p.fronts {
		p.errs = append(p.errs, closed(l.Close()))
	}
	for c := range p.conns {
		c.cut()
	}
	p.mu.Unlock()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

// closed: what is closed already is no error.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// front gives the address of the listener for a broker, which is made when the
// broker is first heard of.
func (p *Proxy) front(host string, port int32) (string, int32, error) {
	l, err := p.listen(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return "", 0, err
	}
	at := l.Addr().(*net.TCPAddr)
	return at.IP.String(), int32(at.Port), nil
}

func (p *Proxy) listen(broker string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.fronts[broker]; l != nil {
		return l, nil
	}
	select {
	case <-p.done:
		return nil, fmt.Errorf("listen for broker %s: %w", broker, net.ErrClosed)
	default:
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for broker %s: %w", broker, err)
	}
	p.fronts[broker] = l
	p.wg.Go(func() { p.serve(l, broker) })
	return l, nil
}

func (p *Proxy) accept(ctx context.Context, l net.Listener, broker string) {
	for {
		client, err := l.Accept()
		if err != nil {
			if closed(err) != nil && ctx.Err() == nil {
				p.fail(fmt.Errorf("accept for broker %s: %w", broker, err))
			}
			return
		}
		p.wg.Go(func() { p.connect(ctx, client, broker) })
	}
}

// connect carries one connection. That of a broker which is down is reset, the
// nearest to a refusal that can be had once it was accepted: a plain end would
// tell a client that the broker wants something else than it speaks.
func (p *Proxy) connect(ctx context.Context, client net.Conn, broker string) {
	var d net.Dialer
	up, err := d.DialContext(ctx, "tcp", broker)
	if err != nil {
		if tcp, ok := client.(*net.TCPConn); ok {
			p.fail(closed(tcp.SetLinger(0)))
		}
		p.fail(closed(client.Close()))
		return
	}
	c := &conn{p: p, broker: broker, client: client, up: up}
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	if ctx.Err() != nil { // Close may have missed it
		c.cut()
	}
	c.run(ctx)
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// fail keeps an error for Close.
func (p *Proxy) fail(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}
