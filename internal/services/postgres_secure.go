//go:build unix

package services

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// ByCertificate is the role whose members a secure PostgreSQL lets in by their
// certificate, and in no other way. The test makes it.
const ByCertificate = "by_certificate"

// SecurePostgres returns a server of the test's own that takes sessions by TLS
// alone, with a SCRAM password or, for the members of ByCertificate, with a client
// certificate. Its certificate is for 127.0.0.1, not for localhost.
func SecurePostgres(t testing.TB) *PostgresServer {
	t.Helper()
	return postgres(t, true, true)
}

// Security is the authority of a secure server, nil of another.
func (s *PostgresServer) Security() *Security { return s.security }

// SecureDSN names a database of a secure server and a user, without a password:
// a URL that further parameters can be added to.
func (s *PostgresServer) SecureDSN(database, user string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=verify-full&sslrootcert=%s", user, s.Address(), database, url.QueryEscape(s.security.CAFile()))
}

// secure writes what postgres.sh looks for.
func (s *PostgresServer) secure() error {
	dir := filepath.Join(s.dir, "security")
	security, err := newSecurity(dir)
	if err != nil {
		return err
	}
	if err := security.write("postgres", filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")); err != nil {
		return err
	}
	s.password = rand.Text()
	const hba = "hostssl all +" + ByCertificate + " 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
	for name, text := range map[string]string{"password": s.password, "pg_hba.conf": hba} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	s.security = security
	return nil
}
