package httpsink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"exactly/sink"
)

// TLS with an authority of one's own and a client certificate; both are
// replaced while the task is open; HTTP/2 where the partner speaks it.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, caKey := authority(t)
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", h2), func(t *testing.T) {
			t.Parallel()
			p := unstarted(nil)
			pool := x509.NewCertPool()
			pool.AddCert(ca)
			p.EnableHTTP2 = h2
			p.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
			p.StartTLS()
			t.Cleanup(p.stop)
			at := func(name string) string { return filepath.Join(dir, fmt.Sprintf("%v-%s", h2, name)) }
			c := quick(p.URL)
			c.Retry.Budget = 10 * time.Millisecond
			c.TLS = &TLS{CAFile: at("ca"), CertFile: at("cert"), KeyFile: at("key"), ServerName: "example.com"}
			other, otherKey := authority(t)
			writeClient(t, other, otherKey, at("cert"), at("key"))
			writePEM(t, at("ca"), "CERTIFICATE", other.Raw)
			task := openTask(t, newTestSink(t, c), testOwner)
			b := batchOf(entry(0, "a", "x"), entry(1, "b", "y"))
			if _, err := task.Apply(t.Context(), b); err == nil || sink.Classify(err) != sink.ClassTransient {
				t.Fatalf("apply with a foreign authority: got %v, want a transient error", err)
			}
			writePEM(t, at("ca"), "CERTIFICATE", p.Certificate().Raw)
			writeClient(t, ca, caKey, at("cert"), at("key"))
			drive(t, task, b)
			p.wantExecuted(t, 1, "a", "b")
			want := "HTTP/1.1"
			if h2 {
				want = "HTTP/2.0"
			}
			if got := p.all()[0].proto; got != want {
				t.Errorf("protocol: got %s, want %s", got, want)
			}
		})
	}
}

func authority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	return certificate(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
}

func certificate(t *testing.T, tmpl, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, parentKey = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func writeClient(t *testing.T, ca *x509.Certificate, caKey *ecdsa.PrivateKey, certFile, keyFile string) {
	t.Helper()
	cert, key := certificate(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "exactly"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", cert.Raw)
	writePEM(t, keyFile, "EC PRIVATE KEY", der)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
