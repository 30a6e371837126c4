package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFirstCommit: the first transaction of a client, with nothing in it but a journal
// record, is committed if End says so. The client once in a hundred times had not stored
// the topic yet, took the transaction for an empty one, and aborted it.
func TestFirstCommit(t *testing.T) {
	t.Parallel()
	const clients = 400
	_, c := fakeOf(t, 1, kfake.SeedTopics(1, "journal"))
	a := newAdmin(t, c)
	for i := range clients {
		p, err := NewProducer(a.Options(), ProducerConfig{
			TransactionalID: fmt.Sprint("t", i), Timeout: time.Minute, V2: true, Journal: "journal",
		})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Init(soon(t))
		if err == nil {
			err = p.Begin()
		}
		if err == nil {
			p.Produce(&kgo.Record{Topic: "journal", Key: []byte("journal"), Value: fmt.Append(nil, i)})
			err = p.Flush(soon(t))
		}
		if err == nil {
			err = p.End(soon(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	ends, err := kadm.NewClient(a.Client()).ListCommittedOffsets(soon(t), "journal")
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(a.Options(), kgo.ConsumeTopics("journal"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	end, _ := ends.Lookup("journal", 0)
	committed := 0
	for at := int64(0); at < end.Offset; {
		fs := cl.PollFetches(soon(t))
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				committed++
			}
		})
	}
	if committed != clients {
		t.Errorf("%d of %d transactions are committed", committed, clients)
	}
}
