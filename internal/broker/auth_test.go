package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/sasl"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			_, c := fake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "worker", "geheim"))
			var log bytes.Buffer
			var mu sync.Mutex
			c.Log = slog.New(slog.NewJSONHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
			c.SASL = SASL{Mechanism: mechanism, Username: "worker", Password: "geheim"}
			if err := newAdmin(t, c).Ping(soon(t)); err != nil {
				t.Error(err)
			}
			c.SASL.Password = "falsch"
			problem(t, newAdmin(t, c).Ping(soon(t)), CodeAuth, "kafka.sasl")
			c.SASL = SASL{}
			problem(t, newAdmin(t, c).Ping(soon(t)), CodeAuth, "closed the connection", "kafka.tls and kafka.sasl")
			mu.Lock()
			defer mu.Unlock()
			if log.Len() == 0 {
				t.Error("the client's log is lost")
			}
			for _, s := range []string{"geheim", "falsch"} {
				if strings.Contains(log.String(), s) {
					t.Errorf("the log shows %q:\n%s", s, log.String())
				}
			}
		})
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestLoginFileChanges: a rotated password is used from the next connection on,
// by a client that was made before.
func TestLoginFileChanges(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "root", "root"), kfake.Superuser("SCRAM-SHA-256", "worker", "old"))
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "old\n")
	admin := c
	admin.SASL = SASL{Mechanism: "SCRAM-SHA-256", Username: "root", Password: "root"}
	root := newAdmin(t, admin)
	c.SASL = SASL{Mechanism: "SCRAM-SHA-256", Username: "worker", PasswordFile: file}
	c = c.WithDefaults()
	if err := newAdmin(t, c).Ping(soon(t)); err != nil {
		t.Fatal(err)
	}
	up := kadm.UpsertSCRAM{User: "worker", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "new"}
	if _, err := kadm.NewClient(root.Client()).AlterUserSCRAMs(soon(t), nil, []kadm.UpsertSCRAM{up}); err != nil {
		t.Fatal(err)
	}
	problem(t, newAdmin(t, c).Ping(soon(t)), CodeAuth)
	late := newAdmin(t, c) // made before the file changes, dials after
	writeFile(t, file, "new\n")
	if err := late.Ping(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	s := &secret{setting: "kafka.sasl.password", file: file, log: slog.New(slog.DiscardHandler)}
	_, err := s.get()
	problem(t, err, CodeAuth, "kafka.sasl.password_file", file)
	writeFile(t, file, "\n")
	_, err = s.get()
	problem(t, err, CodeAuth, "is empty")
	steps := []struct {
		content *string
		want    string
	}{
		{ptr("one\r\n"), "one"}, {ptr(" two "), " two "}, {ptr(""), " two "}, {nil, " two "}, {ptr("three"), "three"},
	}
	for _, step := range steps {
		if step.content == nil {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else {
			writeFile(t, file, *step.content)
		}
		if got, err := s.get(); err != nil || got != step.want {
			t.Errorf("got %q, %v, want %q", got, err, step.want)
		}
	}
}

func ptr(s string) *string { return &s }

// initial gives the first message of a login.
func initial(t *testing.T, m sasl.Mechanism) (string, error) {
	t.Helper()
	_, b, err := m.Authenticate(soon(t), "broker")
	return string(b), err
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "one\n")
	for name, s := range map[string]SASL{
		"static": {Mechanism: "OAUTHBEARER", Token: "one"},
		"file":   {Mechanism: "OAUTHBEARER", TokenFile: file},
	} {
		m, err := mechanism(s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := initial(t, m); err != nil || got != "n,,\x01auth=Bearer one\x01\x01" || m.Name() != "OAUTHBEARER" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if s.TokenFile != "" {
			writeFile(t, file, "two")
			if got, err := initial(t, m); err != nil || !strings.Contains(got, "Bearer two") {
				t.Errorf("%s: after the change got %q, %v", name, got, err)
			}
		}
	}
}

// tokenServer counts its answers; each token is named by its number.
type tokenServer struct {
	mu      sync.Mutex
	n       int
	expires int // seconds; 0: not told
	secret  string
	fail    bool
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	if s.fail || id != "worker" || secret != s.secret || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka read" {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": "invalid_client", "error_description": "secret " + secret + " is wrong"})
		return
	}
	s.n++
	answer := map[string]any{"access_token": "token-" + strconv.Itoa(s.n), "token_type": "bearer"}
	if s.expires > 0 {
		answer["expires_in"] = s.expires
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *tokenServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	h := &tokenServer{expires: 3600, secret: "geheim"}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "secret")
	writeFile(t, file, "geheim\n")
	set := SASL{Mechanism: "OAUTHBEARER", OAuth: OAuth{
		TokenURL: srv.URL + "/token", ClientID: "worker", ClientSecretFile: file, Scope: "kafka read",
	}}
	token := bearer(set, slog.New(slog.DiscardHandler))
	get := func() string {
		t.Helper()
		got, err := token(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var wg sync.WaitGroup
	for range 8 { // at once: one fetch
		wg.Go(func() {
			if got, err := token(soon(t)); err != nil || got != "token-1" {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	wg.Wait()

	// Close to its end it is replaced; when that fails, still used.
	h.set(func() { h.expires = 20 })
	short := bearer(set, slog.New(slog.DiscardHandler))
	for _, want := range []string{"token-2", "token-3"} {
		if got, err := short(soon(t)); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	h.set(func() { h.fail = true })
	if got, err := short(soon(t)); err != nil || got != "token-3" {
		t.Errorf("while the server fails: got %s, %v", got, err)
	}
	if got := get(); got != "token-1" {
		t.Errorf("a token that holds was replaced by %s", got)
	}

	// One without an end is asked for each time, with the secret as it is then.
	h.set(func() { h.fail, h.expires, h.secret = false, 0, "neu" })
	endless := bearer(set, slog.New(slog.DiscardHandler))
	_, err := endless(soon(t))
	problem(t, err, CodeAuth, "oauth.token_url", "status 401", `"invalid_client"`)
	if strings.Contains(err.Error(), "geheim") {
		t.Errorf("the error shows the secret: %v", err)
	}
	writeFile(t, file, "neu")
	for _, want := range []string{"token-4", "token-5"} {
		if got, err := endless(soon(t)); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	srv.Close()
	_, err = endless(soon(t))
	problem(t, err, CodeAuth, "no token from "+srv.URL+"/token")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := endless(done); err == nil {
		t.Error("a cancelled call gave a token")
	}
}

// TestLoginShared: the clients of one worker share a token.
func TestLoginShared(t *testing.T) {
	t.Parallel()
	c := Config{
		Brokers: []string{"b:1"}, Pipeline: "payments",
		SASL: SASL{Mechanism: "OAUTHBEARER", OAuth: OAuth{TokenURL: "https://idp/t", ClientID: "c", ClientSecret: "s"}},
	}.WithDefaults()
	copied := c.WithDefaults()
	if copied.login == nil || copied.login != c.login {
		t.Error("the copy has another login")
	}
	for range 2 {
		if _, err := Options(copied); err != nil {
			t.Fatal(err)
		}
	}
}
