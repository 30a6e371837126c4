//go:build services

package postgres

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"exactly/internal/services"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

// secured is a database of a server that takes sessions by TLS alone, with a user
// who has a password, app, and one who has a certificate, carol.
type secured struct {
	*services.PostgresServer
	admin    *pgx.Conn
	database string
	file     string // that holds the password
}

// The passwords are found in messages, should they be there.
const (
	firstPassword  = "f1rst-s3cr3t"
	secondPassword = "s3cond-s3cr3t"
)

// TestSecured: the sink and a server that takes sessions by TLS alone.
func TestSecured(t *testing.T) {
	t.Parallel()
	server := services.SecurePostgres(t)
	roles := &secured{admin: session(sinktest.Wrap(t), server.DSN("postgres"))}
	roles.exec(t, fmt.Sprintf("CREATE ROLE %s; CREATE ROLE app LOGIN PASSWORD '%s'; CREATE ROLE carol LOGIN IN ROLE %[1]s", services.ByCertificate, firstPassword))
	t.Run("refused", func(t *testing.T) { testRefused(t, newSecured(t, server)) })
	t.Run("client certificate", func(t *testing.T) { testClientCertificate(t, newSecured(t, server)) })
	t.Run("password rotated", func(t *testing.T) { testPasswordRotated(t, newSecured(t, server)) })
}

// newSecured makes a database of the server.
func newSecured(t *testing.T, server *services.PostgresServer) *secured {
	t.Helper()
	s := &secured{PostgresServer: server, database: server.Database(t), file: filepath.Join(t.TempDir(), "password")}
	s.admin = session(sinktest.Wrap(t), s.DSN(s.database))
	s.exec(t, "CREATE TABLE t (id text PRIMARY KEY); GRANT ALL ON SCHEMA public TO app, carol; GRANT ALL ON t TO app, carol")
	s.setPassword(t, firstPassword)
	return s
}

func (s *secured) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.admin.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// setPassword writes the file, as whoever hands out secrets does.
func (s *secured) setPassword(t *testing.T, password string) {
	t.Helper()
	if err := os.WriteFile(s.file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// config writes to table t as the user of dsn.
func (s *secured) config(dsn string) postgres.Config {
	return postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}
}

// byCertificate is the dsn of a user with these files.
func (s *secured) byCertificate(user, certFile, keyFile string) string {
	return s.SecureDSN(s.database, user) + "&sslcert=" + url.QueryEscape(certFile) + "&sslkey=" + url.QueryEscape(keyFile)
}

// endSessions ends those of the sink, so that it has to come again.
func (s *secured) endSessions(t *testing.T) {
	t.Helper()
	s.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, 'exactly') AND datname = current_database()")
}

// put applies one record, again while that may pass, and gives what else came of it.
func put(t *testing.T, task sink.OutboxTask, epoch int64) error {
	t.Helper()
	b := batch(epoch, fmt.Sprintf(`{"id":"e%d"}`, epoch))
	b.Prev = sink.Pos{Epoch: epoch - 1, Index: min(epoch-1, 1)}
	for {
		_, err := task.Apply(t.Context(), b)
		if err == nil || sink.Classify(err) != sink.ClassTransient || t.Context().Err() != nil {
			return err
		}
	}
}

func (s *secured) wantRows(t *testing.T, n int) {
	t.Helper()
	got := 0
	if err := s.admin.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != n {
		t.Errorf("got %d rows, want %d", got, n)
	}
}

// testPasswordRotated: by TLS, with a password from a file; when the password is
// another one, the next session has it.
func testPasswordRotated(t *testing.T, s *secured) {
	t.Helper()
	c := s.config(s.SecureDSN(s.database, "app"))
	c.PasswordFile = s.file
	task := open(t, c, owner())
	if err := put(t, task, 1); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "ALTER ROLE app PASSWORD '"+secondPassword+"'")
	if err := put(t, task, 2); err != nil {
		t.Errorf("in the session that is open: %v", err)
	}
	s.endSessions(t)
	wantRefusal(t, put(t, task, 3), "password_file")
	s.setPassword(t, secondPassword)
	if err := put(t, task, 3); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	s.wantRows(t, 3)
}

// testClientCertificate: a user without a password comes in by a certificate, and
// its files are read at each connection: it has a short life.
func testClientCertificate(t *testing.T, s *secured) {
	t.Helper()
	cert := func(of *services.Security, user string) (certFile, keyFile string) {
		certFile, keyFile, err := of.Cert(user)
		if err != nil {
			t.Fatal(err)
		}
		return certFile, keyFile
	}
	certFile, keyFile := cert(s.Security(), "carol")
	dir := t.TempDir()
	install := func(certFile, keyFile string) {
		t.Helper()
		for to, from := range map[string]string{"crt": certFile, "key": keyFile} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	install(certFile, keyFile)
	task := open(t, s.config(s.byCertificate("carol", filepath.Join(dir, "crt"), filepath.Join(dir, "key"))), owner())
	if err := put(t, task, 1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		of         *services.Security
		user       string
	}{
		{"another user's", "has to be that user's", s.Security(), "mallory"},
		{"of an authority that the server does not know", "sslcert", services.Authority(t), "carol"},
	} {
		install(cert(tt.of, tt.user))
		s.endSessions(t)
		err := put(t, task, 2)
		if !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got %v, want it to say %q", tt.name, err, tt.want)
		}
		wantRefusal(t, err, "sslcert")
	}
	install(certFile, keyFile)
	if err := put(t, task, 2); err != nil {
		t.Errorf("with a certificate that is right again: %v", err)
	}
	s.wantRows(t, 2)
}

// testRefused: what keeps a sink from a secured server is said with its remedy,
// for good, and without the password.
func testRefused(t *testing.T, s *secured) {
	t.Helper()
	good := s.SecureDSN(s.database, "app")
	system, _, _ := strings.Cut(good, "&sslrootcert=")
	wrong := services.Authority(t)
	for _, tt := range []struct{ name, dsn, want string }{
		{"an authority that did not sign", system + "&sslrootcert=" + url.QueryEscape(wrong.CAFile()), "sslrootcert in dsn"},
		{"the system's authorities", system, "sslrootcert in dsn"},
		{"another host name", strings.Replace(good, "127.0.0.1", "localhost", 1), "write in dsn the host"},
		{"no TLS", strings.Replace(system, "verify-full", "disable", 1), "sslmode=verify-full"},
		{"no file of the authority", good + ".missing", "dsn"},
		{"no client certificate", s.SecureDSN(s.database, "carol"), "set sslcert"},
		{"no such user", s.SecureDSN(s.database, "nobody"), "check the user in dsn"},
		{"no such database", s.SecureDSN("nowhere", "app"), "check the database in dsn"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, c := range map[string]postgres.Config{
				"password_file": {PasswordFile: s.file, DSN: tt.dsn},
				"dsn":           {DSN: tt.dsn + "&password=" + firstPassword},
			} {
				c.Table, c.Key = "t", []string{"id"}
				k, err := postgres.New("out", c)
				if err == nil {
					err = k.Check(t.Context())
				}
				if !strings.Contains(fmt.Sprint(err), tt.want) {
					t.Errorf("password in %s: got %v, want it to say %q", how, err, tt.want)
				}
				wantRefusal(t, err, "dsn")
			}
		})
	}
}

// wantRefusal wants an error for good that names the setting and no password.
func wantRefusal(t *testing.T, err error, setting string) {
	t.Helper()
	text := fmt.Sprint(err)
	switch {
	case err == nil || sink.IsTransient(err):
		t.Errorf("got %v, want a refusal for good", err)
	case !strings.Contains(text, setting):
		t.Errorf("%s: does not name %s", text, setting)
	case strings.Contains(text, firstPassword), strings.Contains(text, secondPassword):
		t.Errorf("%s: shows a password", text)
	}
}
