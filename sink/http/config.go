package httpsink

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config is what a pipeline file says under `http:`. Where a zero value has a
// default, New fills it in.
type Config struct {
	URL               string            `yaml:"url" required:"true" example:"https://partner.example/v1/events" doc:"Address that every record is sent to."`
	Path              string            `yaml:"path" expr:"any" example:"\"merchants/\" + merchant_id" doc:"Path to add to the address, per record; taken as text, so that no part of a record can change host or query."`
	Method            string            `yaml:"method" default:"POST" enum:"POST|PUT|PATCH" doc:"HTTP method."`
	Headers           map[string]string `yaml:"headers" secret:"true" doc:"Headers of every call."`
	HeaderExprs       map[string]string `yaml:"header_exprs" expr:"any" doc:"Headers whose value (a text, number or bool) is computed per record; not sent with deletes."`
	ContentType       string            `yaml:"content_type" default:"application/json" doc:"Content-Type of the body, which is the record's value, byte for byte."`
	IdempotencyKey    string            `yaml:"idempotency_key" expr:"any" example:"payment_id" doc:"Key (a text or number) under which the partner carries a call out once; by default made of pipeline incarnation, sink and source position. A business key means one call per key, ever."`
	IdempotencyHeader string            `yaml:"idempotency_header" default:"Idempotency-Key" doc:"Header that carries the key."`
	Timeout           time.Duration     `yaml:"timeout" default:"10s" min:"1ms" doc:"Time limit of one call; afterwards its outcome is unknown and it is asked again with the same key."`
	Concurrency       int               `yaml:"concurrency" default:"16" min:"1" max:"1024" doc:"Calls at a time, per task; records of one key still go one by one."`
	Conflict          string            `yaml:"conflict" default:"in_progress" enum:"in_progress|done" doc:"What 409 means: the same key is being worked on (asked again), or it was carried out before (done)."`
	Answers           map[string]string `yaml:"answers" enum:"done|poison|transient|in_doubt" example:"{\"422\": poison, \"5xx\": transient}" doc:"Meaning of a status (404) or of a class (4xx), where it differs from the defaults."`
	FollowRedirects   bool              `yaml:"follow_redirects" doc:"Follow 307 and 308 on the same host; by default a redirect is an answer that stops and alerts."`
	CheckURL          string            `yaml:"check_url" example:"https://partner.example/healthz" doc:"Address for a GET at the start, which must be answered below 400; by default no request is made."`
	Retry             Retry             `yaml:"retry" doc:"Repeating a call that failed for the moment, before the sink's breaker hears of it."`
	Auth              *Auth             `yaml:"auth" doc:"Credentials."`
	TLS               *TLS              `yaml:"tls" doc:"Certificates for https."`
	Delete            *Delete           `yaml:"delete" doc:"Call to make for a tombstone; without it tombstones are dropped and counted."`
}

// Retry bounds the repeating of one record within one Apply. When it is used
// up, Apply returns with what it achieved, and is called again later.
type Retry struct {
	Budget   time.Duration `yaml:"budget" default:"15s" doc:"No attempt begins later than this after the record's first one."`
	Delay    time.Duration `yaml:"delay" default:"100ms" min:"1ms" doc:"Wait after the first failure; it doubles, with jitter."`
	MaxDelay time.Duration `yaml:"max_delay" default:"5s" doc:"Longest wait between two attempts."`
	MaxWait  time.Duration `yaml:"max_wait" default:"1m" doc:"Longest Retry-After that is respected."`
}

// Auth holds credentials: a bearer token, or a user with a password. Files are
// read again when they change.
type Auth struct {
	BearerToken     string `yaml:"bearer_token" secret:"true" doc:"Token for Authorization: Bearer."`
	BearerTokenFile string `yaml:"bearer_token_file" doc:"File with the token."`
	Username        string `yaml:"username" doc:"User for basic authentication."`
	Password        string `yaml:"password" secret:"true" doc:"Password for basic authentication."`
	PasswordFile    string `yaml:"password_file" doc:"File with the password."`
}

// TLS names certificates. Files are read again when they change.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file of the authorities to trust, instead of the system's."`
	CertFile           string `yaml:"cert_file" doc:"PEM file of the client certificate."`
	KeyFile            string `yaml:"key_file" doc:"PEM file of its key."`
	ServerName         string `yaml:"server_name" doc:"Name to expect in the partner's certificate, if not the host's."`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" doc:"Accept any certificate; for tests only."`
}

// Delete is the call for a tombstone. It has no body and carries the default
// idempotency key, since there is no value to take one from; 404 and 410 count
// as done.
type Delete struct {
	Method string `yaml:"method" default:"DELETE" enum:"DELETE|POST|PUT" doc:"HTTP method."`
	Path   string `yaml:"path" required:"true" expr:"any" example:"\"payments/\" + key" doc:"Path to add to the address; sees key, headers and source only."`
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	orString(&c.Method, http.MethodPost)
	orString(&c.ContentType, "application/json")
	orString(&c.IdempotencyHeader, "Idempotency-Key")
	orString(&c.Conflict, "in_progress")
	orDuration(&c.Timeout, 10*time.Second)
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	orDuration(&c.Retry.Budget, 15*time.Second)
	orDuration(&c.Retry.Delay, 100*time.Millisecond)
	orDuration(&c.Retry.MaxDelay, 5*time.Second)
	orDuration(&c.Retry.MaxWait, time.Minute)
	if c.Delete != nil {
		d := *c.Delete
		orString(&d.Method, http.MethodDelete)
		c.Delete = &d
	}
	return c
}

func orString(p *string, v string) {
	if *p == "" {
		*p = v
	}
}

func orDuration(p *time.Duration, v time.Duration) {
	if *p == 0 {
		*p = v
	}
}

// validate looks at what can be told without the file system and the network.
func (c *Config) validate() error {
	if _, err := parseURL("url", c.URL); err != nil {
		return err
	}
	if c.CheckURL != "" {
		if _, err := parseURL("check_url", c.CheckURL); err != nil {
			return err
		}
	}
	if c.Concurrency < 0 || c.Timeout < 0 || c.Retry.Budget < 0 || c.Retry.Delay < 0 {
		return errors.New("concurrency, timeout, retry.budget and retry.delay must not be negative")
	}
	if c.Conflict != "in_progress" && c.Conflict != "done" {
		return fmt.Errorf("conflict: %q is neither in_progress nor done", c.Conflict)
	}
	if err := c.Auth.validate(c); err != nil {
		return err
	}
	if t := c.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		return errors.New("tls: cert_file and key_file belong together: set both or neither")
	}
	return c.validateHeaders()
}

func (a *Auth) validate(c *Config) error {
	if a == nil {
		return nil
	}
	bearer := a.BearerToken != "" || a.BearerTokenFile != ""
	basic := a.Username != "" || a.Password != "" || a.PasswordFile != ""
	switch {
	case bearer && basic:
		return errors.New("auth: a bearer token and a user at once; set one of them")
	case !bearer && !basic:
		return errors.New("auth: is empty: set bearer_token, bearer_token_file, or username with password or password_file")
	case a.BearerToken != "" && a.BearerTokenFile != "":
		return errors.New("auth: bearer_token and bearer_token_file at once; set one of them")
	case a.Password != "" && a.PasswordFile != "":
		return errors.New("auth: password and password_file at once; set one of them")
	case basic && a.Username == "":
		return errors.New("auth: a password without username")
	}
	if u, err := url.Parse(c.URL); err == nil && u.User != nil {
		return errors.New("auth: url names a user as well; keep one of them")
	}
	return nil
}

// validateHeaders refuses headers that cannot be sent, that the sink or net/http
// sets by itself, or that are set twice.
func (c *Config) validateHeaders() error {
	if !validName(c.IdempotencyHeader) {
		return fmt.Errorf("idempotency_header: %q cannot be the name of a header", c.IdempotencyHeader)
	}
	taken := map[string]string{
		"Content-Length":    "is set by itself",
		"Transfer-Encoding": "is set by itself",
		"Connection":        "is set by itself",
		"Content-Type":      "is set by content_type",
		http.CanonicalHeaderKey(c.IdempotencyHeader): "is set by idempotency_key",
	}
	if c.Auth != nil {
		taken["Authorization"] = "is set by auth"
	}
	for _, group := range []struct {
		setting string
		names   map[string]string
	}{{"headers", c.Headers}, {"header_exprs", c.HeaderExprs}} {
		for _, name := range sortedKeys(group.names) {
			if !validName(name) {
				return fmt.Errorf("%s: %q cannot be the name of a header", group.setting, name)
			}
			canonical := http.CanonicalHeaderKey(name)
			if why, ok := taken[canonical]; ok {
				return fmt.Errorf("%s.%s: %s; leave it out", group.setting, name, why)
			}
			taken[canonical] = "is there twice"
		}
	}
	for name, value := range c.Headers {
		if !validValue(value) {
			return fmt.Errorf("headers.%s: the value has characters that a header cannot carry", name)
		}
	}
	return nil
}

// parseURL never shows the address in its error: it may hold a password.
func parseURL(setting, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: is not a URL", setting)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: must begin with http:// or https://", setting)
	case u.Host == "":
		return nil, fmt.Errorf("%s: names no host", setting)
	case u.Fragment != "" || strings.Contains(s, "#"):
		return nil, fmt.Errorf("%s: has a fragment (#…), which is never sent", setting)
	}
	return u, nil
}
