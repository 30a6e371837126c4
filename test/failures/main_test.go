//go:build services

package failures

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

func TestMain(m *testing.M) { os.Exit(services.MainTimed(m)) }

// The clusters that tests share. In the older one a producer's epoch does not
// rise with each transaction (before KIP-890).
var (
	one   = services.Options{Nodes: 1}
	older = services.Options{Nodes: 1, TransactionVersion: 1}
	three = services.Options{Nodes: 3}
)

// forever lets a pipeline go on after any number of failures, as its tests
// cause them, and soon.
const forever = "{ max: 1000, delay: 50ms, max_delay: 500ms }"

// behind makes a pipeline whose workers reach the brokers through a proxy only.
// Everybody else goes past it.
func behind(t *testing.T, c *services.KafkaCluster, s rig.Shape) (*rig.Pipeline, *kafka.Proxy) {
	t.Helper()
	px := kafka.Start(t, c.Bootstrap())
	s.Brokers = px.Bootstrap()
	p := rig.New(t, c, s)
	p.Auditor = &rig.Connection{Brokers: c.Bootstrap()}
	return p, px
}

// txnID is a transactional id of a pipeline: lane "a" or "b" of a task.
func txnID(p *rig.Pipeline, task int32, lane string) string {
	return p.TxnIDs(p.Tasks)(task)[lane[0]-'a']
}

// met waits until a rule has acted upon n messages.
func met(t *testing.T, what string, a *kafka.Armed, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	if err := a.Wait(ctx, n); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// refusals notes the error codes that the brokers answer to EndTxn, Produce and
// TxnOffsetCommit of a transactional id.
func refusals(px *kafka.Proxy, key kmsg.Key, id string) <-chan int16 {
	codes := make(chan int16, 1000)
	note := func(code int16) {
		if code == 0 {
			return
		}
		select {
		case codes <- code:
		default: // nobody waits for that many
		}
	}
	px.Add(kafka.Rule{Key: key, Answer: true, TxnID: id, Times: proxy.Always, Act: kafka.RewriteAnswer(func(_ kmsg.Request, r kmsg.Response) {
		switch r := r.(type) {
		case *kmsg.EndTxnResponse:
			note(r.ErrorCode)
		case *kmsg.ProduceResponse:
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					note(p.ErrorCode)
				}
			}
		case *kmsg.TxnOffsetCommitResponse:
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					note(p.ErrorCode)
				}
			}
		}
	})})
	return codes
}

// said waits until the log of a worker has another line of a kind than n ago.
func said(t *testing.T, w *rig.Worker, msg string, more int) {
	t.Helper()
	rig.Await(t, "the worker to say "+msg, func(context.Context) (string, bool) {
		n := count(w, msg)
		return fmt.Sprint(n), n > more
	})
}

// count is how many lines of a kind the log of a worker has.
func count(w *rig.Worker, msg string) int {
	n := 0
	for _, e := range w.Entries() {
		if e.Msg == msg {
			n++
		}
	}
	return n
}

// finish ends the load, waits for the sinks, stops the workers, and wants every
// sink to hold every payment once, none of it seen before its decision.
func finish(p *rig.Pipeline, l *rig.Load, ws ...*rig.Worker) {
	p.T.Helper()
	n := l.Stop()
	if p.Partner != nil {
		p.Partner.Calm()
	}
	l.Complete(ws...)
	p.Stop(ws...)
	l.WantDecided()
	p.WantRight(n)
	reread(p, n)
}
