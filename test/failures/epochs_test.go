//go:build services

package failures

import (
	"context"
	"fmt"
	"testing"
	"time"

	"exactly/internal/services"
	"exactly/test/rig"
)

// producers gives the producer ids and epochs that the coordinators have for
// the two transactional ids of task 0.
func producers(ctx context.Context, t *testing.T, p *rig.Pipeline) (ids [2]int64, epochs [2]int16) {
	t.Helper()
	names := p.TxnIDs(p.Tasks)(0)
	described, err := p.Admin.DescribeTransactions(ctx, names...)
	rig.Check(t, err)
	for i, name := range names {
		d := described[name]
		rig.Check(t, d.Err)
		ids[i], epochs[i] = d.ProducerID, d.ProducerEpoch
	}
	return ids, epochs
}

// TestProducerEpochsRunOut (8): with transaction version 2 each commit uses up a
// producer epoch, of which there are 32,767. At full size all of them are used
// on both ids, so that the cluster has to give others: the task neither notices
// nor takes over. At small size some hundred are.
func TestProducerEpochsRunOut(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched"}, Epoch: "{ interval: 5ms }"})
	l := p.Load(1000, 0)
	w := p.Run(0)
	p.AwaitTasks(1, w)
	begin := time.Now()
	first, _ := producers(t.Context(), t, p)
	full := rig.Sized(t, false, true)
	var commits int64
	rig.Await(t, "producer epochs to be used up", func(ctx context.Context) (string, bool) {
		w.MustLive()
		ids, epochs := producers(ctx, t, p)
		commits = int64(epochs[0]) + int64(epochs[1])
		done := min(epochs[0], epochs[1]) > 200
		if full {
			done = done && ids[0] != first[0] && ids[1] != first[1]
			commits += 2 * 32_767
		}
		return fmt.Sprint(ids, epochs), done
	})
	took := time.Since(begin)
	t.Logf("about %d commits in %s, %s each", commits, took.Round(time.Second), (took / time.Duration(commits)).Round(10*time.Microsecond))
	if n := count(w, "attempt_over"); n > 0 {
		t.Errorf("%d attempts are over: the task has noticed", n)
	}
	n := l.Stop()
	l.WaitOutput(n)
	p.Stop(w)
	p.WantRight(n)
	reread(p, n)
}

// TestExpiredTransactionalIDs (7): a pipeline is idle for longer than the
// brokers remember its transactional ids, and then there is a record. (It renews
// them daily; the default of the brokers is a week.)
func TestExpiredTransactionalIDs(t *testing.T) {
	expire := rig.Sized(t, 5*time.Second, time.Minute)
	c := services.Kafka(t, services.Options{Nodes: 1, Own: true, Settings: fmt.Sprintf(
		"transactional.id.expiration.ms=%d\ntransaction.remove.expired.transaction.cleanup.interval.ms=1000\n"+
			"producer.id.expiration.ms=%[1]d\nproducer.id.expiration.check.interval.ms=1000", expire.Milliseconds())})
	p := rig.New(t, c, rig.Shape{Tasks: 2, Partitions: 2})
	l := p.Load(0, 50)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	l.Complete(w)
	rig.Await(t, "the brokers to forget", func(ctx context.Context) (string, bool) {
		listed, err := p.Admin.ListTransactions(ctx, nil, nil)
		rig.Check(t, err)
		n := 0
		for _, id := range listed.TransactionalIDs() {
			if id != p.Group()+".meta" {
				n++
			}
		}
		return fmt.Sprint(n, " ids"), n == 0
	})
	rig.Pause(t, 2*expire)
	over := count(w, "attempt_over")
	if over > 0 {
		t.Errorf("%d attempts were over while there was nothing to do", over)
	}
	l.Produce(0, 1)
	l.Complete(w)
	if n := count(w, "attempt_over"); n > 2 {
		t.Errorf("%d attempts are over, want one for each id that was forgotten at most", n)
	}
	finish(p, l, w)
}
