package httpsink

import (
	"strings"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const url = "https://partner.example/v1"
	tests := []struct {
		name string
		c    Config
		want string
	}{
		{"no url", Config{}, "sink partner: http.url: must begin with http:// or https://"},
		{"url that does not parse", Config{URL: "http://u:hunter2@[::1"}, "http.url: is not a URL"},
		{"other scheme", Config{URL: "ftp://x/"}, "must begin with http"},
		{"no host", Config{URL: "http:///x"}, "names no host"},
		{"fragment", Config{URL: url + "#x"}, "has a fragment"},
		{"check_url", Config{URL: url, CheckURL: "x"}, "http.check_url: must begin with"},
		{"negative", Config{URL: url, Timeout: -time.Second}, "must not be negative"},
		{"conflict", Config{URL: url, Conflict: "maybe"}, `http.conflict: "maybe" is neither`},
		{"answers: meaning", Config{URL: url, Answers: map[string]string{"404": "skip"}}, `http.answers.404: "skip" is none of`},
		{"answers: status", Config{URL: url, Answers: map[string]string{"4x": "done"}}, "http.answers.4x: is neither a status"},
		{"answers: range", Config{URL: url, Answers: map[string]string{"100": "done"}}, "http.answers.100: is neither a status"},
		{"answers against conflict", Config{URL: url, Conflict: "done", Answers: map[string]string{"409": "poison"}}, "contradicts conflict"},
		{"auth empty", Config{URL: url, Auth: &Auth{}}, "http.auth: is empty"},
		{"auth both", Config{URL: url, Auth: &Auth{BearerToken: "x", Username: "u"}}, "a bearer token and a user at once"},
		{"auth token twice", Config{URL: url, Auth: &Auth{BearerToken: "x", BearerTokenFile: "f"}}, "bearer_token and bearer_token_file at once"},
		{"auth password twice", Config{URL: url, Auth: &Auth{Username: "u", Password: "x", PasswordFile: "f"}}, "password and password_file at once"},
		{"auth no user", Config{URL: url, Auth: &Auth{Password: "x"}}, "a password without username"},
		{"auth and url", Config{URL: "https://u:p@h/", Auth: &Auth{BearerToken: "x"}}, "url names a user as well"},
		{"tls half", Config{URL: url, TLS: &TLS{CertFile: "c"}}, "cert_file and key_file belong together"},
		{"header name", Config{URL: url, Headers: map[string]string{"a b": "c"}}, `http.headers: "a b" cannot be the name`},
		{"header value", Config{URL: url, Headers: map[string]string{"X-A": "b\r\nX-B: c"}}, "http.headers.X-A: the value has characters"},
		{"header of the key", Config{URL: url, Headers: map[string]string{"idempotency-key": "x"}}, "is set by idempotency_key"},
		{"header content type", Config{URL: url, Headers: map[string]string{"Content-Type": "x"}}, "is set by content_type"},
		{"header and auth", Config{URL: url, Auth: &Auth{BearerToken: "x"}, Headers: map[string]string{"authorization": "x"}}, "is set by auth"},
		{"idempotency header", Config{URL: url, IdempotencyHeader: "a:b"}, "http.idempotency_header:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := New("partner", tt.c, Deps{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("New: got %v, want an error with %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := Config{URL: "https://h/", Delete: &Delete{Path: "x"}}.withDefaults()
	if got.Method != "POST" || got.ContentType != "application/json" || got.IdempotencyHeader != "Idempotency-Key" ||
		got.Timeout != 10*time.Second || got.Concurrency != 16 || got.Conflict != "in_progress" || got.Delete.Method != "DELETE" ||
		got.Retry != (Retry{Budget: 15 * time.Second, Delay: 100 * time.Millisecond, MaxDelay: 5 * time.Second, MaxWait: time.Minute}) {
		t.Errorf("defaults: got %+v", got)
	}
}
