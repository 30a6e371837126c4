package httpsink

import (
	"net/url"
	"strings"
	"testing"

	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// What is sent is made of settings and record, and of nothing that differs
// between attempts.
func TestRequest(t *testing.T) {
	t.Parallel()
	p := newPartner(t, nil)
	c := quick(p.URL + "/v1?tenant=7")
	c.Method = "PUT"
	c.Path = `"payments/" + value.id + "/a b?c#d%2f"`
	c.Headers = map[string]string{"X-Fixed": "f", "Host": "partner.example"}
	c.HeaderExprs = map[string]string{"X-Amount": "amount", "X-Key": "key", "X-Big": "big"}
	c.IdempotencyKey = "big"
	c.IdempotencyHeader = "X-Request-Id"
	c.ContentType = "application/vnd.payments+json"
	c.Auth = &Auth{Username: "u", Password: "p w"}
	e := entry(0, "a", "k1")
	e.Value = []byte(`{ "id":"x", "amount" : 1.10,"big":9007199254740993 , "u":"ü"}`)
	task := openTask(t, newTestSink(t, c), testOwner)
	mustApply(t, task, batchOf(e))
	q := p.all()[0]
	if q.method != "PUT" || q.body != string(e.Value) {
		t.Errorf("request: got %s %s, want PUT with the record's bytes", q.method, q.body)
	}
	if want := "/v1/payments/x/a b?c#d%2f"; q.path != want {
		t.Errorf("path: got %q, want %q", q.path, want)
	}
	for name, want := range map[string]string{
		"X-Fixed": "f", "X-Amount": "1.10", "X-Key": "k1", "X-Big": "9007199254740993", "X-Request-Id": "9007199254740993",
		"Content-Type": "application/vnd.payments+json", "Authorization": "Basic " + basicAuth("u", "p w"), "User-Agent": "exactly",
	} {
		if got := q.header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	if q.query != "tenant=7" || q.host != "partner.example" {
		t.Errorf("query and host: got %q, %q; want tenant=7, partner.example", q.query, q.host)
	}
}

// A record that cannot become a call is a dead letter, without any request, and
// the same one in every replay.
func TestRecordsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value string
		edit        func(*Config)
		code        string
	}{
		{"no field", `{"a":1}`, func(c *Config) { c.IdempotencyKey = "payment_id" }, "expression"},
		{"not JSON", `{"a"`, func(c *Config) { c.IdempotencyKey = "payment_id" }, "not_json"},
		{"null key", `{"a":null}`, func(c *Config) { c.IdempotencyKey = "a" }, "wrong_type"},
		{"absent key", `{}`, func(c *Config) { c.IdempotencyKey = "value.?a" }, "wrong_type"},
		{"list as key", `{"a":[1]}`, func(c *Config) { c.IdempotencyKey = "a" }, "wrong_type"},
		{"empty key", `{"a":""}`, func(c *Config) { c.IdempotencyKey = "a" }, "idempotency_key"},
		{"key with a blank at its end", `{"a":"x "}`, func(c *Config) { c.IdempotencyKey = "a" }, "idempotency_key"},
		{"key beyond ASCII", `{"a":"ü"}`, func(c *Config) { c.IdempotencyKey = "a" }, "idempotency_key"},
		{"key with a line break", `{"a":"x\r\nX-Evil: 1"}`, func(c *Config) { c.IdempotencyKey = "a" }, "idempotency_key"},
		{"header with a line break", `{"a":"x\r\nX-Evil: 1"}`, func(c *Config) { c.HeaderExprs = map[string]string{"X-A": "a"} }, "header"},
		{"path that climbs out", `{"a":"../../admin"}`, func(c *Config) { c.Path = `"p/" + a` }, "path"},
		{"empty path", `{"a":"/"}`, func(c *Config) { c.Path = "a" }, "path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, nil)
			c := quick(p.URL)
			tt.edit(&c)
			s := newTestSink(t, c)
			e := entry(0, "a", "k")
			e.Value = []byte(tt.value)
			var first sink.Verdict
			for range 2 {
				res, err := openTask(t, s, testOwner).Apply(t.Context(), batchOf(e))
				if err != nil || res.Through != e.Pos || len(res.Verdicts) != 1 || res.Verdicts[0].Code != tt.code {
					t.Fatalf("apply: got %+v, %v; want one verdict %s", res, err, tt.code)
				}
				if first.Code != "" && res.Verdicts[0] != first {
					t.Errorf("replay: got %+v, want %+v", res.Verdicts[0], first)
				}
				first = res.Verdicts[0]
			}
			if n := len(p.all()); n != 0 {
				t.Errorf("requests: got %d, want 0", n)
			}
		})
	}
}

func TestNewRefusesExpressions(t *testing.T) {
	t.Parallel()
	declared, err := cel.NewEnv(cel.Options{Fields: map[string]cel.Type{"payment_id": cel.TypeString}, Epoch: true})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"syntax", func(c *Config) { c.Path = "1 +" }, "sink partner: http.path: 1:"},
		{"unknown field", func(c *Config) { c.IdempotencyKey = "payment_ix" }, "http.idempotency_key: 1:1: "},
		{"epoch", func(c *Config) { c.IdempotencyKey = `payment_id + string(epoch.number)` }, "http.idempotency_key: epoch cannot be used"},
		{"epoch in a header", func(c *Config) { c.HeaderExprs = map[string]string{"X-E": "epoch.attempt"} }, "http.header_exprs.X-E: epoch cannot be used"},
		{"delete without path", func(c *Config) { c.Delete = &Delete{} }, "http.delete.path: is required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := quick("https://partner.example/")
			tt.edit(&c)
			if _, err := New("partner", c, Deps{Env: declared}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// The default key is the same in every attempt and generation, and another one
// for every other record, sink and incarnation.
func TestDefaultKey(t *testing.T) {
	t.Parallel()
	r := record.Record{Source: record.Position{Topic: "payments.raw", Partition: 3, Offset: 42}}
	const want = "00f1e2d3c4b5a697/partner/payments.raw-3-42/0"
	o := testOwner
	for range 2 {
		if got := DefaultKey(o, &r); got != want {
			t.Errorf("key: got %q, want %q", got, want)
		}
		o.Attempt, o.Generation, o.Task, o.Tasks = 9, 9, 9, 9
	}
	seen := map[string]bool{want: true}
	for name, edit := range map[string]func(*sink.Owner, *record.Record){
		"incarnation": func(o *sink.Owner, _ *record.Record) { o.Incarnation = "00f1e2d3c4b5a698" },
		"sink":        func(o *sink.Owner, _ *record.Record) { o.Sink = "partner2" },
		"topic":       func(_ *sink.Owner, r *record.Record) { r.Source.Topic = "payments.raw-3" },
		"partition":   func(_ *sink.Owner, r *record.Record) { r.Source.Partition = 34 },
		"offset":      func(_ *sink.Owner, r *record.Record) { r.Source.Offset = 4 },
		"sub":         func(_ *sink.Owner, r *record.Record) { r.Sub = 1 },
	} {
		o, r := testOwner, r
		edit(&o, &r)
		key := DefaultKey(o, &r)
		if seen[key] || !validKey(key) {
			t.Errorf("%s: key %q is not another valid one", name, key)
		}
		seen[key] = true
	}
}

func FuzzJoin(f *testing.F) {
	for _, s := range []string{"a", "/a/b", "../x", "a?b=c#d", "//evil.example/x", "%2e%2e/x", "a\\..\\b"} {
		f.Add(s)
	}
	base, err := url.Parse("https://partner.example/v1/?k=v")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := join(base, path)
		if err != nil {
			return
		}
		back, err := url.Parse(u.String())
		if err != nil {
			t.Fatalf("join %q gives %q, which does not parse: %v", path, u, err)
		}
		if back.Host != base.Host || back.RawQuery != base.RawQuery || back.Fragment != "" {
			t.Errorf("join %q changes host, query or fragment: %s", path, back)
		}
		if want := "/v1/" + strings.TrimLeft(path, "/"); back.Path != want {
			t.Errorf("join %q: got path %q, want %q", path, back.Path, want)
		}
	})
}
