//go:build synctests

package sim

import (
	"context"
	"slices"
	"strings"

	"exactly/record"
	"exactly/sink"
)

// sums is the sink that follows others, as one does that reads what they have
// written. It keeps what it gets; whatever it gets, each sink that it follows has to
// show already.
const sums = "sums"

// follower is that sink.
type follower struct {
	sink.Outbox
	w       *world
	leaders []server
}

var _ sink.Follower = follower{}

// leaders are the sinks that can be followed: files collects over many epochs.
func (w *world) leaders() []server {
	return slices.DeleteFunc(slices.Clone(w.srvs), func(s server) bool { return s.name != "rows" && s.name != "db" })
}

// Follows implements sink.Follower.
func (f follower) Follows() (names []string) {
	for _, s := range f.leaders {
		names = append(names, s.name)
	}
	return names
}

// OpenOutbox implements sink.Outbox.
func (f follower) OpenOutbox(ctx context.Context, o sink.Owner, confirmed sink.Pos) (sink.OutboxTask, sink.Resume, error) {
	t, r, err := f.Outbox.OpenOutbox(ctx, o, confirmed)
	if err != nil {
		return nil, r, err
	}
	return followerTask{OutboxTask: t, f: f, task: o.Task}, r, nil
}

type followerTask struct {
	sink.OutboxTask
	f    follower
	task int32
}

// Apply implements sink.OutboxTask.
func (t followerTask) Apply(ctx context.Context, b sink.Batch) (sink.Result, error) {
	for _, s := range t.f.leaders {
		shown := map[string]bool{}
		for _, r := range s.Records(s.name) {
			shown[string(r.Value)] = true
		}
		for i := range b.Records {
			if e := &b.Records[i]; !shown[string(e.Value)] && !poison(&e.Record) {
				t.f.w.watch.say("%s of task %d gets %s of epoch %d before sink %s shows it", sums, t.task, e.Value, e.Pos.Epoch, s.name)
			}
		}
	}
	return t.OutboxTask.Apply(ctx, b)
}

// poison: every sink with a server refuses it.
func poison(r *record.Record) bool {
	v, _, _ := strings.Cut(string(r.Value), "|")
	return refused(v)
}
