//go:build services

package failures

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
	"exactly/test/rig"
)

// librdkafka reads a topic at read_committed with a client that has nothing in
// common with the product's, and gives its lines.
func librdkafka(t *testing.T, c *services.KafkaCluster, topic string) []string {
	t.Helper()
	root, err := services.Root()
	rig.Check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*rig.Patience)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(root, "test", "services", "librdkafka.sh"), "read", strings.Join(c.Bootstrap(), ","), topic)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("read %s with librdkafka: %v\n%s", topic, err, errs.String())
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// reread wants the independent reader to find n payments in the output topic,
// each once, and no dead letter.
func reread(p *rig.Pipeline, n int64) {
	p.T.Helper()
	times := map[string]int{}
	lines := librdkafka(p.T, p.Cluster, p.Out)
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) == 3 {
			times[f[2]]++
		}
	}
	copies := 0
	for _, k := range times {
		copies += k - 1
	}
	p.T.Logf("librdkafka: %d payments, %d copies", len(times), copies)
	if int64(len(times)) != n || copies != 0 {
		p.T.Errorf("librdkafka finds %d payments in %s and %d copies, want %d and none", len(times), p.Out, copies, n)
	}
	if got := librdkafka(p.T, p.Cluster, p.DLQ); len(got) != 1 || got[0] != "" {
		p.T.Errorf("librdkafka finds %d dead letters, want none", len(got))
	}
}

// TestIndependentReader: the reader that agrees with the other tests sees a
// copy where there is one, and nothing of what was aborted or is open.
func TestIndependentReader(t *testing.T) {
	c := services.Kafka(t, one)
	topic := c.Topic(t, "reread", 1, nil)
	write := func(cl *kgo.Client, values ...string) {
		for _, v := range values {
			rig.Check(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(v)}).FirstErr())
		}
	}
	txn := func(id string, end kgo.TransactionEndTry, values ...string) {
		cl := c.Client(t, kgo.TransactionalID(t.Name()+id))
		rig.Check(t, cl.BeginTransaction())
		write(cl, values...)
		rig.Check(t, cl.EndTransaction(t.Context(), end))
	}
	txn("committed", kgo.TryCommit, "a", "b", "b")
	txn("aborted", kgo.TryAbort, "c")
	open := c.Client(t, kgo.TransactionalID(t.Name()+"open"))
	rig.Check(t, open.BeginTransaction())
	write(open, "d")
	want := "0 0 61,0 1 62,0 2 62"
	if got := strings.Join(librdkafka(t, c, topic), ","); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
