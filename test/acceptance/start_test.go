//go:build services

package acceptance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestStartPositions: where there is no journal the file says where to begin.
func TestStartPositions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(p *rig.Pipeline) string                           // called between two batches in the source
		want  func(p *rig.Pipeline, first, second []string) []string // of what was in the source before the start
	}{
		{"earliest", func(*rig.Pipeline) string { return "earliest" }, func(_ *rig.Pipeline, first, second []string) []string { return append(first, second...) }},
		{"latest", func(*rig.Pipeline) string { return "latest" }, func(*rig.Pipeline, []string, []string) []string { return nil }},
		{"a time", now, func(_ *rig.Pipeline, _, second []string) []string { return second }},
		{"a group", func(p *rig.Pipeline) string { return "group:" + p.Group() + "-before" }, consumeSome},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := rig.New(t, services.Kafka(t, one), rig.Shape{Sinks: []string{"enriched"}})
			first := p.Batch(0, 200)
			p.Start = tt.start(p)
			p.Write()
			want := tt.want(p, first, p.Batch(200, 200))
			w := p.Run(0)
			p.AwaitTasks(4, w)
			want = append(want, p.Batch(400, 100)...)
			p.WantOutput(want)
			p.Stop(w)
			p.WantOutput(want)
		})
	}
}

// now gives a time after that of all records in the source, and before that of
// all that will come.
func now(p *rig.Pipeline) string {
	rig.Pause(p.T, 5*time.Millisecond)
	at := time.Now()
	rig.Pause(p.T, 5*time.Millisecond)
	return at.UTC().Format(time.RFC3339Nano)
}

// consumeSome lets a plain consumer group read some of the source and commit,
// and gives what it left.
func consumeSome(p *rig.Pipeline, first, second []string) []string {
	p.T.Helper()
	cl := p.Cluster.Client(p.T, kgo.ConsumerGroup(p.Group()+"-before"), kgo.ConsumeTopics(p.Raw), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	parts, left := map[int32]int{}, map[string]bool{}
	for _, id := range append(first, second...) {
		left[id] = true
	}
	for n := 0; n < 150 || len(parts) < int(p.Partitions); {
		fs := cl.PollRecords(p.T.Context(), 10)
		rig.Check(p.T, fs.Err0())
		rig.Check(p.T, cl.CommitRecords(p.T.Context(), fs.Records()...))
		for _, r := range fs.Records() {
			n++
			parts[r.Partition]++
			delete(left, string(r.Key))
		}
	}
	rig.Check(p.T, cl.LeaveGroupContext(p.T.Context()))
	p.T.Logf("the group before committed %v", parts)
	var ids []string
	for id := range left {
		ids = append(ids, id)
	}
	return ids
}

// TestPartitionAddedUnderLoad: it is taken up without a restart, from its first
// record.
func TestPartitionAddedUnderLoad(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Sinks: []string{"enriched", "records"}, Tasks: 2, Partitions: 2})
	l := p.Load(300, 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	ws := []*rig.Worker{p.Run(0), p.Run(1)}
	p.AwaitTasks(2, ws...)
	l.AtLeast(500)
	_, err := p.Admin.CreatePartitions(t.Context(), 3, p.Raw)
	rig.Check(t, err)
	rig.Await(t, "records in the added partitions", func(context.Context) (string, bool) {
		ends := p.Ends()
		return fmt.Sprint(ends), len(ends) == 5 && ends[2] > 0 && ends[3] > 0 && ends[4] > 0
	})
	out.Current(l)
	n := l.Stop()
	l.Complete(ws...)
	p.Stop(ws...)
	l.WantDecided()
	p.WantRight(n)
}
