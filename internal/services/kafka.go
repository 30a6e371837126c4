//go:build unix

package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options describe a cluster. Equal options name the same shared cluster.
type Options struct {
	Nodes              int    // combined brokers and controllers; 0 means 1; from 3 on: replication 3, min.insync.replicas 2
	TransactionVersion int    // finalised level of transaction.version; 0 means the newest that the broker knows
	Secure             bool   // TLS, SCRAM and ACLs; see KafkaCluster.Security
	Settings           string // lines "key=value" added to every broker's settings
	Own                bool   // not shared with other tests, stopped at the end of the test
}

// How long things may take on a slow machine before a test fails.
const (
	prepareTimeout = 10 * time.Minute // includes a first install
	startTimeout   = 4 * time.Minute
)

// KafkaCluster is a cluster of real brokers on the loopback interface. Its
// methods may be called from any goroutine.
type KafkaCluster struct {
	options  Options
	dir      string
	security *Security // nil unless Options.Secure

	mu    sync.Mutex // held while nodes are started and ended
	nodes []*node
}

type node struct {
	id                    int
	port, controller, tls int
	proc                  *Proc // nil before the first start
}

// shared is a cluster that several tests use, or why it could not be started.
type shared struct {
	once    sync.Once
	cluster *KafkaCluster
	err     error
}

// Kafka returns a cluster with these options in which every node is up and in
// sync. A shared cluster that an earlier test has left with some of its nodes
// killed or frozen is healed first.
func Kafka(t testing.TB, o Options) *KafkaCluster {
	t.Helper()
	r := theRun(t)
	o.Nodes = max(o.Nodes, 1)
	c, err := r.cluster(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logTo(t)
		}
		if o.Own {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.heal(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// heal wakes what is frozen, starts what is down, and waits until all is well.
func (c *KafkaCluster) heal(ctx context.Context) error {
	for _, n := range c.nodes {
		if p := c.Node(n.id); p != nil {
			if err := p.Thaw(); err != nil {
				return err
			}
		}
		if err := c.Start(ctx, n.id); err != nil {
			return err
		}
	}
	return c.InSync(ctx)
}

func (r *run) cluster(ctx context.Context, o Options) (*KafkaCluster, error) {
	if o.Own {
		return r.newCluster(ctx, o)
	}
	r.mu.Lock()
	s := r.clusters[o]
	if s == nil {
		s = &shared{}
		r.clusters[o] = s
	}
	r.mu.Unlock()
	s.once.Do(func() { s.cluster, s.err = r.newCluster(ctx, o) })
	return s.cluster, s.err
}

// newCluster writes the description of a cluster and formats it; the caller
// starts the nodes.
func (r *run) newCluster(ctx context.Context, o Options) (*KafkaCluster, error) {
	dir, err := os.MkdirTemp(r.dir, fmt.Sprintf("kafka-%d-", o.Nodes))
	if err != nil {
		return nil, fmt.Errorf("make the folder of a cluster: %w", err)
	}
	c := &KafkaCluster{options: o, dir: dir}
	ports, err := r.reserve(3 * o.Nodes)
	if err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		c.nodes = append(c.nodes, &node{id: i + 1, port: ports[3*i], controller: ports[3*i+1], tls: ports[3*i+2]})
	}
	if err := c.describe(); err != nil {
		return nil, fmt.Errorf("describe a cluster: %w", err)
	}
	if err := prepare(ctx, "kafka.sh", "prepare", dir); err != nil {
		return nil, err
	}
	return c, nil
}

// describe writes the files that kafka.sh reads.
func (c *KafkaCluster) describe() error {
	var nodes strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintln(&nodes, n.id, n.port, n.controller, n.tls)
	}
	files := map[string]string{"nodes": nodes.String()}
	if v := c.options.TransactionVersion; v != 0 {
		files["format.args"] = fmt.Sprintf("--feature transaction.version=%d\n", v)
	}
	if c.options.Settings != "" {
		files["extra.properties"] = c.options.Settings + "\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if !c.options.Secure {
		return nil
	}
	var err error
	if c.security, err = newSecurity(filepath.Join(c.dir, "security")); err != nil {
		return err
	}
	return c.security.writeStore()
}

// Bootstrap are the addresses of all nodes, also of those that are down: of
// the plain listener, or of SASL_SSL in a secure cluster.
func (c *KafkaCluster) Bootstrap() []string {
	return c.addresses(func(n *node) int { return n.port })
}

// BootstrapTLS are the addresses of the listener of a secure cluster on which
// the client certificate alone says who the client is.
func (c *KafkaCluster) BootstrapTLS() []string {
	return c.addresses(func(n *node) int { return n.tls })
}

func (c *KafkaCluster) addresses(port func(*node) int) []string {
	var a []string
	for _, n := range c.nodes {
		a = append(a, fmt.Sprintf("127.0.0.1:%d", port(n)))
	}
	return a
}

// Security is the key material of a secure cluster; nil for a plain one.
func (c *KafkaCluster) Security() *Security { return c.security }

// Stop ends all nodes at once, hard: nothing of them is needed any more.
func (c *KafkaCluster) Stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, c.Kill(n.id))
	}
	return errors.Join(errs...)
}

// logTo shows what the brokers complained about last.
func (c *KafkaCluster) logTo(t testing.TB) {
	for _, n := range c.nodes {
		c.mu.Lock()
		p := n.proc
		c.mu.Unlock()
		if p != nil {
			t.Logf("last warnings of %s (alive: %t):\n%s", p.name, p.Alive(), p.complaints(10))
		}
	}
}
