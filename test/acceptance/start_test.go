//go:build services

package acceptance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
)

// TestStartPositions: where there is no journal the file says where to begin.
func TestStartPositions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(p *pipeline) string                           // called between two batches in the source
		want  func(p *pipeline, first, second []string) []string // of what was in the source before the start
	}{
		{"earliest", func(*pipeline) string { return "earliest" }, func(_ *pipeline, first, second []string) []string { return append(first, second...) }},
		{"latest", func(*pipeline) string { return "latest" }, func(*pipeline, []string, []string) []string { return nil }},
		{"a time", (*pipeline).now, func(_ *pipeline, _, second []string) []string { return second }},
		{"a group", func(p *pipeline) string { return "group:" + p.group() + "-before" }, (*pipeline).consumeSome},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPipeline(t, services.Kafka(t, one), shape{Sinks: []string{"enriched"}})
			first := p.batch(0, 200)
			p.Start = tt.start(p)
			p.write()
			want := tt.want(p, first, p.batch(200, 200))
			w := p.start(0)
			p.awaitTasks(4, w)
			want = append(want, p.batch(400, 100)...)
			p.wantOutput(want)
			p.stop(w)
			p.wantOutput(want)
		})
	}
}

// batch writes n payments and gives their ids.
func (p *pipeline) batch(first, n int64) []string {
	p.t.Helper()
	l := &load{p: p, tally: newTally(p.Raw, nil), next: first}
	l.produce(0, n)
	<-l.done
	check(p.t, l.err)
	var ids []string
	for id := range l.at {
		ids = append(ids, id)
	}
	return ids
}

// now gives a time after that of all records in the source, and before that of
// all that will come.
func (p *pipeline) now() string {
	pause(p.t, 5*time.Millisecond)
	at := time.Now()
	pause(p.t, 5*time.Millisecond)
	return at.UTC().Format(time.RFC3339Nano)
}

// consumeSome lets a plain consumer group read some of the source and commit,
// and gives what it left.
func (p *pipeline) consumeSome(first, second []string) []string {
	p.t.Helper()
	cl := p.c.Client(p.t, kgo.ConsumerGroup(p.group()+"-before"), kgo.ConsumeTopics(p.Raw), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	parts, left := map[int32]int{}, map[string]bool{}
	for _, id := range append(first, second...) {
		left[id] = true
	}
	for n := 0; n < 150 || len(parts) < int(p.Partitions); {
		fs := cl.PollRecords(p.t.Context(), 10)
		check(p.t, fs.Err0())
		check(p.t, cl.CommitRecords(p.t.Context(), fs.Records()...))
		for _, r := range fs.Records() {
			n++
			parts[r.Partition]++
			delete(left, string(r.Key))
		}
	}
	check(p.t, cl.LeaveGroupContext(p.t.Context()))
	p.t.Logf("the group before committed %v", parts)
	var ids []string
	for id := range left {
		ids = append(ids, id)
	}
	return ids
}

// wantOutput waits until the output topic holds all of want, and wants it to
// hold nothing else, nor anything twice.
func (p *pipeline) wantOutput(want []string) {
	p.t.Helper()
	slices.Sort(want)
	f := p.topicFeed(p.Out, kgo.ReadCommitted())
	var got []string
	await(p.t, "output", func(ctx context.Context) (string, bool) {
		check(p.t, f.New(ctx, func(id string) { got = append(got, id) }))
		return fmt.Sprintf("%d of %d", len(got), len(want)), len(got) >= len(want)
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p.t.Errorf("the output has %d records, not the %d that were to be expected", len(got), len(want))
	}
}

// TestPartitionAddedUnderLoad: it is taken up without a restart, from its first
// record.
func TestPartitionAddedUnderLoad(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Sinks: []string{"enriched", "records"}, Tasks: 2, Partitions: 2})
	l := p.load(300, 0)
	l.watch(p.Tasks, nil)
	out := p.outputs()
	ws := []*worker{p.start(0), p.start(1)}
	p.awaitTasks(2, ws...)
	l.atLeast(500)
	_, err := p.adm.CreatePartitions(t.Context(), 3, p.Raw)
	check(t, err)
	await(t, "records in the added partitions", func(context.Context) (string, bool) {
		ends := p.ends()
		return fmt.Sprint(ends), len(ends) == 5 && ends[2] > 0 && ends[3] > 0 && ends[4] > 0
	})
	out.current(l)
	n := l.stop()
	l.complete(ws...)
	p.stop(ws...)
	l.wantDecided()
	p.wantRight(n)
}
