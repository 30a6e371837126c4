package broker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config says how to reach Kafka and under which names the pipeline lives
// there. The zero value of each field is documented at the field; Brokers and
// Pipeline have none.
type Config struct {
	Brokers  []string // host:port of some brokers; the others are found through them
	Prefix   string   // of topics, transactional ids and group; "": "exactly"
	Pipeline string   // its name

	Replication  int  // of topics that are created; 0: 3 where there are 3 brokers, else their number
	CreateTopics bool // whether missing topics of ours are created

	TLS  TLS
	SASL SASL

	SessionTimeout    time.Duration // of the group; 0: 6 s
	HeartbeatInterval time.Duration // 0: a thirtieth of the session time-out, at most 1 s

	ClientID string // as brokers log it; "": "exactly"

	// Dialer opens plain connections, TLS is laid over them. nil: TCP. Tests
	// give the one of kfake's VirtualNetwork.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	Log    *slog.Logger // nil: slog.Default

	// login is shared by the copies of a Config that come from WithDefaults, so
	// that a worker's clients use one OAuth token and not one each.
	login *login
}

// TLS says how connections are encrypted. Files are read again for each new
// connection.
type TLS struct {
	Enabled            bool
	CAFile             string // PEM; "": the system's authorities
	CertFile, KeyFile  string // PEM, of the client, for mutual TLS; both or none
	ServerName         string // to expect in the brokers' certificates; "": the host that is dialled
	InsecureSkipVerify bool   // accepts every certificate: for a look at a test cluster only
}

// SASL says how clients log in. Secrets in files are read again for each new
// connection.
type SASL struct {
	Mechanism              string // "": no login; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
	Username               string // not with OAUTHBEARER
	Password, PasswordFile string // one of both, not with OAUTHBEARER
	Token, TokenFile       string // OAUTHBEARER: a token from elsewhere
	OAuth                  OAuth  // OAUTHBEARER: tokens by client credentials
}

// OAuth is the client credentials grant (RFC 6749, section 4.4).
type OAuth struct {
	TokenURL                       string // "": unused
	ClientID                       string
	ClientSecret, ClientSecretFile string       // one of both
	Scope                          string       // space separated; "": none
	HTTP                           *http.Client // nil: the standard one with a time limit of 10 s
}

// String gives the mechanism and no secret, so that a printed Config has none.
func (s SASL) String() string { return "SASL(" + s.Mechanism + ")" }

// GoString is String.
func (s SASL) GoString() string { return s.String() }

// LogValue is String.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String gives the token URL and no secret.
func (o OAuth) String() string { return "OAuth(" + o.place() + ")" }

// place is the token URL without a password in it.
func (o OAuth) place() string {
	u, err := url.Parse(o.TokenURL)
	if err != nil {
		return "?"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// GoString is String.
func (o OAuth) GoString() string { return o.String() }

// LogValue is String.
func (o OAuth) LogValue() slog.Value { return slog.StringValue(o.String()) }

// WithDefaults gives the configuration with every zero value replaced. Its
// copies share one login: a worker calls it once and hands the result on.
func (c Config) WithDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "exactly"
	}
	if c.ClientID == "" {
		c.ClientID = "exactly"
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = 6 * time.Second
	}
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = min(c.SessionTimeout/30, time.Second)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.login == nil {
		c.login = &login{}
	}
	return c
}

// Names gives the names of one generation of the pipeline.
func (c Config) Names(generation int32) Names {
	return Names{Prefix: c.WithDefaults().Prefix, Pipeline: c.Pipeline, Generation: generation}
}

// Validate checks what can be known without a broker. The error joins one
// *Problem per wrong setting.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	wrong := func(setting, cause, remedy string) {
		errs = append(errs, &Problem{Code: CodeConfig, Place: "kafka." + setting, Cause: cause, Remedy: remedy})
	}
	if len(c.Brokers) == 0 {
		wrong("brokers", "no broker given", `give at least one, as in ["localhost:9092"]`)
	}
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil || host == "" || port == "" {
			wrong("brokers", "“"+b+"” is not host:port", `write it as in "localhost:9092"`)
			continue
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 {
			wrong("brokers", "“"+b+"” has no port from 1 to 65535", `write it as in "localhost:9092"`)
		}
	}
	if c.Replication < 0 {
		wrong("replication", "is below 0", "leave it at 0, which fits the cluster, or give the number of replicas")
	}
	if c.SessionTimeout < 100*time.Millisecond {
		wrong("session_timeout", c.SessionTimeout.String()+" is below 100ms", "brokers allow 6s to 30m by default")
	}
	if c.HeartbeatInterval <= 0 || c.HeartbeatInterval > c.SessionTimeout/2 {
		wrong("heartbeat_interval", c.HeartbeatInterval.String()+" does not fit twice into the session time-out of "+
			c.SessionTimeout.String(), "leave it at 0, or give at most half of kafka.session_timeout")
	}
	errs = append(errs, c.Names(1).Validate(), c.TLS.validate(), c.SASL.validate())
	return errors.Join(errs...)
}

func (t TLS) validate() error {
	wrong := func(setting, cause, remedy string) error {
		return &Problem{Code: CodeConfig, Place: "kafka.tls." + setting, Cause: cause, Remedy: remedy}
	}
	if !t.Enabled {
		if t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != "" || t.InsecureSkipVerify {
			return wrong("enabled", "TLS is off, but other settings of it are given", "set kafka.tls.enabled: true, or remove them")
		}
		return nil
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		return wrong("key_file", "is missing beside cert_file", "give both for mutual TLS, or none")
	case t.CertFile == "" && t.KeyFile != "":
		return wrong("cert_file", "is missing beside key_file", "give both for mutual TLS, or none")
	}
	return nil
}

func (s SASL) validate() error {
	wrong := func(setting, cause, remedy string) error {
		return &Problem{Code: CodeConfig, Place: "kafka.sasl." + setting, Cause: cause, Remedy: remedy}
	}
	user := s.Username != "" || s.Password != "" || s.PasswordFile != ""
	token := s.Token != "" || s.TokenFile != "" || s.OAuth.used()
	switch s.Mechanism {
	case "":
		if user || token {
			return wrong("mechanism", "is missing", "give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		}
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		switch {
		case token:
			return wrong("mechanism", s.Mechanism+" takes no token", "use username and password, or OAUTHBEARER")
		case s.Username == "":
			return wrong("username", "is missing for "+s.Mechanism, "give the user")
		case (s.Password == "") == (s.PasswordFile == ""):
			return wrong("password", "needs exactly one of password and password_file", "give one of them")
		}
	case "OAUTHBEARER":
		return s.validateBearer(user, wrong)
	default:
		return wrong("mechanism", "“"+s.Mechanism+"” is not known",
			"give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
	}
	return nil
}

func (s SASL) validateBearer(user bool, wrong func(setting, cause, remedy string) error) error {
	n := 0
	for _, given := range []bool{s.Token != "", s.TokenFile != "", s.OAuth.used()} {
		if given {
			n++
		}
	}
	switch {
	case user:
		return wrong("mechanism", "OAUTHBEARER takes no username or password", "use token, token_file or oauth")
	case n != 1:
		return wrong("token", "OAUTHBEARER needs exactly one of token, token_file and oauth", "give one of them")
	case !s.OAuth.used():
		return nil
	}
	u, err := url.Parse(s.OAuth.TokenURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return wrong("oauth.token_url", "is not an http(s) URL", "give the token endpoint of the identity provider")
	case s.OAuth.ClientID == "":
		return wrong("oauth.client_id", "is missing", "give the client id")
	case (s.OAuth.ClientSecret == "") == (s.OAuth.ClientSecretFile == ""):
		return wrong("oauth.client_secret", "needs exactly one of client_secret and client_secret_file", "give one of them")
	}
	return nil
}

func (o OAuth) used() bool {
	return strings.Join([]string{o.TokenURL, o.ClientID, o.ClientSecret, o.ClientSecretFile, o.Scope}, "") != ""
}
