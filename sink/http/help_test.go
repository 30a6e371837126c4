package httpsink

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"exactly/record"
	"exactly/sink"
)

var testOwner = sink.Owner{
	Incarnation: "00f1e2d3c4b5a697", Pipeline: "payments", Sink: "partner", Generation: 1,
	Tasks: 1, Attempt: 1, Guarantee: sink.ExactlyOnce,
	Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
}

// quick is a configuration whose back-off does not slow tests down.
func quick(url string) Config {
	return Config{
		URL: url, Timeout: 5 * time.Second,
		Retry: Retry{Budget: 20 * time.Second, Delay: time.Millisecond, MaxDelay: 5 * time.Millisecond},
	}
}

func newTestSink(t *testing.T, c Config) *Sink {
	t.Helper()
	s, err := New("partner", c, Deps{Log: testOwner.Log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openTask(t *testing.T, s *Sink, o sink.Owner) sink.OutboxTask {
	t.Helper()
	task, resume, err := s.OpenOutbox(t.Context(), o, sink.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	if resume.Through != (sink.Pos{}) || resume.Verdicts != nil {
		t.Fatalf("resume: got %+v, want the journal's position and no verdicts", resume)
	}
	t.Cleanup(func() { _ = task.Close() })
	return task
}

// entry is the i-th record: payload {"id":id,"lane":lane}, Kafka key lane.
func entry(i int, id, lane string) sink.Entry {
	e := sink.Entry{Pos: sink.Pos{Epoch: 1, Index: int64(i)}}
	e.Value = []byte(fmt.Sprintf(`{"id":%q, "lane":%q}`, id, lane))
	if lane != "" {
		e.Key = []byte(lane)
	}
	e.Source = record.Position{Topic: "payments.raw", Partition: 3, Offset: int64(100 + i)}
	return e
}

func batchOf(es ...sink.Entry) sink.Batch {
	b := sink.Batch{Records: es}
	if len(es) > 0 {
		b.Prev = sink.Pos{Epoch: es[0].Pos.Epoch, Index: es[0].Pos.Index - 1}
		b.Through = es[len(es)-1].Pos
	}
	return b
}

// rest is the batch that the engine gives after res was decided.
func rest(b sink.Batch, res sink.Result) sink.Batch {
	out := sink.Batch{Prev: res.Through, Through: b.Through, Confirmed: res.Through}
	for _, e := range b.Records {
		if res.Through.Before(e.Pos) {
			out.Records = append(out.Records, e)
		}
	}
	return out
}

// drive is the engine: it applies until the batch is through, whatever
// transient errors come back, and gives the verdicts.
func drive(t *testing.T, task sink.OutboxTask, b sink.Batch) []sink.Verdict {
	t.Helper()
	var verdicts []sink.Verdict
	through := b.Through
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		res, err := task.Apply(t.Context(), b)
		if err != nil && sink.Classify(err) != sink.ClassTransient {
			t.Fatalf("apply: %v", err)
		}
		verdicts = append(verdicts, res.Verdicts...)
		if res.Through == through {
			return verdicts
		}
		b = rest(b, res)
		if err != nil {
			sleep(t.Context(), time.Millisecond) // as the engine backs off
		}
	}
	t.Fatal("not through after 30s")
	return nil
}

// mustApply is one Apply that must go through without verdicts.
func mustApply(t *testing.T, task sink.OutboxTask, b sink.Batch) {
	t.Helper()
	res, err := task.Apply(context.WithoutCancel(t.Context()), b)
	if err != nil || res.Through != b.Through || len(res.Verdicts) != 0 {
		t.Fatalf("apply: got %+v, %v; want through %s without verdicts", res, err, b.Through)
	}
}

func pos(i int) sink.Pos { return sink.Pos{Epoch: 1, Index: int64(i)} }
