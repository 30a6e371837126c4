//go:build services

package rig

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Batch writes n payments and gives their ids.
func (p *Pipeline) Batch(first, n int64) []string {
	p.T.Helper()
	l := p.Idle()
	l.next = first
	l.Produce(0, n)
	<-l.Done
	Check(p.T, l.Err)
	var ids []string
	for id := range l.at {
		ids = append(ids, id)
	}
	return ids
}

// WantOutput waits until the output topic holds all of want, and wants it to
// hold nothing else, nor anything twice.
func (p *Pipeline) WantOutput(want []string) {
	p.T.Helper()
	slices.Sort(want)
	f := p.TopicFeed(p.Out, kgo.ReadCommitted())
	var got []string
	Await(p.T, "output", func(ctx context.Context) (string, bool) {
		Check(p.T, f.New(ctx, func(id string) { got = append(got, id) }))
		return fmt.Sprintf("%d of %d", len(got), len(want)), len(got) >= len(want)
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p.T.Errorf("the output has %d records, not the %d that were to be expected", len(got), len(want))
	}
}
