package httpsink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Bounds on what a partner can make us hold in memory, in bytes.
const (
	maxBody    = 64 << 10  // of an answer that is looked at
	maxDrain   = 256 << 10 // of one that is not, for the connection's reuse; beyond it the connection is closed
	maxHeaders = 64 << 10
)

// clientSource is the client of one task.
type clientSource struct{ watched[*http.Client] }

func (s *clientSource) close() {
	if c, err := s.get(); err == nil {
		c.CloseIdleConnections()
	}
}

// newClient gives a client whose pool holds as many connections as calls run at
// a time, and which is made again when a certificate file changes.
func newClient(c *Config) *clientSource {
	w := &clientSource{watched: watched[*http.Client]{
		load: func() (*http.Client, error) { return buildClient(c) },
		drop: func(old *http.Client) { old.CloseIdleConnections() },
	}}
	if t := c.TLS; t != nil {
		for _, path := range []string{t.CAFile, t.CertFile, t.KeyFile} {
			if path != "" {
				w.paths = append(w.paths, path)
			}
		}
	}
	return w
}

func buildClient(c *Config) (*http.Client, error) {
	tc, err := tlsConfig(c.TLS)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        tc,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    c.Concurrency,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    c.Timeout,
			MaxResponseHeaderBytes: maxHeaders,
			DisableCompression:     true,
			// A dead HTTP/2 connection would let every call on it run into its
			// time-out; a ping notices it.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		},
		CheckRedirect: redirectPolicy(c.FollowRedirects),
	}, nil
}

// redirectPolicy: a redirect that changes the method would make the call
// another one, and one to another host would carry the credentials there.
func redirectPolicy(follow bool) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if !follow || len(via) > 5 || req.Method != first.Method ||
			req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

func tlsConfig(t *TLS) (*tls.Config, error) {
	tc := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return tc, nil
	}
	tc.ServerName, tc.InsecureSkipVerify = t.ServerName, t.InsecureSkipVerify
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		tc.RootCAs = x509.NewCertPool()
		if !tc.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, errors.Join(errors.New("tls.cert_file, tls.key_file: no usable pair"), err)
		}
		tc.Certificates = []tls.Certificate{cert}
	}
	return tc, nil
}
