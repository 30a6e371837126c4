//go:build services

package rig

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Scan reads a topic from its begin to its present end, transaction markers
// included.
func (p *Pipeline) Scan(topic string, level kgo.IsolationLevel, fn func(*kgo.Record)) {
	p.T.Helper()
	list := p.Admin.ListEndOffsets
	if level == kgo.ReadCommitted() {
		list = p.Admin.ListCommittedOffsets
	}
	ends, err := list(p.T.Context(), topic)
	Check(p.T, err)
	Check(p.T, ends.Error())
	parts, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for i, e := range ends[topic] {
		if e.Offset > 0 {
			parts[i], left[i] = kgo.NewOffset().AtStart(), e.Offset
		}
	}
	cl := p.Cluster.Client(p.T, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts}),
		kgo.FetchIsolationLevel(level), kgo.KeepControlRecords())
	defer cl.Close()
	ctx, cancel := context.WithTimeout(p.T.Context(), Patience)
	defer cancel()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		Check(p.T, fs.Err0())
		fs.EachRecord(func(r *kgo.Record) {
			if end, ok := left[r.Partition]; ok && r.Offset < end {
				fn(r)
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
}

// Read gives everything committed in a topic.
func (p *Pipeline) Read(topic string) []*kgo.Record {
	p.T.Helper()
	var out []*kgo.Record
	p.Scan(topic, kgo.ReadCommitted(), func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			out = append(out, r)
		}
	})
	return out
}

// Aborts counts the abort markers in the output topic.
func (p *Pipeline) Aborts() int {
	p.T.Helper()
	n := 0
	p.Scan(p.Out, kgo.ReadUncommitted(), func(r *kgo.Record) {
		// The key of a control record: version, then type; 0 is abort (KIP-98).
		if r.Attrs.IsControl() && len(r.Key) >= 4 && r.Key[2] == 0 && r.Key[3] == 0 {
			n++
		}
	})
	return n
}

// Ends are the end offsets of the source.
func (p *Pipeline) Ends() map[int32]int64 {
	p.T.Helper()
	ends := map[int32]int64{}
	AwaitNil(p.T, "the end offsets of "+p.Raw, func(ctx context.Context) error { // a leader may have just died
		listed, err := p.Admin.ListEndOffsets(ctx, p.Raw)
		if err == nil {
			err = listed.Error()
		}
		for i, e := range listed[p.Raw] {
			ends[i] = e.Offset
		}
		return err
	})
	return ends
}

// Recreate deletes the source topic and makes it again under the same name.
func (p *Pipeline) Recreate() {
	p.T.Helper()
	ctx := p.T.Context()
	_, err := p.Admin.DeleteTopic(ctx, p.Raw)
	Check(p.T, err)
	AwaitNil(p.T, "the source topic to be made again", func(ctx context.Context) error {
		_, err := p.Admin.CreateTopic(ctx, p.Partitions, -1, nil, p.Raw)
		return err
	})
	AwaitNil(p.T, "leaders of the new source topic", func(ctx context.Context) error {
		ends, err := p.Admin.ListEndOffsets(ctx, p.Raw)
		if err != nil {
			return err
		}
		return ends.Error()
	})
}

// MoveOffset commits another offset for one partition of the source.
func (p *Pipeline) MoveOffset(by int64) {
	p.T.Helper()
	ctx := p.T.Context()
	have, err := p.Admin.FetchOffsets(ctx, p.Group())
	Check(p.T, err)
	o, ok := have.Lookup(p.Raw, 0)
	if !ok {
		p.T.Fatalf("the group has no offset for %s-0: %v", p.Raw, have)
	}
	o.At += by
	var to kadm.Offsets
	to.Add(o.Offset)
	Check(p.T, p.Admin.CommitAllOffsets(ctx, p.Group(), to))
}

// SetTopic sets one setting of a topic.
func (p *Pipeline) SetTopic(topic, key, value string) {
	p.T.Helper()
	resp, err := p.Admin.AlterTopicConfigs(p.T.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	Check(p.T, err)
	for _, r := range resp {
		Check(p.T, r.Err)
	}
}

// Letters counts the records of the dead-letter topic by the source offset that they
// name.
func (p *Pipeline) Letters(level kgo.IsolationLevel) map[string]int {
	p.T.Helper()
	times := map[string]int{}
	p.Scan(p.DLQ, level, func(r *kgo.Record) {
		for _, h := range r.Headers {
			if strings.HasSuffix(h.Key, "offset") {
				times[string(h.Value)]++
			}
		}
	})
	return times
}
