package postgres

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// server speaks enough of protocol 3 to say what arrived: it answers each statement
// with its text as the tag, and one that begins with "wrong" with an error.
type server struct {
	ln net.Listener
	wg sync.WaitGroup

	mu      sync.Mutex
	arrived []string
	changed chan struct{} // closed at each arrival
}

func newServer(t *testing.T) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{ln: ln, changed: make(chan struct{})}
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
		_ = ln.Close()
		s.wg.Wait() // the proxy, which ends before, has closed the connections
	})
	return s
}

func (s *server) serve(b *pgproto3.Backend) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	named, bound, failed := map[string]string{}, "", false
	for {
		if b.Flush() != nil {
			return
		}
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			s.execute(b, m.String)
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Parse:
			named[m.Name] = m.Query
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			bound = named[m.PreparedStatement]
			if !failed {
				b.Send(&pgproto3.BindComplete{})
			}
		case *pgproto3.Describe:
			if m.ObjectType == 'S' {
				b.Send(&pgproto3.ParameterDescription{})
			}
			if !failed {
				b.Send(&pgproto3.NoData{})
			}
		case *pgproto3.Execute:
			failed = failed || !s.execute(b, bound)
		case *pgproto3.Sync:
			failed = false
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

func (s *server) execute(b *pgproto3.Backend, sql string) bool {
	s.mu.Lock()
	s.arrived = append(s.arrived, sql)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if strings.HasPrefix(sql, "wrong") {
		b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42601", Message: sql})
		return false
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte(sql)})
	return true
}

// has waits until that many statements have arrived, and gives them.
func (s *server) has(t *testing.T, n int) []string {
	t.Helper()
	patience := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		got, changed := slices.Clone(s.arrived), s.changed
		s.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-changed:
		case <-patience:
			t.Fatalf("arrived: %q, want %d statements", got, n)
		}
	}
}

// bench is a client behind a proxy before a server.
type bench struct {
	t *testing.T
	s *server
	p *Proxy
	c *pgconn.PgConn
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, s: newServer(t)}
	b.p = Start(t, b.s.ln.Addr().String())
	b.c = dial(t, b.p)
	return b
}

func dial(t *testing.T, p *Proxy) *pgconn.PgConn {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), "postgres://u@"+p.Address()+"/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// outcome is the tags, or the SQLSTATE of an error, or "lost" where the connection is.
func outcome(tags []string, err error) string {
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		tags = append(tags, refused.Code)
	case err != nil:
		tags = append(tags, "lost")
	}
	return strings.Join(tags, " ")
}

// simple sends a Query.
func (b *bench) simple(ctx context.Context, sql string) string {
	rs, err := b.c.Exec(ctx, sql).ReadAll()
	var tags []string
	for _, r := range rs {
		if r.Err == nil {
			tags = append(tags, r.CommandTag.String())
		}
	}
	return outcome(tags, err)
}

// series sends statements, parsed, and one Sync behind all of them.
func (b *bench) series(ctx context.Context, sqls ...string) string {
	batch := &pgconn.Batch{}
	for _, sql := range sqls {
		batch.ExecParams(sql, nil, nil, nil, nil)
	}
	r := b.c.ExecBatch(ctx, batch)
	var tags []string
	for r.NextResult() {
		if tag, err := r.ResultReader().Close(); err == nil {
			tags = append(tags, tag.String())
		}
	}
	return outcome(tags, r.Close())
}
