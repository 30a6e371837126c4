//go:build unix

package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a real PostgreSQL on the loopback interface. Its methods may
// be called from any goroutine.
type PostgresServer struct {
	dir      string
	port     int
	security *Security // nil unless it is a secure one
	password string    // of the superuser of a secure one

	mu   sync.Mutex // held while the server is started
	proc *Proc
}

// sharedPostgres is the server that several tests use, or why there is none.
type sharedPostgres struct {
	once   sync.Once
	server *PostgresServer
	err    error
}

// Postgres returns a server that is up. It is shared by the tests of a test
// binary unless own: then the test may crash it.
func Postgres(t testing.TB, own bool) *PostgresServer {
	t.Helper()
	return postgres(t, own, false)
}

// postgres starts a server of Postgres, or of SecurePostgres, which is own.
func postgres(t testing.TB, own, secure bool) *PostgresServer {
	t.Helper()
	r := theRun(t)
	var s *PostgresServer
	var err error
	if own {
		s, err = r.newPostgres(t.Context())
	} else {
		r.postgres.once.Do(func() { r.postgres.server, r.postgres.err = r.newPostgres(t.Context()) })
		s, err = r.postgres.server, r.postgres.err
	}
	if err == nil && secure {
		err = s.secure()
	}
	if err != nil {
		t.Fatal(err)
	}
	lend(t, s, own, s.Crash)
	return s
}

// lend starts a server for a test, if it does not run, and ends it with the test if
// it is the test's own. A test that fails shows the server's log.
func lend(t testing.TB, s interface {
	Proc() *Proc
	Start(ctx context.Context) error
}, own bool, end func() error,
) {
	t.Helper()
	t.Cleanup(func() {
		if p := s.Proc(); t.Failed() && p != nil {
			t.Logf("end of the log of %s:\n%s", p.name, p.tail(40))
		}
		if own {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// newPostgres makes the data folder; the caller starts the server.
func (r *run) newPostgres(ctx context.Context) (*PostgresServer, error) {
	dir, err := os.MkdirTemp(r.dir, "postgres-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // PostgreSQL runs as a user of its own
	}
	if err != nil {
		return nil, fmt.Errorf("make the folder of a PostgreSQL server: %w", err)
	}
	ports, err := r.reserve(1)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, "postgres.sh", "install"); err != nil {
		return nil, err
	}
	return &PostgresServer{dir: dir, port: ports[0]}, nil
}

// Proc is the server's process, for signals; nil before the first start.
func (s *PostgresServer) Proc() *Proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Crash ends the server and every session at once, without a checkpoint, as
// pg_ctl's immediate mode does. SIGKILL of the first process alone would leave
// sessions that still commit for a moment.
func (s *PostgresServer) Crash() error {
	p := s.Proc()
	if p == nil || !p.Alive() {
		return nil
	}
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(crashTimeout):
		return errors.Join(fmt.Errorf("%s was still there %s after SIGQUIT", p.name, crashTimeout), p.Kill())
	}
}

// crashTimeout is longer than the 5 s after which the server kills sessions that
// do not leave (postmaster.c, SIGKILL_CHILDREN_AFTER_SECS).
const crashTimeout = 20 * time.Second

// Start starts the server, on its own data and port, if it is down, and returns
// when it takes sessions.
func (s *PostgresServer) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.Alive() {
		sh, err := script("postgres.sh")
		if err != nil {
			return err
		}
		s.proc, err = startProc(Command{
			Name: "PostgreSQL", Path: "bash", Args: []string{sh, "run", s.dir, strconv.Itoa(s.port)},
			Env: []string{"NICE="}, Log: filepath.Join(s.dir, "log"),
		})
		if err != nil {
			return err
		}
	}
	return s.proc.takesSessions(ctx, s.DSN("postgres"))
}

// takesSessions waits until the process lets somebody in at dsn.
func (p *Proc) takesSessions(ctx context.Context, dsn string) error {
	err := poll(ctx, func() error {
		if !p.Alive() {
			return p.gone()
		}
		return nil
	}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w\n%s", p.name, err, p.tail(20))
	}
	return nil
}

// Address is host:port.
func (s *PostgresServer) Address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// DSN names a database, for its superuser.
func (s *PostgresServer) DSN(database string) string {
	if s.security != nil {
		return s.SecureDSN(database, "postgres") + "&password=" + s.password
	}
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Address(), database)
}

// Database makes a database that no other test knows.
func (s *PostgresServer) Database(t testing.TB) (name string) {
	t.Helper()
	name = "t_" + strings.ToLower(rand.Text()[:12])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return name
}
