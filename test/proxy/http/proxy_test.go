package httpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"exactly/test/proxy"
)

// server notes what arrives and answers "ok <body>".
type server struct {
	*httptest.Server
	mu      sync.Mutex
	arrived []string
	changed chan struct{}
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{changed: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.arrived = append(s.arrived, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(b)))
		s.mu.Unlock()
		w.Header().Set("X-Host", r.Host)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "ok %s", b)
		s.changed <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrived)
}

func (s *server) proxy(t *testing.T) *Proxy {
	t.Helper()
	return Start(t, s.Listener.Addr().String())
}

// call makes one request on a connection of its own. With impatient it is given up
// once that rule has struck: no slow machine can bring that forward.
func call(t *testing.T, impatient *Armed, method, address, body string) (status int, answer string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if impatient != nil {
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			if impatient.Wait(ctx, 1) == nil {
				cancel()
			}
		})
	}
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// What no rule meets passes as it is: the address with its escapes, the host that
// the client signs, the lack of a body.
func TestPasses(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.proxy(t)
	resp, err := http.Post(p.URL+"/a%2Fb/c?z=1&a=%20", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, want := resp.Header.Get("X-Host"), strings.TrimPrefix(p.URL, "http://"); got != want {
		t.Errorf("host: got %s, want the one that the client named, %s", got, want)
	}
	if status, answer, err := call(t, nil, http.MethodHead, p.URL+"/h", ""); status != http.StatusCreated || answer != "" || err != nil {
		t.Errorf("HEAD: got %d, %q, %v", status, answer, err)
	}
	if got, want := s.seen(), []string{"POST /a%2Fb/c?z=1&a=%20 x", "HEAD /h"}; !slices.Equal(got, want) {
		t.Errorf("arrived: got %q, want %q", got, want)
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	m := &Message{Method: "POST", Path: "/b/k", Query: url.Values{"uploadId": {"7"}, "n": {""}}}
	for _, tt := range []struct {
		name string
		r    Rule
		want bool
	}{
		{"all", Rule{}, true},
		{"method", Rule{Method: "PUT"}, false},
		{"path", Rule{Path: "/b"}, true},
		{"another path", Rule{Path: "/c"}, false},
		{"parameter", Rule{Query: []string{"uploadId", "n"}}, true},
		{"with its value", Rule{Query: []string{"uploadId=7"}}, true},
		{"with another", Rule{Query: []string{"uploadId=8"}}, false},
		{"missing parameter", Rule{Query: []string{"uploads"}}, false},
		{"answers", Rule{Answer: true}, false},
		{"what else", Rule{Is: func(m *Message) bool { return m.Header.Get("X") != "" }}, false},
		{"complete", CompleteMultipartUpload(false, proxy.Drop[*Message]()), true},
	} {
		if got := tt.r.matches(m); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	cut := func(err error) bool {
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(*net.OpError))
	}
	for _, tt := range []struct {
		name    string
		answer  bool
		act     proxy.Act[*Message]
		arrives string // what the server gets; "": nothing
		status  int    // what the client gets; 0: none
		body    string
		fails   func(error) bool
	}{
		{name: "request cut", act: proxy.Cut[*Message](), fails: cut},
		{name: "request dropped", act: proxy.Drop[*Message](), fails: late},
		{name: "request delayed", act: proxy.Delay[*Message](time.Millisecond), arrives: "x", status: 201, body: "ok x"},
		{name: "request rewritten", act: proxy.Rewrite(func(m *Message) error { m.Body = []byte("longer"); return nil }), arrives: "longer", status: 201, body: "ok longer"},
		{name: "answer cut", answer: true, act: proxy.Cut[*Message](), arrives: "x", fails: cut},
		{name: "answer dropped", answer: true, act: proxy.Drop[*Message](), arrives: "x", fails: late},
		{name: "answer delayed", answer: true, act: proxy.Delay[*Message](time.Minute), arrives: "x", fails: late},
		{name: "answer cut half-way", answer: true, act: Half(), arrives: "x", status: 201, body: "ok", fails: cut},
		{name: "answer rewritten", answer: true, act: Status(429, http.Header{"Retry-After": {"1"}}, "slower"), arrives: "x", status: 429, body: "slower"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			p := s.proxy(t)
			r := p.Add(Rule{Method: http.MethodPut, Path: "/k", Answer: tt.answer, From: 2, Act: tt.act})
			for n := 1; n <= 3; n++ {
				var impatient *Armed
				if n == 2 && tt.fails != nil && !tt.fails(io.EOF) {
					impatient = r
				}
				status, body, err := call(t, impatient, http.MethodPut, p.URL+"/k", "x")
				switch {
				case n != 2 && (status != http.StatusCreated || body != "ok x" || err != nil):
					t.Fatalf("call %d: got %d, %q, %v", n, status, body, err)
				case n == 2 && (status != tt.status || body != tt.body || (err != nil) != (tt.fails != nil) || err != nil && !tt.fails(err)):
					t.Errorf("got %d, %q, %v; want %d, %q, an error: %t", status, body, err, tt.status, tt.body, tt.fails != nil)
				}
			}
			want := []string{"PUT /k x", "PUT /k " + tt.arrives, "PUT /k x"}
			if tt.arrives == "" {
				want = slices.Delete(want, 1, 2)
			}
			if got := s.seen(); !slices.Equal(got, want) {
				t.Errorf("arrived: got %q, want %q", got, want)
			}
			if r.Hits() != 1 {
				t.Errorf("hits: got %d, want 1", r.Hits())
			}
		})
	}
}

func late(err error) bool { return errors.Is(err, context.Canceled) }

// A request that is held arrives after its sender has gone; a copy arrives when it
// is let go.
func TestLate(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.proxy(t)
	held := p.Add(Rule{Path: "/held", Act: proxy.Hold[*Message]()})
	if _, _, err := call(t, held, http.MethodPost, p.URL+"/held", "1"); !late(err) {
		t.Fatalf("held: got %v, want no answer", err)
	}
	copied := p.Add(Rule{Path: "/copied", Act: proxy.Again[*Message]()})
	if _, answer, err := call(t, nil, http.MethodPost, p.URL+"/copied", "2"); answer != "ok 2" {
		t.Fatalf("copied: got %q, %v", answer, err)
	}
	<-s.changed
	held.Release()
	<-s.changed
	copied.Release()
	<-s.changed
	if got, want := s.seen(), []string{"POST /copied 2", "POST /held 1", "POST /copied 2"}; !slices.Equal(got, want) {
		t.Errorf("arrived: got %q, want %q", got, want)
	}
}

// A server that is away looks to the client like one that cuts, and a proxy that
// ends lets go of whoever waits.
func TestAway(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.proxy(t)
	s.Close()
	if status, _, err := call(t, nil, http.MethodGet, p.URL+"/", ""); err == nil {
		t.Errorf("an answer of a server that is away: %d", status)
	}
	ended := make(chan error)
	t.Run("inner", func(t *testing.T) {
		p := Start(t, "127.0.0.1:1")
		silent := p.Add(Rule{Act: proxy.Drop[*Message]()})
		go func() {
			resp, err := http.Get(p.URL)
			if err == nil {
				err = errors.Join(resp.Body.Close(), errors.New("an answer"))
			}
			ended <- err
		}()
		if err := silent.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	})
	if err := <-ended; !errors.Is(err, io.EOF) && !errors.As(err, new(*net.OpError)) {
		t.Errorf("a call through a proxy that ended: %v", err)
	}
}
