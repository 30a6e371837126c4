package engine

import (
	"encoding/hex"
	"slices"
	"strings"

	"exactly/internal/broker"
	"exactly/internal/journal"
)

// positions is how far a task has processed its source partitions.
type positions struct {
	topics []*topicPosition
	last   lastPosition
}

// lastPosition spares a run of records of one partition the look-ups.
type lastPosition struct {
	topic string
	part  *journal.Partition // nil: none yet
}

type topicPosition struct {
	topic string
	id    [16]byte
	parts map[int32]*journal.Partition
}

func (p *positions) topic(name string) *topicPosition {
	for _, t := range p.topics {
		if t.topic == name {
			return t
		}
	}
	return nil
}

func (p *positions) add(topic string, id [16]byte, part journal.Partition) {
	t := p.topic(topic)
	if t == nil {
		t = &topicPosition{topic: topic, id: id, parts: map[int32]*journal.Partition{}}
		p.topics = append(p.topics, t)
		slices.SortFunc(p.topics, func(a, b *topicPosition) int { return strings.Compare(a.topic, b.topic) })
	}
	t.parts[part.Partition] = &part
	p.last = lastPosition{}
}

// set moves one partition; false if it is not ours.
func (p *positions) set(topic string, partition int32, next int64, leaderEpoch int32) bool {
	if p.last.part == nil || p.last.part.Partition != partition || p.last.topic != topic {
		part := p.get(topic, partition)
		if part == nil {
			return false
		}
		p.last = lastPosition{topic, part}
	}
	p.last.part.Offset, p.last.part.LeaderEpoch = next, leaderEpoch
	return true
}

func (p *positions) get(topic string, partition int32) *journal.Partition {
	if t := p.topic(topic); t != nil {
		return t.parts[partition]
	}
	return nil
}

// snapshot is what a journal record says, sorted.
func (p *positions) snapshot() []journal.Source {
	out := make([]journal.Source, 0, len(p.topics))
	for _, t := range p.topics {
		s := journal.Source{Topic: t.topic, ID: hex.EncodeToString(t.id[:])}
		for _, part := range t.parts {
			s.Partitions = append(s.Partitions, *part)
		}
		slices.SortFunc(s.Partitions, func(a, b journal.Partition) int { return int(a.Partition) - int(b.Partition) })
		out = append(out, s)
	}
	return out
}

// commits turns a journal record's positions into offsets for the group.
func commits(sources []journal.Source) []broker.OffsetCommit {
	var out []broker.OffsetCommit
	for _, s := range sources {
		var id [16]byte
		if b, err := hex.DecodeString(s.ID); err == nil {
			copy(id[:], b)
		}
		for _, p := range s.Partitions {
			out = append(out, broker.OffsetCommit{
				Topic: s.Topic, TopicID: id, Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
			})
		}
	}
	return out
}

// owned lists the partitions of a task: p mod S = s (protocol: "task").
func owned(task, tasks, partitions int32) []int32 {
	var out []int32
	for p := task; p < partitions; p += tasks {
		out = append(out, p)
	}
	return out
}
