//go:build unix

package services

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Pooler puts a PgBouncer in transaction mode before a server, for the time of the
// test, and gives its host:port.
func Pooler(t testing.TB, s *PostgresServer) (address string) {
	t.Helper()
	r := theRun(t)
	dir, err := os.MkdirTemp(r.dir, "pgbouncer-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // it runs as a user of its own
	}
	if err != nil {
		t.Fatalf("make the folder of a PgBouncer: %v", err)
	}
	ports, err := r.reserve(1)
	if err == nil {
		err = prepare(t.Context(), "pgbouncer.sh", "install")
	}
	if err != nil {
		t.Fatal(err)
	}
	sh, err := script("pgbouncer.sh")
	if err != nil {
		t.Fatal(err)
	}
	p := Start(t, Command{
		Name: "PgBouncer", Path: "bash", Args: []string{sh, "run", dir, strconv.Itoa(ports[0]), strconv.Itoa(s.port)},
		Env: []string{"NICE="}, Log: filepath.Join(dir, "log"),
	})
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := p.takesSessions(ctx, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", address)); err != nil {
		t.Fatal(err)
	}
	return address
}
