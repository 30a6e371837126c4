//go:build services

package acceptance

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// scan reads a topic from its begin to its present end, transaction markers
// included.
func (p *pipeline) scan(topic string, level kgo.IsolationLevel, fn func(*kgo.Record)) {
	p.t.Helper()
	list := p.adm.ListEndOffsets
	if level == kgo.ReadCommitted() {
		list = p.adm.ListCommittedOffsets
	}
	ends, err := list(p.t.Context(), topic)
	check(p.t, err)
	check(p.t, ends.Error())
	parts, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for i, e := range ends[topic] {
		if e.Offset > 0 {
			parts[i], left[i] = kgo.NewOffset().AtStart(), e.Offset
		}
	}
	cl := p.c.Client(p.t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts}),
		kgo.FetchIsolationLevel(level), kgo.KeepControlRecords())
	defer cl.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		check(p.t, fs.Err0())
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

// read gives everything committed in a topic.
func (p *pipeline) read(topic string) []*kgo.Record {
	p.t.Helper()
	var out []*kgo.Record
	p.scan(topic, kgo.ReadCommitted(), func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			out = append(out, r)
		}
	})
	return out
}

// aborts counts the abort markers in the output topic.
func (p *pipeline) aborts() int {
	p.t.Helper()
	n := 0
	p.scan(p.Out, kgo.ReadUncommitted(), func(r *kgo.Record) {
		// The key of a control record: version, then type; 0 is abort (KIP-98).
		if r.Attrs.IsControl() && len(r.Key) >= 4 && r.Key[2] == 0 && r.Key[3] == 0 {
			n++
		}
	})
	return n
}

// ends are the end offsets of the source.
func (p *pipeline) ends() map[int32]int64 {
	p.t.Helper()
	listed, err := p.adm.ListEndOffsets(p.t.Context(), p.Raw)
	check(p.t, err)
	ends := map[int32]int64{}
	for i, e := range listed[p.Raw] {
		ends[i] = e.Offset
	}
	return ends
}

// recreate deletes the source topic and makes it again under the same name.
func (p *pipeline) recreate() {
	p.t.Helper()
	ctx := p.t.Context()
	_, err := p.adm.DeleteTopic(ctx, p.Raw)
	check(p.t, err)
	awaitNil(p.t, "the source topic to be made again", func(ctx context.Context) error {
		_, err := p.adm.CreateTopic(ctx, p.Partitions, -1, nil, p.Raw)
		return err
	})
	awaitNil(p.t, "leaders of the new source topic", func(ctx context.Context) error {
		ends, err := p.adm.ListEndOffsets(ctx, p.Raw)
		if err != nil {
			return err
		}
		return ends.Error()
	})
}

// moveOffset commits another offset for one partition of the source.
func (p *pipeline) moveOffset(by int64) {
	p.t.Helper()
	ctx := p.t.Context()
	have, err := p.adm.FetchOffsets(ctx, p.group())
	check(p.t, err)
	o, ok := have.Lookup(p.Raw, 0)
	if !ok {
		p.t.Fatalf("the group has no offset for %s-0: %v", p.Raw, have)
	}
	o.At += by
	var to kadm.Offsets
	to.Add(o.Offset)
	check(p.t, p.adm.CommitAllOffsets(ctx, p.group(), to))
}

// setTopic sets one setting of a topic.
func (p *pipeline) setTopic(topic, key, value string) {
	p.t.Helper()
	resp, err := p.adm.AlterTopicConfigs(p.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	check(p.t, err)
	for _, r := range resp {
		check(p.t, r.Err)
	}
}
