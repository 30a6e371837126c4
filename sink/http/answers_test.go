package httpsink

import (
	"net/http"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	replayed := http.Header{"Idempotent-Replayed": {"true"}}
	tests := []struct {
		name     string
		edit     func(*Config)
		status   int
		header   http.Header
		deleting bool
		unkeyed  bool
		want     meaning
	}{
		{name: "200", status: 200, want: done},
		{name: "204", status: 204, want: done},
		{name: "202 in the table", status: 202, edit: answers("202", "transient"), want: transient},
		{name: "301", status: 301, want: transient},
		{name: "400", status: 400, want: poison},
		{name: "401", status: 401, want: transient},
		{name: "403", status: 403, want: transient},
		{name: "404 of a fixed address", status: 404, want: transient},
		{name: "404 of a computed path", status: 404, edit: withPath, want: poison},
		{name: "404 of a delete", status: 404, deleting: true, want: done},
		{name: "410 of a delete", status: 410, deleting: true, want: done},
		{name: "405", status: 405, want: transient},
		{name: "408", status: 408, want: transient},
		{name: "409", status: 409, want: transient},
		{name: "409 done", status: 409, edit: func(c *Config) { c.Conflict = "done" }, want: done},
		{name: "413", status: 413, want: poison},
		{name: "415", status: 415, want: transient},
		{name: "422 with a key", status: 422, want: inDoubt},
		{name: "422 without a key", status: 422, unkeyed: true, want: poison},
		{name: "425", status: 425, want: transient},
		{name: "429", status: 429, want: transient},
		{name: "451", status: 451, want: poison},
		{name: "500", status: 500, want: transient},
		{name: "500 replayed", status: 500, header: replayed, want: inDoubt},
		{name: "201 replayed", status: 201, header: replayed, want: done},
		{name: "500 replayed, in the table", status: 500, header: replayed, edit: answers("500", "poison"), want: poison},
		{name: "503", status: 503, want: transient},
		{name: "class in the table", status: 418, edit: answers("4xx", "poison"), want: poison},
		{name: "class in the table, upper case", status: 418, edit: answers("4XX", "poison"), want: poison},
		{name: "status before class", status: 418, edit: func(c *Config) {
			c.Answers = map[string]string{"4xx": "poison", "418": "done"}
		}, want: done},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Conflict: "in_progress"}
			if tt.edit != nil {
				tt.edit(&c)
			}
			p, err := newPolicy(&c)
			if err != nil {
				t.Fatal(err)
			}
			p.keyed = !tt.unkeyed
			if got, _ := p.judge(tt.status, tt.header, nil, tt.deleting); got != tt.want {
				t.Errorf("judge %d: got %d, want %d", tt.status, got, tt.want)
			}
		})
	}
}

func answers(status, meaning string) func(*Config) {
	return func(c *Config) { c.Answers = map[string]string{status: meaning} }
}

func withPath(c *Config) { c.Path = "id" }

func TestIsKeyProblem(t *testing.T) {
	t.Parallel()
	const js, problem = "application/json", "application/problem+json; charset=utf-8"
	tests := []struct {
		name, contentType, body string
		want                    bool
	}{
		{"the draft's", problem, `{"type":"https://developer.example.com/idempotency","title":"Idempotency-Key is already used"}`, true},
		{"title alone", problem, `{"title":"Idempotency-Key is already used","status":422}`, true},
		{"Stripe's", js, `{"error":{"type":"idempotency_error","message":"…"}}`, true},
		{"code", js, `{"code":"IDEMPOTENCY_KEY_REUSED"}`, true},
		{"error as text", js, `{"error":"idempotency_key_mismatch"}`, true},
		{"another error", js, `{"error":{"type":"invalid_request_error"},"code":17}`, false},
		{"free text is not looked at", js, `{"message":"idempotency"}`, false},
		{"not JSON", "text/plain", `{"code":"idempotency"}`, false},
		{"no type", "", `{"code":"idempotency"}`, false},
		{"cut short", js, `{"code":"idempotency`, false},
		{"a list", js, `["idempotency"]`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := isKeyProblem(tt.contentType, []byte(tt.body)); got != tt.want {
				t.Errorf("isKeyProblem: got %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzIsKeyProblem(f *testing.F) {
	f.Add([]byte(`{"error":{"type":"idempotency_error"}}`))
	f.Add([]byte(`{"error":[1],"code":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		isKeyProblem("application/json", body)
		if n := len(snippet(body)); n > 310 {
			t.Errorf("snippet: got %d bytes, want at most 310", n)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-1": 0, "soon": 0, "99999999999": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("Retry-After %q: got %s, want %s", value, got, want)
		}
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		"  a\r\n\tb\x00\x1b[31mc  ": "a b [31mc",
		"gr\xfcn":                   "gr?n",
	} {
		if got := snippet([]byte(in)); got != want {
			t.Errorf("snippet %q: got %q, want %q", in, got, want)
		}
	}
}
