package engine

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/embedded"
	"exactly/internal/epoch"
	"exactly/internal/journal"
)

// I4: a claim counts only if it follows exactly what was read.
func TestVerify(t *testing.T) {
	t.Parallel()
	rec := func(attempt, n int64, claim bool) *journal.Record {
		return &journal.Record{Format: journal.Format, Incarnation: "i", Pipeline: "p", Generation: 1, Attempt: attempt, Epoch: n, Claim: claim, Worker: "w", Time: 7}
	}
	read, claim := rec(1, 5, false), rec(2, 5, true)
	foreign := rec(2, 5, true)
	foreign.Worker = "another"
	for name, c := range map[string]struct {
		log         []*journal.Record
		prev        *journal.Record
		undisturbed bool
	}{
		"claim behind what was read":            {[]*journal.Record{read, claim}, read, true},
		"first claim":                           {[]*journal.Record{claim}, nil, true},
		"an epoch between":                      {[]*journal.Record{read, rec(1, 6, false), claim}, read, false},
		"another's claim between":               {[]*journal.Record{read, foreign, claim}, read, false},
		"another record where the read one was": {[]*journal.Record{rec(1, 4, false), claim}, read, false},
		"what was read is gone":                 {[]*journal.Record{claim}, read, false},
		"something before the first claim":      {[]*journal.Record{rec(1, 1, false), claim}, nil, false},
		"only another's claim":                  {[]*journal.Record{read, foreign}, read, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := broker.Names{Prefix: "exactly", Pipeline: "p", Generation: 1}
			cluster, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Journal()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(names.Journal()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			for _, r := range c.log {
				b, err := r.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte(journal.Key), Value: b}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			w := &Worker{names: names, log: broker.NewLog(cl)}
			w.c.Epoch.Timeout = 10 * time.Second
			ev, err := (&attempt{w: w}).verify(t.Context(), epoch.Verify{Claim: claim, Prev: c.prev})
			if err != nil {
				t.Fatal(err)
			}
			if v, ok := ev.(epoch.Verified); !ok || v.Undisturbed != c.undisturbed {
				t.Errorf("got %#v, want undisturbed: %t", ev, c.undisturbed)
			}
		})
	}
}
