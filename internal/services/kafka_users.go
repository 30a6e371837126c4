//go:build unix

package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// User is a SCRAM-SHA-512 user of a secure cluster with a certificate of the
// same name. Without ACLs it may do nothing.
type User struct {
	Name     string
	Password string
	CAFile   string // all files are PEM
	CertFile string
	KeyFile  string
}

// User makes a user, or gives it a new password, and returns when every broker
// accepts it: brokers learn of users one after the other.
func (c *KafkaCluster) User(t testing.TB, name string) User {
	t.Helper()
	if c.security == nil {
		t.Fatal("services: users need a cluster with Options.Secure")
	}
	certFile, keyFile, err := c.security.Cert(name)
	if err != nil {
		t.Fatal(err)
	}
	u := User{Name: name, Password: rand.Text(), CAFile: c.security.CAFile(), CertFile: certFile, KeyFile: keyFile}
	cl, err := c.adminClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	altered, err := kadm.NewClient(cl).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
		{User: name, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: u.Password},
	})
	if err == nil {
		err = altered.Error()
	}
	if err != nil {
		t.Fatalf("make user %s: %v", name, err)
	}
	if err := poll(ctx, nil, func(ctx context.Context) error { return c.accepted(ctx, u) }); err != nil {
		t.Fatalf("wait for user %s: %v", name, err)
	}
	return u
}

// As returns the options of a client that connects to SASL_SSL as u.
func (c *KafkaCluster) As(t testing.TB, u User) []kgo.Opt {
	t.Helper()
	opts, err := c.as(u)
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

func (c *KafkaCluster) as(u User) ([]kgo.Opt, error) {
	tls, err := c.security.TLS(u.Name)
	if err != nil {
		return nil, err
	}
	return []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap()...),
		kgo.DialTLSConfig(tls),
		kgo.SASL(scram.Auth{User: u.Name, Pass: u.Password}.AsSha512Mechanism()),
	}, nil
}

// accepted is nil when u can log in at every broker.
func (c *KafkaCluster) accepted(ctx context.Context, u User) error {
	for _, address := range c.Bootstrap() {
		opts, err := c.as(u)
		if err != nil {
			return err
		}
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(address))...)
		if err != nil {
			return fmt.Errorf("make a client for %s: %w", u.Name, err)
		}
		_, err = cl.SeedBrokers()[0].Request(ctx, kmsg.NewPtrMetadataRequest())
		cl.Close()
		if err != nil {
			return fmt.Errorf("log in at %s: %w", address, err)
		}
	}
	return nil
}

// Allow creates ACLs and returns when every broker that is up upholds them.
func (c *KafkaCluster) Allow(t testing.TB, acls *kadm.ACLBuilder) {
	t.Helper()
	cl, err := c.adminClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	created, err := kadm.NewClient(cl).CreateACLs(ctx, acls)
	if err != nil {
		t.Fatalf("create ACLs: %v", err)
	}
	for _, a := range created {
		if a.Err != nil {
			t.Fatalf("create ACL %s: %v (%s)", aclKey(a.Type, a.Name, a.Pattern, a.Principal, a.Host, a.Operation, a.Permission), a.Err, a.ErrMessage)
		}
	}
	if err := poll(ctx, nil, func(ctx context.Context) error { return upheld(ctx, cl, created) }); err != nil {
		t.Fatalf("wait for ACLs: %v", err)
	}
}

// upheld is nil when every broker lists the ACLs. Each broker decides by its
// own copy of the metadata log, which may be behind the controller's.
func upheld(ctx context.Context, cl *kgo.Client, want kadm.CreateACLsResults) error {
	brokers, err := kadm.NewClient(cl).ListBrokers(ctx)
	if err != nil {
		return err
	}
	for _, id := range brokers.NodeIDs() {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		resp, err := cl.Broker(int(id)).Request(ctx, req)
		if err != nil {
			return fmt.Errorf("list ACLs: %w", err)
		}
		has := map[string]bool{}
		for _, r := range resp.(*kmsg.DescribeACLsResponse).Resources {
			for _, a := range r.ACLs {
				has[aclKey(r.ResourceType, r.ResourceName, r.ResourcePatternType, a.Principal, a.Host, a.Operation, a.PermissionType)] = true
			}
		}
		for _, a := range want {
			key := aclKey(a.Type, a.Name, a.Pattern, a.Principal, a.Host, a.Operation, a.Permission)
			if !has[key] {
				return errors.New("a broker does not know ACL " + key)
			}
		}
	}
	return nil
}

func aclKey(typ kmsg.ACLResourceType, name string, pattern kadm.ACLPattern, principal, host string, op kadm.ACLOperation, perm kmsg.ACLPermissionType) string {
	return fmt.Sprintf("%v %s (%v): %s@%s %v %v", typ, name, pattern, principal, host, perm, op)
}
