package httpproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"exactly/record"
	"exactly/sink"
	httpsink "exactly/sink/http"
	"exactly/test/proxy"
)

const (
	records  = 24
	struck   = 5 // requests or answers that meet the fault
	sinkWait = 150 * time.Millisecond
)

// TestSinkOnABadWay: the HTTP sink and a partner that does everything right, with a
// fault on the way between them. Each record is executed once, none is missing, none
// is a dead letter (failure modes 34 and 35).
func TestSinkOnABadWay(t *testing.T) {
	t.Parallel()
	refused := func(status int) proxy.Act[*Message] {
		return Status(status, http.Header{"Content-Type": {"application/json"}}, `{"error":"try again"}`)
	}
	for _, tt := range []struct {
		name     string
		answer   bool
		act      proxy.Act[*Message]
		edit     func(*httpsink.Config)
		release  bool // what the rule has kept comes when all is done
		requests int  // that the partner gets at least
	}{
		{name: "request cut", act: proxy.Cut[*Message](), requests: records},
		{name: "request lost in silence", act: proxy.Drop[*Message](), requests: records},
		{name: "request late, after its repetition", act: proxy.Hold[*Message](), release: true, requests: records + struck},
		{name: "request doubled", act: proxy.Again[*Message](), release: true, requests: records + struck},
		{name: "answer cut", answer: true, act: proxy.Cut[*Message](), requests: records + struck},
		{name: "answer lost in silence", answer: true, act: proxy.Drop[*Message](), requests: records + struck},
		{name: "answer later than the time-out", answer: true, act: proxy.Delay[*Message](4 * sinkWait), requests: records + struck},
		// The status has said it all: no repetition.
		{name: "answer cut half-way", answer: true, act: Half(), requests: records},
		{name: "answer 500", answer: true, act: refused(500), requests: records + struck},
		{name: "answer 409", answer: true, act: refused(409), requests: records + struck},
		{name: "answer 409 that means done", answer: true, act: refused(409), edit: func(c *httpsink.Config) { c.Conflict = "done" }, requests: records},
		{name: "answer 429", answer: true, act: Status(429, http.Header{"Retry-After": {"1"}}, ""), requests: records + struck},
		{name: "request goes astray", act: proxy.Rewrite(func(m *Message) error { m.Path = "/v2"; return nil }), requests: records + struck},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t)
			px := Start(t, p.Listener.Addr().String())
			armed := px.Add(Rule{Method: http.MethodPost, Path: "/v1/events", Answer: tt.answer, From: 3, Times: struck, Act: tt.act})
			c := httpsink.Config{
				URL: px.URL + "/v1/events", Timeout: sinkWait, Concurrency: 4,
				Retry: httpsink.Retry{Budget: 10 * time.Second, Delay: time.Millisecond, MaxDelay: 5 * time.Millisecond, MaxWait: 100 * time.Millisecond},
			}
			if tt.edit != nil {
				tt.edit(&c)
			}
			keys, verdicts := deliver(t, c)
			if len(verdicts) > 0 {
				t.Errorf("dead letters: %v", verdicts)
			}
			if armed.Hits() != struck {
				t.Errorf("the rule struck %d times, want %d", armed.Hits(), struck)
			}
			if tt.release {
				armed.Release()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := p.wait(ctx, tt.requests); err != nil {
				t.Errorf("wait for %d requests: %v", tt.requests, err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, key := range keys {
				if p.executed[key] != 1 {
					t.Errorf("%s was executed %d times", key, p.executed[key])
				}
			}
			if len(p.executed) != len(keys) {
				t.Errorf("the partner knows %d keys, want %d", len(p.executed), len(keys))
			}
		})
	}
}

// deliver gives the sink one batch, again and again as the engine does, until it is
// through. It returns the keys of the records.
func deliver(t *testing.T, c httpsink.Config) (keys []string, verdicts []sink.Verdict) {
	t.Helper()
	o := sink.Owner{
		Incarnation: "00f1e2d3c4b5a697", Pipeline: "payments", Sink: "partner", Generation: 1, Tasks: 1, Attempt: 1,
		Guarantee: sink.ExactlyOnce, Log: slog.New(slog.DiscardHandler),
	}
	s, err := httpsink.New("partner", c, httpsink.Deps{Log: o.Log})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := s.OpenOutbox(t.Context(), o, sink.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []sink.Entry
	for i := range records {
		e := sink.Entry{Pos: sink.Pos{Epoch: 1, Index: int64(i)}}
		e.Key, e.Value = fmt.Append(nil, "merchant-", i%7), fmt.Appendf(nil, `{"payment":%d}`, i)
		e.Source = record.Position{Topic: "payments", Offset: int64(i)}
		all = append(all, e)
		keys = append(keys, httpsink.DefaultKey(o, &e.Record))
	}
	through := sink.Pos{Epoch: 1, Index: -1}
	end := all[records-1].Pos
	for ctx := t.Context(); through != end; {
		res, err := task.Apply(ctx, sink.Batch{Records: all[through.Index+1:], Prev: through, Through: end, Confirmed: through})
		if err != nil && sink.Classify(err) != sink.ClassTransient {
			t.Fatalf("apply: %v", err)
		}
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		verdicts, through = append(verdicts, res.Verdicts...), res.Through
	}
	return keys, verdicts
}
