package payments

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/embedded"
)

func TestPayment(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	tests := []struct {
		i        int64
		amount   int64
		merchant string
		status   string
		fee      int64
	}{
		{0, 1000, "merchant-000", "ok", 59},
		{7, 1700, "merchant-007", "ok", 79},
		{389, 39900, "merchant-009", "ok", 1187},
		{390, 40000, "merchant-010", "review", 1190},
		{499, 50900, "merchant-019", "review", 1506},
		{500, 1000, "merchant-000", "ok", 59},
		{1234567, 7700, "merchant-007", "ok", 253},
	}
	for _, tt := range tests {
		e := New(tt.i, at).Enrich()
		if e.AmountCents != tt.amount || e.Merchant != tt.merchant || e.Status != tt.status || e.FeeCents != tt.fee {
			t.Errorf("payment %d: %+v, want %+v", tt.i, e, tt)
		}
		id, err := uuid.Parse(e.ID)
		if err != nil || id.Version() != 5 {
			t.Errorf("payment %d: id %q is no UUIDv5", tt.i, e.ID)
		}
		var got struct {
			ID     string    `json:"payment_id"`
			Amount int64     `json:"amount_cents"`
			Merch  string    `json:"merchant_id"`
			Event  time.Time `json:"event_time"`
		}
		if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
			t.Fatal(err)
		}
		if got.ID != e.ID || got.Amount != tt.amount || got.Merch != tt.merchant || !got.Event.Equal(at) {
			t.Errorf("payment %d as JSON: %+v", tt.i, got)
		}
	}
	// RFC 4122 as Python's uuid5(NAMESPACE_DNS, "payment-0") gives it.
	if got, want := ID(0), "fed8ba27-eb4a-576f-9a41-f3d10d2f3dd6"; got != want {
		t.Errorf("ID(0) = %s, want %s", got, want)
	}
}

func cluster(t *testing.T) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := embedded.Start(kfake.NumBrokers(1), kfake.SeedTopics(4, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return c, cl
}

func TestProduce(t *testing.T) {
	t.Parallel()
	_, cl := cluster(t)
	seen := map[int64]int{}
	o := Options{Topic: "raw", Count: 100, Acked: func(i int64, r *kgo.Record) {
		seen[i]++
		if string(r.Key) != ID(i) || r.Offset < 0 {
			t.Errorf("payment %d acknowledged as %s at offset %d", i, r.Key, r.Offset)
		}
	}}
	next, err := Produce(t.Context(), cl, o)
	if err != nil || next != 100 {
		t.Fatalf("Produce = %d, %v, want 100", next, err)
	}
	o.First, o.Count = next, 50
	if next, err = Produce(t.Context(), cl, o); err != nil || next != 150 {
		t.Fatalf("resumed: Produce = %d, %v, want 150", next, err)
	}
	for i := range int64(150) {
		if seen[i] != 1 {
			t.Errorf("payment %d acknowledged %d times", i, seen[i])
		}
	}
	if len(seen) != 150 {
		t.Errorf("%d payments, want 150", len(seen))
	}
}

func TestProduceForEver(t *testing.T) {
	t.Parallel()
	_, cl := cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := int64(0)
	next, err := Produce(ctx, cl, Options{Topic: "raw", Rate: 5000, Acked: func(int64, *kgo.Record) {
		if n++; n == 20 {
			cancel()
		}
	}})
	if err != nil || next < 20 || next != n {
		t.Errorf("Produce = %d, %v after %d were acknowledged, want as many and at least 20", next, err, n)
	}
}

func TestProduceRefused(t *testing.T) {
	t.Parallel()
	c, cl := cluster(t)
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.(*kmsg.ProduceRequest).Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, kerr.TopicAuthorizationFailed.Code
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	next, err := Produce(t.Context(), cl, Options{Topic: "raw", Count: 1})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || next != 0 || !strings.Contains(err.Error(), "payment 0") {
		t.Errorf("Produce = %d, %v, want 0 and the refusal of payment 0", next, err)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := newPace(100)
		for range 301 {
			if !p.wait(t.Context()) {
				t.Fatal("stopped")
			}
		}
		if got := time.Since(begin); got < 2990*time.Millisecond || got > 3*time.Second {
			t.Errorf("301 at 100/s took %v, want 3s", got)
		}
		<-time.After(time.Hour) // a stall, in virtual time
		begin = time.Now()
		for range 301 {
			p.wait(t.Context())
		}
		if got := time.Since(begin); got < 1900*time.Millisecond || got > 2100*time.Millisecond {
			t.Errorf("after a stall of an hour 301 took %v, want 2s: at most a second is made up for", got)
		}
	})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"topic": {}, "first": {Topic: "t", First: -1}, "count": {Topic: "t", Count: -1}, "rate": {Topic: "t", Rate: -1},
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%+v: %v, want an error about %s", o, err, want)
		}
	}
	if err := (Options{Topic: "t"}).Validate(); err != nil {
		t.Error(err)
	}
}
