package httpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"exactly/test/proxy"
)

// Proxy stands before one server.
type Proxy struct {
	URL string // http://host:port, where clients connect

	t      testing.TB
	server string // host:port
	front  *httptest.Server
	back   http.RoundTripper
	rules  proxy.Rules[*Message]
	wg     sync.WaitGroup // copies that are sent a second time
}

// Start returns a proxy before server, host:port, that ends with the test.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	p := &Proxy{
		t: t, server: server,
		// A connection for each request: on one that is used again, net/http
		// would repeat a request by itself.
		back: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(ctx, w, r) }))
	p.front.Config.ErrorLog = log.New(io.Discard, "", 0) // cut connections are what it is for
	p.front.Start()
	p.URL = p.front.URL
	t.Cleanup(func() {
		cancel()
		p.front.CloseClientConnections()
		p.front.Close()
		p.wg.Wait()
	})
	return p
}

// serve carries one request through. What is held or on its way goes on when the
// client has gone, so the context is the proxy's.
func (p *Proxy) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	m := &Message{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body}
	original := *r.URL
	again := p.ask(ctx, r, m)
	if m.Answer, err = p.forward(ctx, r.Host, original, m); err != nil {
		cut() // as if the server had cut it
	}
	if again != nil {
		p.wg.Go(func() { p.repeat(ctx, again, r.Host, original, *m) })
	}
	if p.ask(ctx, r, m) != nil {
		p.t.Errorf("proxy: an answer to %s %s cannot be sent twice", m.Method, m.Path)
	}
	p.answer(w, m)
}

// ask applies the rules. It returns only if the message shall pass.
func (p *Proxy) ask(ctx context.Context, r *http.Request, m *Message) (again <-chan struct{}) {
	fate, err := p.rules.Apply(ctx, m)
	switch {
	case err != nil:
		if ctx.Err() == nil { // a rewriting that failed
			p.t.Errorf("proxy: %v", err)
		}
		cut()
	case fate.Cut:
		cut()
	case !fate.Forward: // silence, for as long as the client has patience
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		}
		cut()
	}
	return fate.Again
}

// cut ends the client's connection where it is.
func cut() { panic(http.ErrAbortHandler) }

// forward sends the request to the server and reads its answer whole. The address
// is sent as the client wrote it, unless it was rewritten: it may be signed.
func (p *Proxy) forward(ctx context.Context, host string, u url.URL, m *Message) (*Answer, error) {
	if u.Path != m.Path {
		u.Path, u.RawPath = m.Path, ""
	}
	if u.Query().Encode() != m.Query.Encode() {
		u.RawQuery = m.Query.Encode()
	}
	u.Scheme, u.Host = "http", p.server
	req, err := http.NewRequestWithContext(ctx, m.Method, u.String(), bytes.NewReader(m.Body))
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	req.Host, req.Header = host, m.Header.Clone()
	hopByHop(req.Header)
	req.Header.Del("Expect") // it was met when the body was read
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = nil // else net/http names itself
	}
	resp, err := p.back.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	hopByHop(resp.Header)
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// repeat sends a request a second time when it may. Nobody gets the answer.
func (p *Proxy) repeat(ctx context.Context, when <-chan struct{}, host string, u url.URL, m Message) {
	select {
	case <-when:
	case <-ctx.Done():
		return
	}
	if _, err := p.forward(ctx, host, u, &m); err != nil && ctx.Err() == nil {
		p.t.Errorf("proxy: the second copy of %s %s: %v", m.Method, m.Path, err)
	}
}

// answer gives the client what is left of the answer.
func (p *Proxy) answer(w http.ResponseWriter, m *Message) {
	a := m.Answer
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	bodiless := m.Method == http.MethodHead || a.Status == http.StatusNoContent || a.Status == http.StatusNotModified
	if !bodiless { // it may have been rewritten
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if a.half && (bodiless || len(a.Body) == 0) {
		cut()
	}
	w.WriteHeader(a.Status)
	if bodiless {
		return
	}
	if a.half {
		_, _ = w.Write(a.Body[:len(a.Body)/2])
		_ = http.NewResponseController(w).Flush()
		cut()
	}
	_, _ = w.Write(a.Body) // an error: the client has gone, which is its right
}

// hopByHop takes out what belongs to one connection (RFC 9110, section 7.6.1).
func hopByHop(h http.Header) {
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}
