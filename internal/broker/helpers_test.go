package broker

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/embedded"
)

// fake starts a cluster of three brokers in memory and gives a Config for it.
func fake(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, Config) {
	t.Helper()
	return fakeOf(t, 3, opts...)
}

func fakeOf(t *testing.T, brokers int, opts ...kfake.Opt) (*kfake.Cluster, Config) {
	t.Helper()
	net := &kfake.VirtualNetwork{}
	ports := make([]int, brokers)
	for i := range ports {
		ports[i] = 9092 + i
	}
	c, err := embedded.Start(append([]kfake.Opt{kfake.Ports(ports...), kfake.ListenFn(net.Listen)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, Config{
		Brokers: c.ListenAddrs(), Pipeline: "payments", CreateTopics: true,
		Dialer: net.DialContext, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func newAdmin(t *testing.T, c Config) *Admin {
	t.Helper()
	a, err := NewAdmin(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// soon is a context that ends with the test, or after a time in which
// everything that can go right has gone right.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func plan(t *testing.T, a *Admin, change ...func(*PlanInput)) Plan {
	t.Helper()
	in := PlanInput{
		Names: a.Names(1), Tasks: 4, Sources: []string{"payments.raw"}, Outputs: []string{"payments.enriched"},
		CreateTopics: true,
	}
	for _, f := range change {
		f(&in)
	}
	p, err := NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// problem asserts a Problem with a code whose text has all the parts.
func problem(t *testing.T, err error, code Code, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", code)
	}
	if got := CodeOf(err); got != code {
		t.Errorf("code %q, want %q: %v", got, code, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q:\n%v", part, err)
		}
	}
}

// write produces records without a transaction.
func write(t *testing.T, a *Admin, recs ...*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(append(a.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(soon(t), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// openTxn leaves a transaction with the records open until the test's end.
func openTxn(t *testing.T, a *Admin, id string, recs ...*kgo.Record) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(a.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(id))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(soon(t), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return cl
}
