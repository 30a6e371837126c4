//go:build services

package failures

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// TestDeadLettersOfAbortedEpochs (37): epochs with dead letters are aborted and
// done again, by refusals of steps and of sinks. A reader at read_uncommitted
// sees the letters of the aborted ones; a committed one sees one of each.
func TestDeadLettersOfAbortedEpochs(t *testing.T) {
	p, px := behind(t, services.Kafka(t, one), rig.Shape{
		Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "partner"}, Epoch: "{ timeout: 2s }", Restart: forever,
	})
	p.Partner.Poison = func(b []byte) bool { return bytes.Contains(b, []byte(`"poison"`)) }
	p.Partner.Calm()
	l := p.Load(0, 100)
	w := p.Run(0)
	l.WaitOutput(100)
	cl := p.Cluster.Client(t)
	want := map[string]int{}
	for i := range rig.Sized(t, 6, 50) {
		// The transaction is refused after the letters are in it, first that of the
		// steps' and later that of the sink's.
		refused := px.Add(kafka.Rule{Key: kmsg.EndTxn, From: 1 + i%2, Act: kafka.Rewrite(func(r *kmsg.EndTxnRequest) { r.ProducerID += 1 << 40 })})
		for _, value := range []string{`not JSON`, `{"payment_id":"p%d","amount_cents":5,"merchant_id":"poison","event_time":"2026-01-31T10:00:00Z"}`} {
			rec := &kgo.Record{Topic: p.Raw, Key: fmt.Appendf(nil, "odd-%d", i), Value: []byte(strings.ReplaceAll(value, "%d", fmt.Sprint(i)))}
			rig.Check(t, cl.ProduceSync(t.Context(), rec).FirstErr())
			want[fmt.Sprint(rec.Offset)] = 1
		}
		met(t, "EndTxn", refused, 1)
		rig.Await(t, "the dead letters", func(context.Context) (string, bool) {
			n := len(p.Letters(kgo.ReadCommitted()))
			return fmt.Sprint(n), n >= len(want)
		})
		px.Clear()
	}
	p.Stop(w)
	if got := p.Letters(kgo.ReadCommitted()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("dead letters by offset of the source: got %v, want %v", got, want)
	}
	copies := 0
	for _, n := range p.Letters(kgo.ReadUncommitted()) {
		copies += n - 1
	}
	if copies == 0 {
		t.Error("no epoch with a dead letter was aborted: there is nothing to see")
	}
	t.Logf("%d dead letters, %d more in aborted transactions", len(want), copies)
	if lines := librdkafka(t, p.Cluster, p.DLQ); len(lines) != len(want) {
		t.Errorf("librdkafka finds %d dead letters, want %d", len(lines), len(want))
	}
	if code, r := p.Audit(); code != 0 {
		t.Errorf("audit: exit code %d, %+v", code, r)
	}
}

// TestKillAtEachSink (38): the process dies between the commits of the sinks of
// one epoch, at each of them.
func TestKillAtEachSink(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 2, Partitions: 2, Restart: forever})
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	p.AwaitTasks(2, w)
	out := p.Follow()
	for _, point := range []string{"sink/before-commit", "sink/after-commit", "epoch/before-apply", "epoch/applied"} {
		for hit := 1; hit <= rig.Sized(t, 4, 12); hit++ {
			rig.Check(t, w.Kill())
			w = p.Run(0, fmt.Sprintf("%s:hit=%d=kill", point, hit))
			if code := w.Exit(); code != -1 {
				t.Fatalf("%s, hit %d: the worker ended by itself, exit code %d", point, hit, code)
			}
			w = p.Run(0)
			out.Current(l)
		}
	}
	finish(p, l, w)
}

// TestCommitsRefused (40): a sink refuses its commits for long. Journal records
// stay small, and all is committed afterwards.
func TestCommitsRefused(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "lake"}, RollAge: "1s", Folder: `"day=1"`, Restart: forever,
	})
	lake := filepath.Join(p.Dir, "lake")
	rig.Check(t, os.MkdirAll(lake, 0o755))
	inTheWay := filepath.Join(lake, "day=1")
	rig.Check(t, os.WriteFile(inTheWay, nil, 0o644)) // a file where the folder has to be
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	w := p.Run(0)
	p.AwaitTasks(1, w)
	rig.Pause(t, rig.Sized(t, 20*time.Second, 10*time.Minute))
	out.Current(l) // the other sink goes on
	rig.Check(t, w.Kill())
	w = p.Run(0)
	p.AwaitTasks(1, w) // a takeover carries what is pending
	out.Current(l)
	p.WantSmallJournal()
	rig.Check(t, os.Remove(inTheWay))
	finish(p, l, w)
}

// TestForeignMarks (42): a pipeline of the same name on another cluster, and one
// that is made anew after its topics were deleted, meet the marks that the first
// left in a sink. Both are refused, and the sink stays as it is.
func TestForeignMarks(t *testing.T) {
	first := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "records"}})
	l := first.Load(0, 100)
	l.Watch(1, nil)
	w := first.Run(0)
	l.Complete(w)
	first.Stop(w)
	l.WantDecided()

	other := rig.New(t, services.Kafka(t, older), rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "records"}})
	other.Name, other.DB = first.Name, first.DB
	other.Write()
	other.Batch(0, 100)
	other.Refused(1, "records", "marks of another incarnation")
	first.WantRight(100)

	for _, topic := range []string{first.Group() + ".meta", first.Journal(), first.Group() + ".g1.outbox"} {
		_, err := first.Admin.DeleteTopic(t.Context(), topic)
		rig.Check(t, err)
	}
	_, err := first.Admin.DeleteGroup(t.Context(), first.Group())
	rig.Check(t, err)
	first.Refused(1, "records", "marks of another incarnation")
}

// TestTransientErrorsAreNoPoison (39): every answer to a produce is an error for
// a while, as when leaders move, and no record becomes a dead letter for it.
func TestTransientErrorsAreNoPoison(t *testing.T) {
	p, px := behind(t, services.Kafka(t, three), rig.Shape{Tasks: 2, Restart: forever, Epoch: "{ timeout: 5s }"})
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	w := p.Run(0)
	p.AwaitTasks(2, w)
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable} {
		a := px.Add(kafka.Rule{Key: kmsg.Produce, Answer: true, Times: proxy.Always, Act: kafka.Code(e)})
		met(t, "answers to produces", a, rig.Sized(t, 30, 300))
		px.Clear()
		out.Current(l)
	}
	finish(p, l, w)
}
