package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// dialTimeout bounds opening a connection, and once more its TLS handshake.
const dialTimeout = 10 * time.Second

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func dialer(c Config) dialFunc {
	dial := c.Dialer
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if !c.TLS.Enabled {
		return dial
	}
	return (&tlsDialer{set: c.TLS, dial: dial, log: c.Log}).DialContext
}

// tlsDialer reads its files for each connection. While a rotation is under way
// a certificate may not fit its key, or a file be half written: then the last
// ones that fitted are used.
type tlsDialer struct {
	set  TLS
	dial dialFunc
	log  *slog.Logger

	mu   sync.Mutex
	last *tls.Config
}

func (d *tlsDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conf, err := d.config()
	if err != nil {
		return nil, err
	}
	if conf.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial broker %s: %w", address, err)
		}
		conf.ServerName = host
	}
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one to tell
		return nil, handshakeError(address, err)
	}
	return conn, nil
}

func handshakeError(address string, err error) error {
	p := &Problem{Code: CodeTLS, Place: "broker " + address, Cause: "TLS handshake", Err: err}
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		p.Remedy = "give the authority that signed the broker's certificate in kafka.tls.ca_file"
	case errors.As(err, &host):
		p.Remedy = "give a name that the certificate has in kafka.tls.server_name, or reach the brokers by such a name"
	case errors.As(err, &invalid):
		p.Remedy = "renew the broker's certificate, or look at the clock of this machine"
	case errors.As(err, &record):
		p.Remedy = "the port does not speak TLS: use the brokers' TLS listener, or set kafka.tls.enabled: false"
	}
	return p
}

// config gives a configuration that the caller may change.
func (d *tlsDialer) config() (*tls.Config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conf, err := d.set.load()
	switch {
	case err == nil:
		d.last = conf
	case d.last == nil:
		return nil, err
	default:
		d.log.Warn("kafka_tls_files_unreadable", "err", err, "using", "the last good ones")
	}
	return d.last.Clone(), nil
}

func (t TLS) load() (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // the user's word, documented
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, &Problem{Code: CodeTLS, Place: "kafka.tls.ca_file", Cause: "cannot be read", Err: err}
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &Problem{
				Code: CodeTLS, Place: "kafka.tls.ca_file", Cause: t.CAFile + " holds no certificate",
				Remedy: "give a PEM file with BEGIN CERTIFICATE lines",
			}
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, &Problem{
				Code: CodeTLS, Place: "kafka.tls.cert_file", Cause: t.CertFile + " and " + t.KeyFile + " cannot be used",
				Remedy: "give a PEM certificate and its unencrypted PEM key", Err: err,
			}
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
