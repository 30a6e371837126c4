//go:build services

package harness

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"exactly/internal/services"
)

var secure = services.Options{Nodes: 3, Secure: true}

// as makes a client for u that is closed at the end of the test.
func as(t *testing.T, c *services.KafkaCluster, u services.User, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(c.As(t, u), opts...)...)
	check(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func TestSecureClusterUpholdsACLs(t *testing.T) {
	c := services.Kafka(t, secure)
	ctx := deadline(t)
	open, closed := c.Topic(t, "open", 1, nil), c.Topic(t, "closed", 1, nil)
	u := c.User(t, "writer")
	c.Allow(t, kadm.NewACLs().Allow("User:"+u.Name).AllowHosts("*").
		Topics(open).Operations(kadm.OpWrite, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral))
	c.Allow(t, kadm.NewACLs().Allow("User:"+u.Name).AllowHosts("*").
		TransactionalIDs("writer-").Operations(kadm.OpWrite, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternPrefixed))

	p := as(t, c, u, kgo.TransactionalID("writer-1"))
	check(t, write(ctx, p, open, kgo.TryCommit, "a"))
	wantValues(t, "what the admin reads", read(ctx, t, c, open, 1, kgo.FetchIsolationLevel(kgo.ReadCommitted())), "a")

	tests := []struct {
		name string
		act  func() error
		want error
	}{
		{"write to another topic", func() error {
			return as(t, c, u).ProduceSync(ctx, &kgo.Record{Topic: closed}).FirstErr()
		}, kerr.TopicAuthorizationFailed},
		{"another transactional id", func() error {
			return write(ctx, as(t, c, u, kgo.TransactionalID("reader-1")), open, kgo.TryCommit, "b")
		}, kerr.TransactionalIDAuthorizationFailed},
		{"make a topic", func() error {
			_, err := kadm.NewClient(as(t, c, u)).CreateTopic(ctx, 1, -1, nil, "anything")
			return err
		}, kerr.TopicAuthorizationFailed},
		{"read its own topic", func() error {
			cl := as(t, c, u, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{open: {0: kgo.NewOffset().AtStart()}}))
			return cl.PollFetches(ctx).Err()
		}, kerr.TopicAuthorizationFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.act(); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestSecureClusterRefusesStrangers(t *testing.T) {
	c := services.Kafka(t, secure)
	u := c.User(t, "stranger")
	tls, err := c.Security().TLS(u.Name)
	check(t, err)
	bare, err := c.Security().TLS("")
	check(t, err)
	login := kgo.SASL(scram.Auth{User: u.Name, Pass: u.Password}.AsSha512Mechanism())
	guess := kgo.SASL(scram.Auth{User: u.Name, Pass: "guess"}.AsSha512Mechanism())
	sasl, mtls := kgo.SeedBrokers(c.Bootstrap()...), kgo.SeedBrokers(c.BootstrapTLS()...)
	tests := []struct {
		name   string
		opts   []kgo.Opt
		wantOK bool
	}{
		{"SCRAM and certificate", []kgo.Opt{sasl, kgo.DialTLSConfig(tls), login}, true},
		{"wrong password", []kgo.Opt{sasl, kgo.DialTLSConfig(tls), guess}, false},
		{"no password", []kgo.Opt{sasl, kgo.DialTLSConfig(tls)}, false},
		{"SCRAM without certificate", []kgo.Opt{sasl, kgo.DialTLSConfig(bare), login}, false},
		{"no TLS", []kgo.Opt{sasl, login}, false},
		{"certificate alone", []kgo.Opt{mtls, kgo.DialTLSConfig(tls)}, true},
		{"neither", []kgo.Opt{mtls, kgo.DialTLSConfig(bare)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cl, err := kgo.NewClient(append(tt.opts, kgo.RequestRetries(0))...)
			check(t, err)
			defer cl.Close()
			if err := cl.Ping(deadline(t)); (err == nil) != tt.wantOK {
				t.Errorf("ping: got %v, want success: %t", err, tt.wantOK)
			}
		})
	}
}

// TestCertificateNamesTheUser: on the TLS listener the common name decides
// what ACLs allow.
func TestCertificateNamesTheUser(t *testing.T) {
	c := services.Kafka(t, secure)
	ctx := deadline(t)
	topic := c.Topic(t, "harness", 1, nil)
	c.Allow(t, kadm.NewACLs().Allow("User:carol").AllowHosts("*").
		Topics(topic).Operations(kadm.OpWrite, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral))
	for name, want := range map[string]error{"carol": nil, "mallory": kerr.TopicAuthorizationFailed} {
		tls, err := c.Security().TLS(name)
		check(t, err)
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.BootstrapTLS()...), kgo.DialTLSConfig(tls))
		check(t, err)
		defer cl.Close()
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr(); !errors.Is(err, want) {
			t.Errorf("%s writes: got %v, want %v", name, err, want)
		}
	}
}
