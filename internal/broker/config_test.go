package broker

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	good := Config{Brokers: []string{"localhost:9092"}, Pipeline: "payments"}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   []string // parts of the error; none: valid
	}{
		"defaults":          {func(*Config) {}, nil},
		"no broker":         {func(c *Config) { c.Brokers = nil }, []string{"kafka.brokers: no broker"}},
		"broker no port":    {func(c *Config) { c.Brokers = []string{"localhost"} }, []string{"“localhost” is not host:port"}},
		"replication":       {func(c *Config) { c.Replication = -1 }, []string{"kafka.replication"}},
		"session too short": {func(c *Config) { c.SessionTimeout = time.Millisecond }, []string{"kafka.session_timeout"}},
		"heartbeat":         {func(c *Config) { c.HeartbeatInterval = 4 * time.Second }, []string{"kafka.heartbeat_interval: 4s", "6s"}},
		"pipeline":          {func(c *Config) { c.Pipeline = "Pay" }, []string{`pipeline: the name "Pay"`}},
		"prefix reserved":   {func(c *Config) { c.Prefix = "__x" }, []string{"kafka.prefix"}},
		"tls off":           {func(c *Config) { c.TLS.CAFile = "x" }, []string{"kafka.tls.enabled"}},
		"tls no key":        {func(c *Config) { c.TLS = TLS{Enabled: true, CertFile: "x"} }, []string{"kafka.tls.key_file"}},
		"tls no cert":       {func(c *Config) { c.TLS = TLS{Enabled: true, KeyFile: "x"} }, []string{"kafka.tls.cert_file"}},
		"sasl no mechanism": {func(c *Config) { c.SASL.Username = "u" }, []string{"kafka.sasl.mechanism: is missing"}},
		"sasl unknown":      {func(c *Config) { c.SASL.Mechanism = "GSSAPI" }, []string{"“GSSAPI” is not known"}},
		"plain no user":     {func(c *Config) { c.SASL = SASL{Mechanism: "PLAIN", Password: "p"} }, []string{"kafka.sasl.username"}},
		"plain no password": {func(c *Config) { c.SASL = SASL{Mechanism: "PLAIN", Username: "u"} }, []string{"exactly one of password"}},
		"plain both": {func(c *Config) {
			c.SASL = SASL{Mechanism: "PLAIN", Username: "u", Password: "p", PasswordFile: "f"}
		}, []string{"exactly one of password"}},
		"plain token": {func(c *Config) {
			c.SASL = SASL{Mechanism: "SCRAM-SHA-256", Username: "u", Password: "p", Token: "t"}
		}, []string{"takes no token"}},
		"plain":           {func(c *Config) { c.SASL = SASL{Mechanism: "PLAIN", Username: "u", Password: "p"} }, nil},
		"bearer user":     {func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER", Username: "u", Token: "t"} }, []string{"no username"}},
		"bearer nothing":  {func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER"} }, []string{"exactly one of token"}},
		"bearer two":      {func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER", Token: "t", TokenFile: "f"} }, []string{"exactly one of token"}},
		"bearer":          {func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER", TokenFile: "f"} }, nil},
		"oauth url":       {func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER", OAuth: OAuth{TokenURL: "x"}} }, []string{"oauth.token_url"}},
		"oauth no client": {func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER", OAuth: OAuth{TokenURL: "https://x/t"}} }, []string{"oauth.client_id"}},
		"oauth no secret": {func(c *Config) {
			c.SASL = SASL{Mechanism: "OAUTHBEARER", OAuth: OAuth{TokenURL: "https://x/t", ClientID: "c"}}
		}, []string{"oauth.client_secret"}},
		"several at once": {func(c *Config) { c.Brokers, c.Replication = nil, -1 }, []string{"kafka.brokers", "kafka.replication"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good
			tc.change(&c)
			err := c.Validate()
			if len(tc.want) == 0 {
				if err != nil {
					t.Fatalf("got %v, want none", err)
				}
				if _, err := Options(c); err != nil {
					t.Fatalf("options: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("valid, want an error")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q: %v", part, err)
				}
			}
			if _, err := Options(c); err == nil {
				t.Error("options were made of it")
			}
		})
	}
}

func TestConfigShowsNoSecret(t *testing.T) {
	t.Parallel()
	c := Config{
		Brokers: []string{"b:1"}, Pipeline: "p",
		SASL: SASL{
			Mechanism: "PLAIN", Username: "u", Password: "hunter2", Token: "hunter2",
			OAuth: OAuth{TokenURL: "https://u:hunter2@idp/token?k=hunter2", ClientSecret: "hunter2"},
		},
	}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", c, "sasl", c.SASL, "oauth", c.SASL.OAuth)
	for _, s := range []string{b.String(), fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%v", &c), c.SASL.OAuth.String()} {
		if strings.Contains(s, "hunter2") {
			t.Errorf("shows the secret: %s", s)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ session, want time.Duration }{
		{0, 200 * time.Millisecond}, {time.Second, time.Second / 30}, {45 * time.Second, time.Second},
	} {
		if got := (Config{SessionTimeout: tc.session}).WithDefaults().HeartbeatInterval; got != tc.want {
			t.Errorf("heartbeat of session %v: got %v, want %v", tc.session, got, tc.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	var sum time.Duration
	for i := range 100 {
		d := backoff(i)
		if d < 10*time.Millisecond || d > 500*time.Millisecond {
			t.Errorf("backoff(%d) = %v", i, d)
		}
		sum += d
	}
	if sum < 30*time.Second {
		t.Errorf("100 tries take %v: an election is longer than that", sum)
	}
}
