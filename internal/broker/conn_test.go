package broker

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue gives a certificate and its key, both PEM, for a host name.
func (a *authority) issue(host string, until time.Time) (cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	kder, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kder})
}

// tlsCluster listens on real sockets with a certificate for broker.test.
func tlsCluster(t *testing.T, a *authority, until time.Time, mutual bool) Config {
	t.Helper()
	cert, key := a.issue("broker.test", until)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if mutual {
		conf.ClientCAs, conf.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		conf.ClientCAs.AddCert(a.cert)
	}
	cl, err := embedded.Start(kfake.NumBrokers(1), kfake.TLS(conf), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return Config{Brokers: cl.ListenAddrs(), Pipeline: "payments", Log: slog.New(slog.DiscardHandler)}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	ca, otherCA := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "other.pem")
	writeFile(t, ca, string(ours.pem))
	writeFile(t, otherCA, string(theirs.pem))
	writeFile(t, filepath.Join(dir, "junk.pem"), "junk")
	good := tlsCluster(t, ours, time.Now().Add(time.Hour), false)
	expired := tlsCluster(t, ours, time.Now().Add(-time.Minute), false)
	for name, tc := range map[string]struct {
		c     Config
		tls   TLS
		parts []string // of the error; none: it works
	}{
		"right":      {good, TLS{CAFile: ca, ServerName: "broker.test"}, nil},
		"unchecked":  {good, TLS{InsecureSkipVerify: true}, nil},
		"other ca":   {good, TLS{CAFile: otherCA, ServerName: "broker.test"}, []string{"kafka.tls.ca_file"}},
		"system ca":  {good, TLS{ServerName: "broker.test"}, []string{"kafka.tls.ca_file"}},
		"other name": {good, TLS{CAFile: ca}, []string{"kafka.tls.server_name"}},
		"expired":    {expired, TLS{CAFile: ca, ServerName: "broker.test"}, []string{"renew the broker's certificate"}},
		"no file":    {good, TLS{CAFile: filepath.Join(dir, "none")}, []string{"kafka.tls.ca_file: cannot be read"}},
		"junk":       {good, TLS{CAFile: filepath.Join(dir, "junk.pem")}, []string{"holds no certificate"}},
		"no pair":    {good, TLS{CertFile: ca, KeyFile: ca}, []string{"kafka.tls.cert_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tc.c
			c.TLS = tc.tls
			c.TLS.Enabled = true
			err := newAdmin(t, c).Ping(soon(t))
			if tc.parts == nil {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			problem(t, err, CodeTLS, tc.parts...)
		})
	}
}

// TestTLSWrongPort: a listener that does not speak TLS, and plain against one
// that does.
func TestTLSWrongPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("this is not TLS"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	c := Config{Brokers: []string{l.Addr().String()}, Pipeline: "payments", Log: slog.New(slog.DiscardHandler), TLS: TLS{Enabled: true}}
	problem(t, newAdmin(t, c).Ping(soon(t)), CodeTLS, "does not speak TLS", "kafka.tls.enabled")
	plain := tlsCluster(t, newAuthority(t), time.Now().Add(time.Hour), false)
	problem(t, newAdmin(t, plain).Ping(soon(t)), CodeAuth, "closed the connection", "kafka.tls")
}

// TestMutualTLS: the client's certificate is read again for each connection,
// also by a client that was made before.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	c := tlsCluster(t, a, time.Now().Add(time.Hour), true)
	dir := t.TempDir()
	c.TLS = TLS{
		Enabled: true, CAFile: filepath.Join(dir, "ca"), CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"),
		ServerName: "broker.test",
	}
	put := func(from *authority) {
		cert, key := from.issue("worker", time.Now().Add(time.Hour))
		writeFile(t, c.TLS.CAFile, string(a.pem))
		writeFile(t, c.TLS.CertFile, string(cert))
		writeFile(t, c.TLS.KeyFile, string(key))
	}
	put(newAuthority(t))
	early := newAdmin(t, c)
	problem(t, early.Ping(soon(t)), CodeTLS, "ended the TLS connection", "kafka.tls.cert_file")
	put(a)
	if err := early.Ping(soon(t)); err != nil {
		t.Errorf("after the change: %v", err)
	}
	none := c
	none.TLS.CertFile, none.TLS.KeyFile = "", ""
	problem(t, newAdmin(t, none).Ping(soon(t)), CodeTLS, "wants a client certificate")

	// In the middle of a rotation the last good pair is used.
	d := &tlsDialer{set: c.TLS, dial: (&net.Dialer{}).DialContext, log: c.Log}
	for _, change := range []func(){
		func() {}, func() { writeFile(t, c.TLS.CertFile, "half") }, func() { writeFile(t, c.TLS.CAFile, "") }, func() { put(a) },
	} {
		change()
		conn, err := d.DialContext(soon(t), "tcp", c.Brokers[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}

// TestHandshakeEnds: a listener that accepts and is silent does not hold the
// dial for longer than its context.
func TestHandshakeEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	d := &tlsDialer{set: TLS{Enabled: true}, dial: (&net.Dialer{}).DialContext, log: slog.New(slog.DiscardHandler)}
	_, err = d.DialContext(ctx, "tcp", l.Addr().String())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	problem(t, err, CodeTLS, l.Addr().String())
}

func TestLogAdapter(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]kgo.LogLevel{
		slog.LevelDebug - 4: kgo.LogLevelDebug, slog.LevelDebug: kgo.LogLevelInfo, slog.LevelInfo: kgo.LogLevelWarn,
		slog.LevelWarn: kgo.LogLevelError, slog.LevelError: kgo.LogLevelNone,
	} {
		var b bytes.Buffer
		l := logAdapter{log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))}
		if got := l.Level(); got != want {
			t.Errorf("%v: got %v, want %v", level, got, want)
		}
		l.Log(want, "what happened", "the key", 7, "sasl_password", "hunter2", "odd")
		switch got := b.String(); {
		case want == kgo.LogLevelNone:
			if got != "" {
				t.Errorf("%v: logged %s", level, got)
			}
		case !strings.Contains(got, `msg=kafka_client event="what happened" the_key=7 sasl_password=(hidden)`):
			t.Errorf("%v: logged %s", level, got)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	_, c := fake(t)
	if err := newAdmin(t, c).Ping(soon(t)); err != nil {
		t.Error(err)
	}
	c.Brokers = []string{"localhost:1"}
	if err := newAdmin(t, c).Ping(soon(t)); err == nil || !strings.Contains(err.Error(), "localhost:1") {
		t.Errorf("got %v, want an error that names the broker", err)
	}
	_, err := NewAdmin(Config{Brokers: []string{"x"}, Pipeline: "p"})
	problem(t, err, CodeConfig, "x")
}

func TestProblem(t *testing.T) {
	t.Parallel()
	inner := errors.New("inner")
	for _, tc := range []struct {
		p    Problem
		want string
	}{
		{Problem{Code: CodeACL, Place: "topic x", Cause: "not allowed", Remedy: "ask", Err: inner}, "topic x: not allowed: inner; ask [kafka_acl]"},
		{Problem{Code: CodeACL, Cause: "not allowed"}, "not allowed [kafka_acl]"},
	} {
		if got := tc.p.Error(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	if err := error(&Problem{Err: inner}); !errors.Is(err, inner) {
		t.Error("the error underneath is lost")
	}
	if CodeOf(inner) != "" || CodeOf(nil) != "" {
		t.Error("a code from nothing")
	}
}
