package bench

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// TestNoDSNIsQuoted: pgx takes less than pgconn, and would quote what it refuses.
func TestNoDSNIsQuoted(t *testing.T) {
	t.Parallel()
	check := func(what string, err error) {
		if err == nil || strings.Contains(err.Error(), "s3cr3tPW") {
			t.Errorf("%s: got %v, want an error without the password", what, err)
		}
	}
	_, err := openDatabase(t.Context(), "postgres://u@localhost/d?password=s3cr3tPW&statement_cache_capacity=x", "s")
	check("rows", err)
	_, err = Tables(t.Context(), TablesOptions{DSN: "host=localhost password = s3cr3tPW statement_cache_capacity=x"})
	check("tables", err)
}

// server speaks enough of protocol 3 to do what it is told in simple queries. What has
// to be parsed hangs.
type server struct {
	ln      net.Listener
	wg      sync.WaitGroup
	hung    chan struct{} // closed when a query hangs
	release chan struct{} // closed to end that

	mu   sync.Mutex
	done []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{ln: ln, hung: make(chan struct{}), release: make(chan struct{})}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() {
				defer c.Close()
				s.serve(pgproto3.NewBackend(c, c))
			})
		}
	})
	t.Cleanup(func() {
		close(s.release)
		_ = ln.Close()
		s.wg.Wait()
	})
	return s
}

func (s *server) dsn() string { return "postgres://u@" + s.ln.Addr().String() + "/d?sslmode=disable" }

func (s *server) serve(b *pgproto3.Backend) {
	m, err := b.ReceiveStartupMessage()
	if _, ok := m.(*pgproto3.StartupMessage); !ok || err != nil {
		return // asks for a query to be cancelled
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			s.mu.Lock()
			s.done = append(s.done, m.String)
			s.mu.Unlock()
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("DONE")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Parse:
			close(s.hung)
			<-s.release
			return
		}
	}
}

// last is the statement that was done last.
func (s *server) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[len(s.done)-1]
}

// TestInterrupted: an interrupt in the middle of a query closes the session, and still
// nothing stays behind.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, err := openDatabase(ctx, s.dsn(), "bench_x")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-s.hung
		cancel()
	}()
	if _, err := d.settled(ctx, "t", Counts{Inputs: 1}); err == nil || !d.c.IsClosed() {
		t.Fatalf("the query gave %v, and the session is closed: %v; want an error and true", err, d.c.IsClosed())
	}
	if err := d.close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if got, want := s.last(), `DROP SCHEMA IF EXISTS "bench_x" CASCADE`; got != want {
		t.Errorf("the last statement is %q, want %q", got, want)
	}
}
