package httpsink

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"exactly/sink"
)

// Nothing that people read shows a secret, even when the partner echoes it.
func TestRedaction(t *testing.T) {
	t.Parallel()
	const token, password, header, query = "tok-53cr3t", "pass w0rd&", "hdr-53cr3t", "qry-53cr3t"
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*Config)
	}{
		{"bearer", func(c *Config) { c.Auth = &Auth{BearerToken: token} }},
		{"basic from a file", func(c *Config) { c.Auth = &Auth{Username: "u", PasswordFile: file} }},
		{"userinfo", func(c *Config) { c.URL = strings.Replace(c.URL, "http://", "http://u:"+url.QueryEscape(token)+"@", 1) }},
		{"nobody listens", func(c *Config) { c.URL = "http://u:" + token + "@127.0.0.1:1/?k=" + query }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, echoing)
			c := quick(p.URL + "/?k=" + query)
			c.Headers = map[string]string{"X-Api-Key": header}
			c.Retry.Budget = time.Nanosecond
			tt.edit(&c)
			var logs bytes.Buffer
			o := testOwner
			o.Log = slog.New(slog.NewTextHandler(&logs, nil))
			task := openTask(t, newTestSink(t, c), o)
			texts := []string{}
			for i, id := range []string{"denied", "poison", "doubt", "cut"} {
				res, err := task.Apply(t.Context(), batchOf(entry(i, id, id)))
				texts = append(texts, fmt.Sprint(res.Verdicts), fmt.Sprint(err))
			}
			all := strings.Join(append(texts, logs.String()), "\n")
			for _, secret := range []string{token, password, url.QueryEscape(password), header, query, basicAuth("u", password), basicAuth("u", token)} {
				if strings.Contains(all, secret) {
					t.Errorf("%q is shown in:\n%s", secret, all)
				}
			}
			if !strings.Contains(all, "127.0.0.1:") {
				t.Errorf("the host is not named in:\n%s", all)
			}
		})
	}
}

// echoing answers with everything it was sent.
func echoing(q query) act {
	a := act{refuse: http.StatusUnauthorized, body: fmt.Sprint(q.header, q.path)}
	switch q.id {
	case "poison":
		a.refuse = http.StatusBadRequest
	case "doubt":
		a.refuse = http.StatusUnprocessableEntity
	case "cut":
		return act{cut: true}
	}
	return a
}

// Refused credentials are no dead letter; a new token in the file is taken up.
func TestTokenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	p := newPartner(t, func(q query) act {
		if q.header.Get("Authorization") != "Bearer brand-new" {
			return act{refuse: http.StatusUnauthorized}
		}
		return act{}
	})
	c := quick(p.URL)
	c.Auth = &Auth{BearerTokenFile: file}
	c.Retry.Budget = 20 * time.Millisecond
	s := newTestSink(t, c)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	task := openTask(t, s, testOwner)
	_, err := task.Apply(t.Context(), batchOf(entry(0, "a", "x")))
	if err == nil || sink.Classify(err) != sink.ClassTransient || !strings.Contains(err.Error(), "check auth") {
		t.Fatalf("apply with the old token: got %v, want a transient error with a remedy", err)
	}
	write("brand-new")
	drive(t, task, batchOf(entry(0, "a", "x")))
	p.wantExecuted(t, 1, "a")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := newPartner(t, func(q query) act {
		if q.path == "/sick" {
			return act{refuse: http.StatusServiceUnavailable}
		}
		return act{refuse: http.StatusOK}
	})
	missing := filepath.Join(t.TempDir(), "none")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*Config)
		want string // "": no error
	}{
		{"no request by default", func(c *Config) { c.URL = "http://127.0.0.1:1/" }, ""},
		{"check_url", func(c *Config) { c.CheckURL = p.URL + "/well" }, ""},
		{"check_url refuses", func(c *Config) { c.CheckURL = p.URL + "/sick" }, "/sick answered 503"},
		{"check_url silent", func(c *Config) { c.CheckURL = "http://127.0.0.1:1/" }, "http.check_url: GET http://127.0.0.1:1/"},
		{"no token file", func(c *Config) { c.Auth = &Auth{BearerTokenFile: missing} }, "http.auth.bearer_token_file: open "},
		{"empty token file", func(c *Config) { c.Auth = &Auth{BearerTokenFile: empty} }, "holds no usable secret"},
		{"no password file", func(c *Config) { c.Auth = &Auth{Username: "u", PasswordFile: missing} }, "http.auth.password_file: open "},
		{"no ca file", func(c *Config) { c.TLS = &TLS{CAFile: missing} }, "http.tls.ca_file: open "},
		{"empty ca file", func(c *Config) { c.TLS = &TLS{CAFile: empty} }, "holds no PEM certificate"},
		{"no certificate", func(c *Config) { c.TLS = &TLS{CertFile: missing, KeyFile: missing} }, "http.tls.cert_file, tls.key_file: no usable pair"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := quick(p.URL)
			tt.edit(&c)
			err := newTestSink(t, c).Check(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check: got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := newPartner(t, nil)
	for _, tt := range []struct {
		name   string
		status int
		to     func(*partner) string
		follow bool
		want   int // times carried out
	}{
		{"not followed by default", 307, func(p *partner) string { return p.URL + "/new" }, false, 0},
		{"followed", 307, func(p *partner) string { return p.URL + "/new" }, true, 1},
		{"followed, permanent", 308, func(p *partner) string { return p.URL + "/new" }, true, 1},
		{"303 would make it a GET", 303, func(p *partner) string { return p.URL + "/new" }, true, 0},
		{"another host would see the credentials", 307, func(*partner) string { return elsewhere.URL }, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var p *partner
			p = unstarted(func(q query) act {
				if q.path == "/old" {
					return act{refuse: tt.status, header: http.Header{"Location": {tt.to(p)}}}
				}
				return act{}
			})
			p.Start()
			t.Cleanup(p.stop)
			c := quick(p.URL + "/old")
			c.FollowRedirects = tt.follow
			c.Retry.Budget = time.Nanosecond
			e := entry(0, "a", "x")
			_, err := openTask(t, newTestSink(t, c), testOwner).Apply(t.Context(), batchOf(e))
			if ok := err == nil; ok != (tt.want == 1) {
				t.Errorf("apply: got %v", err)
			}
			p.wantExecuted(t, tt.want, "a")
			p.wantSameBytes(t, "a", e.Value)
			elsewhere.wantExecuted(t, 0, "a", "/")
			if n := len(elsewhere.all()); n != 0 {
				t.Errorf("requests at the other host: got %d, want 0", n)
			}
		})
	}
}

// An answer that breaks off could have been the one that says "in doubt".
func TestAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		if n > 1 {
			w.WriteHeader(http.StatusOK)
			return
		}
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func(c net.Conn) { _ = c.Close() }(conn)
		_, _ = buf.WriteString("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"code\":")
		_ = buf.Flush()
	}))
	t.Cleanup(srv.Close)
	mustApply(t, openTask(t, newTestSink(t, quick(srv.URL)), testOwner), batchOf(entry(0, "a", "x")))
	if n != 2 {
		t.Errorf("requests: got %d, want 2", n)
	}
}

// What never left says so: an outcome is unknown only of what was sent.
func TestNotSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		url  func(p string) string
		want string
	}{
		"nobody listens": {func(string) string { return "http://127.0.0.1:1/" }, "not sent"},
		"cut":            {func(p string) string { return p }, "outcome unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, func(query) act { return act{cut: true} })
			c := quick(tt.url(p.URL))
			c.Retry.Budget = time.Nanosecond
			_, err := openTask(t, newTestSink(t, c), testOwner).Apply(t.Context(), batchOf(entry(1, "a", "a")))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
