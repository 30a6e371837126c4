//go:build services

package failures

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/services"
	"exactly/test/proxy/kafka"
	"exactly/test/rig"
)

// TestFetchOfRevokedTask (11): records that a worker has asked for arrive when
// others own its tasks.
func TestFetchOfRevokedTask(t *testing.T) {
	p, px := behind(t, services.Kafka(t, one), rig.Shape{Tasks: 2, Partitions: 2, Restart: forever})
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	first := p.Run(0)
	p.AwaitTasks(2, first)
	out.Current(l)
	held := px.Add(kafka.Rule{Key: kmsg.Fetch, Answer: true, Topic: p.Raw, Times: 2, Act: kafka.Hold()})
	met(t, "fetched records", held, 1)
	rig.Check(t, first.Freeze(t.Context()))
	second := p.Run(1)
	p.AwaitTasks(2, second)
	held.Release()
	rig.Check(t, first.Thaw())
	out.Current(l)
	finish(p, l, first, second)
}

// TestLostBatchIsNoticed (11): a batch is missing in what a broker returns, and
// no marker explains it. The worker says which offset is missing; the audit,
// which reads for itself, counts the loss. Aborted transactions in the source
// are no gap.
func TestLostBatchIsNoticed(t *testing.T) {
	p, px := behind(t, services.Kafka(t, one), rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched"}})
	w := p.Run(0)
	p.AwaitTasks(1, w)
	ids := p.Batch(0, 10)
	aborted := p.Cluster.Client(t, kgo.TransactionalID(t.Name()))
	rig.Check(t, aborted.BeginTransaction())
	rig.Check(t, aborted.ProduceSync(t.Context(), &kgo.Record{Topic: p.Raw, Value: []byte("never")}).FirstErr())
	rig.Check(t, aborted.EndTransaction(t.Context(), kgo.TryAbort))
	p.WantOutput(append(ids, p.Batch(10, 10)...))
	if n := count(w, "unexplained_gap"); n > 0 {
		t.Errorf("%d gaps were reported where a transaction was aborted", n)
	}

	lost := px.Add(kafka.Rule{Key: kmsg.Fetch, Answer: true, Topic: p.Raw, Act: kafka.RewriteAnswer(skipBatches)})
	p.Batch(20, 1)
	met(t, "the fetch", lost, 1)
	p.Batch(21, 20)
	said(t, w, "unexplained_gap", 0)
	p.Stop(w)
	code, r := p.Audit()
	if missing := r.Sink(t, "enriched").Missing; code != 4 || missing == 0 {
		t.Errorf("audit: exit code %d, %d missing; want 4 and some", code, missing)
	}
}

// skipBatches empties the batches of an answer, as compaction does with all
// records of a batch: the client's position moves on.
func skipBatches(_ *kmsg.FetchRequest, r *kmsg.FetchResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			r.Topics[i].Partitions[j].RecordBatches = emptied(r.Topics[i].Partitions[j].RecordBatches)
		}
	}
}

// Places in a record batch of version 2 (KIP-98). The checksum covers what
// follows it.
const (
	batchLength  = 8
	batchHead    = batchLength + 4
	batchCRC     = 17
	batchRest    = batchCRC + 4
	batchRecords = 57
	batchSize    = batchRecords + 4
)

func emptied(batches []byte) []byte {
	var out []byte
	for len(batches) >= batchSize {
		next := batchHead + int(binary.BigEndian.Uint32(batches[batchLength:]))
		b := bytes.Clone(batches[:batchSize])
		binary.BigEndian.PutUint32(b[batchLength:], batchSize-batchHead)
		b[batchRest+1] &^= 7 // what is empty is not compressed
		binary.BigEndian.PutUint32(b[batchRecords:], 0)
		binary.BigEndian.PutUint32(b[batchCRC:], crc32.Checksum(b[batchRest:], crc32.MakeTable(crc32.Castagnoli)))
		out, batches = append(out, b...), batches[min(next, len(batches)):]
	}
	return out
}

// TestDeletedSourceRecords (12): what was to be read next is gone. The start is
// refused, and nothing is reset by itself.
func TestDeletedSourceRecords(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched"}, Start: "latest"})
	w := p.Run(0)
	p.AwaitTasks(1, w)
	ids := p.Batch(0, 50)
	p.WantOutput(ids)
	p.Stop(w)
	p.Batch(50, 50)
	var to kadm.Offsets
	to.AddOffset(p.Raw, 0, 75, -1)
	_, err := p.Admin.DeleteRecords(t.Context(), to)
	rig.Check(t, err)
	p.Refused(1, "outside of the partition's log", p.Raw+"-0")
	p.WantOutput(ids)
	p.Reset("--to", "earliest")
	w = p.Run(0)
	rig.Await(t, "what is left", func(context.Context) (string, bool) {
		n := len(p.Read(p.Out))
		return fmt.Sprint(n), n >= 75
	})
	p.Stop(w)
	if n := len(p.Read(p.Out)); n != 75 {
		t.Errorf("%d records in the output, want 50 and the 25 that are left", n)
	}
}

// TestTruncatedJournal (15): records of the journal are gone, as finite
// retention would have it.
func TestTruncatedJournal(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched"}})
	w := p.Run(0)
	ids := p.Batch(0, 50)
	p.WantOutput(ids)
	p.Stop(w)
	p.SetTopic(p.Journal(), "cleanup.policy", "delete") // or the brokers refuse
	var to kadm.Offsets
	to.AddOffset(p.Journal(), 0, -1, -1)
	_, err := p.Admin.DeleteRecords(t.Context(), to)
	rig.Check(t, err)
	p.SetTopic(p.Journal(), "cleanup.policy", "compact")
	p.Refused(1, "was truncated or deleted by retention", "exactly reset")
	p.WantOutput(ids)
}

// TestExpiredOffsets (41): the brokers have forgotten what the group had read.
// The journal has not: the offsets are committed again, and nothing is repeated.
func TestExpiredOffsets(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Tasks: 2, Partitions: 2, Sinks: []string{"enriched"}})
	ids := p.Batch(0, 50)
	w := p.Run(0)
	p.WantOutput(ids)
	p.Stop(w)
	p.Forgotten(func() {
		w = p.Run(0)
		p.AwaitTasks(2, w)
	})
	p.WantOutput(append(ids, p.Batch(50, 50)...))
	p.Stop(w)
	p.WantRight(100)
	reread(p, 100)
}
