//go:build unix

package services

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The principals that no ACL binds.
const (
	brokerName = "broker"
	adminName  = "admin"
)

// Security is the key material of a secure cluster or server: an authority of
// its own and certificates from it. The common name of a certificate is the user:
// on Kafka's TLS listener, and in PostgreSQL for the members of ByCertificate.
type Security struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex // serials and files are made one after the other
	serial int64
}

// Authority makes one that no server knows.
func Authority(t testing.TB) *Security {
	t.Helper()
	s, err := newSecurity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newSecurity writes the authority into dir.
func newSecurity(dir string) (*Security, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the authority: %w", err)
	}
	template := certificate("exactly test authority", 1)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the authority: %w", err)
	}
	s := &Security{dir: dir, cert: cert, key: key, serial: 1}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(s.CAFile(), ca, 0o644); err != nil {
		return nil, fmt.Errorf("write the authority: %w", err)
	}
	return s, nil
}

// writeStore writes the brokers' store. Kafka wants key, certificate and chain in
// one file (KIP-651).
func (s *Security) writeStore() error {
	certPEM, keyPEM, err := s.issue(brokerName, "localhost")
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "broker.pem"), bytes.Join([][]byte{keyPEM, certPEM, ca}, nil), 0o600); err != nil {
		return fmt.Errorf("write the brokers' store: %w", err)
	}
	return nil
}

func certificate(name string, serial int64) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          big.NewInt(serial),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(7 * 24 * time.Hour),
		BasicConstraintsValid: true,
	}
}

// issue makes a certificate for both ends of a connection to 127.0.0.1, or to one of
// hosts.
func (s *Security) issue(name string, hosts ...string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	s.serial++
	template := certificate(name, s.serial)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = hosts
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, s.cert, key.Public(), s.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key of %s: %w", name, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

// CAFile is the certificate of the authority, as PEM.
func (s *Security) CAFile() string { return filepath.Join(s.dir, "ca.pem") }

// Cert returns the files, as PEM, of a client certificate and its key with
// this common name. It is made by the first call with the name.
func (s *Security) Cert(name string) (certFile, keyFile string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	certFile = filepath.Join(s.dir, "client-"+name+".crt")
	keyFile = filepath.Join(s.dir, "client-"+name+".key")
	if _, err := os.Stat(certFile); err == nil {
		return certFile, keyFile, nil
	}
	if err := s.write(name, certFile, keyFile); err != nil {
		return "", "", err
	}
	return certFile, keyFile, nil
}

// write makes a certificate of name, for hosts as in issue. The key comes first:
// who finds the certificate has both.
func (s *Security) write(name, certFile, keyFile string, hosts ...string) error {
	certPEM, keyPEM, err := s.issue(name, hosts...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, keyPEM, 0o600); err != nil {
		return fmt.Errorf("write the key of %s: %w", name, err)
	}
	if err := os.WriteFile(certFile, certPEM, 0o644); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", name, err)
	}
	return nil
}

// TLS is the client configuration with the certificate of that name; the name
// "" means none, which a secure cluster refuses.
func (s *Security) TLS(name string) (*tls.Config, error) {
	pool := x509.NewCertPool()
	pool.AddCert(s.cert)
	c := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if name == "" {
		return c, nil
	}
	certFile, keyFile, err := s.Cert(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load the certificate of %s: %w", name, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
