//go:build unix

package services

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestCertificatesServeBothEnds(t *testing.T) {
	t.Parallel()
	s := Authority(t)
	if err := s.writeStore(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, client string
		wantErr      bool
	}{
		{name: "with a certificate", client: "alice"},
		{name: "without", client: "", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := handshake(t, s, tt.client)
			if (err != nil) != tt.wantErr {
				t.Fatalf("handshake: got error %v, want one: %t", err, tt.wantErr)
			}
			if got != tt.client {
				t.Errorf("common name that the server saw: got %q, want %q", got, tt.client)
			}
		})
	}
}

// handshake connects a client with that certificate to a server that asks for
// one, and returns the common name that the server saw.
func handshake(t *testing.T, s *Security, client string) (string, error) {
	t.Helper()
	store := filepath.Join(s.dir, "broker.pem")
	pair, err := tls.LoadX509KeyPair(store, store)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := s.TLS(client)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: conf.RootCAs,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	name := make(chan string, 1)
	go func() {
		defer close(name)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if c.(*tls.Conn).Handshake() == nil {
			name <- c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
		}
	}()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: testTimeout}, "tcp", l.Addr().String(), conf)
	if err == nil {
		// With TLS 1.3 a refused certificate shows at the first read.
		if _, rerr := c.Read(make([]byte, 1)); rerr != io.EOF {
			err = rerr
		}
		c.Close()
	}
	return <-name, err
}

func TestCertIsMadeOnce(t *testing.T) {
	t.Parallel()
	s, err := newSecurity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var got [2][]byte
	for i := range got {
		file, _, err := s.Cert("bob")
		if err != nil {
			t.Fatal(err)
		}
		if got[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if string(got[0]) != string(got[1]) {
		t.Error("the second call made another certificate")
	}
}
