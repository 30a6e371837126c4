//go:build unix

package services

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind is a sort of store: the name of its script in test/services.
type Kind string

// The kinds. Each has a function that gives a server of it to a test.
const (
	KindRedis      Kind = "redis"
	KindS3         Kind = "versitygw"
	KindOpenSearch Kind = "opensearch"
	KindAzure      Kind = "azurite"
	KindGCS        Kind = "fakegcs"
)

// Store is a server of one process over a folder of its own, on the loopback
// interface. Its methods may be called from any goroutine.
type Store struct {
	Address string // host:port
	URL     string // http://host:port, where it speaks HTTP

	kind Kind
	dir  string
	port int

	mu   sync.Mutex // held while the server is started
	proc *Proc
}

// sharedStore is the server that several tests use, or why there is none.
type sharedStore struct {
	once  sync.Once
	store *Store
	err   error
}

// store gives a server that is up: the one that the tests of a test binary share,
// or, with own, one that the test may damage.
func store(t testing.TB, k Kind, own bool) *Store {
	t.Helper()
	r := theRun(t)
	get := r.sharedStore
	if own {
		get = r.newStore
	}
	s, err := get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	lend(t, s, own, s.Kill)
	return s
}

func (r *run) sharedStore(ctx context.Context, k Kind) (*Store, error) {
	r.mu.Lock()
	s := r.stores[k]
	if s == nil {
		s = &sharedStore{}
		r.stores[k] = s
	}
	r.mu.Unlock()
	s.once.Do(func() { s.store, s.err = r.newStore(ctx, k) })
	return s.store, s.err
}

// newStore installs what is missing and makes the data folder; the caller starts
// the server.
func (r *run) newStore(ctx context.Context, k Kind) (*Store, error) {
	dir, err := os.MkdirTemp(r.dir, string(k)+"-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", k, err)
	}
	ports, err := r.reserve(1)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, string(k)+".sh", "install"); err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	return &Store{Address: address, URL: "http://" + address, kind: k, dir: dir, port: ports[0]}, nil
}

// Proc is the server's process, for signals; nil before the first start.
func (s *Store) Proc() *Proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Kill ends the server with SIGKILL and returns when it is gone. One that is down
// stays so.
func (s *Store) Kill() error {
	p := s.Proc()
	if p == nil {
		return nil
	}
	return p.Kill()
}

// Start starts the server, on its own data and port, if it is down, wakes it if it
// is frozen, and returns when it answers.
func (s *Store) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.Alive() {
		sh, err := script(string(s.kind) + ".sh")
		if err != nil {
			return err
		}
		s.proc, err = startProc(Command{
			Name: string(s.kind), Path: "bash", Args: []string{sh, "run", s.dir, strconv.Itoa(s.port)},
			Env: []string{"NICE="}, Log: filepath.Join(s.dir, "log"),
		})
		if err != nil {
			return err
		}
	}
	p := s.proc
	if err := p.Thaw(); err != nil {
		return err
	}
	ask := s.answers
	if s.kind == KindRedis {
		ask = s.pong
	}
	err := poll(ctx, p.gone, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return ask(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w\n%s", p.name, err, p.tail(20))
	}
	return nil
}

// answers reports whether the server takes requests. Where nobody may look without
// a signature, a refusal says so as well.
func (s *Store) answers(ctx context.Context) error {
	path, refused := "/", http.StatusForbidden
	switch s.kind {
	case KindOpenSearch: // before that, an index cannot be made
		path = "/_cluster/health?wait_for_status=yellow&timeout=2s"
	case KindGCS:
		path = "/_internal/healthcheck"
	case KindAzure:
		refused = http.StatusBadRequest // it misses the name of an account
	}
	_, err := s.call(ctx, http.MethodGet, path, nil, http.StatusOK, refused)
	return err
}

// pong asks Redis whether it has read its file.
func (s *Store) pong(ctx context.Context) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	const want = "+PONG\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("PING is answered %q", got)
	}
	return nil
}

// call makes a request that needs no signature and wants one of these statuses.
func (s *Store) call(ctx context.Context, method, path string, body []byte, want ...int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.kind, err)
	}
	return s.do(req, want...)
}

func (s *Store) do(req *http.Request, want ...int) (answer []byte, err error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.kind, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: read the answer to %s %s: %w", s.kind, req.Method, req.URL, err)
	}
	for _, w := range want {
		if resp.StatusCode == w {
			return answer, nil
		}
	}
	return nil, fmt.Errorf("%s: %s %s is answered %s: %s", s.kind, req.Method, req.URL, resp.Status, answer)
}

// ownName is one that no other test knows, and that every kind of store takes as
// the name of a bucket, container or index.
func ownName() string { return "t-" + strings.ToLower(rand.Text()[:16]) }
