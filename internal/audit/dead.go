package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/deadletter"
)

// Dead is one dead letter, by its coordinates.
type Dead struct {
	Topic     string // of the source record
	Partition int32
	Offset    int64
	Sink      string // that refused it; "": a step or a size did, and it reaches no sink
	TooLarge  bool   // a topic does not take it
	Sub       int32  // index among the records that one source record became
	Piece     int    // of a record that was stored in pieces, from 1; only the first counts
	Place     string // of the letter itself
}

// DeadReader reads the dead letters from where they are kept.
type DeadReader interface {
	ReadDead(ctx context.Context, fn func(Dead) error) error
}

type deadKey struct {
	part   uint16
	offset int64
	sub    uint32
	sink   string
}

// deadLetters is what the topic of dead letters holds.
type deadLetters struct {
	letters map[deadKey]int64
	large   map[deadKey]bool // too large for a topic: no sink has them
	total   int64
	foreign []Dead // of no source partition
}

func (p *Plan) readDead(ctx context.Context, src *sourceRead) (*deadLetters, error) {
	d := &deadLetters{letters: map[deadKey]int64{}, large: map[deadKey]bool{}}
	if p.Dead == nil {
		return d, nil
	}
	err := p.Dead.ReadDead(ctx, func(l Dead) error {
		if l.Piece > 1 {
			return nil
		}
		d.total++
		part, ok := src.index[partition{l.Topic, l.Partition}]
		if !ok {
			d.foreign = append(d.foreign, l)
			return nil
		}
		k := deadKey{part: part, offset: l.Offset, sub: uint32(l.Sub), sink: l.Sink}
		d.letters[k]++
		if l.TooLarge {
			d.large[k] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w the dead letters: %w", ErrRead, err)
	}
	return d, nil
}

// mark tells the entries of a sink that it refused.
func (d *deadLetters) mark(s *sinkState) {
	if len(d.letters) == 0 {
		return
	}
	for i := range s.table.entries {
		if e := &s.table.entries[i]; d.has(s.name, e) {
			e.fate = fateRefused
		}
	}
}

// has reports whether the record of e is a dead letter of the sink.
func (d *deadLetters) has(sink string, e *entry) bool {
	k := deadKey{part: e.part, offset: e.offset, sub: e.sub, sink: sink}
	return d.letters[k] > 0 || d.large[deadKey{part: e.part, offset: e.offset, sub: e.sub}]
}

// row compares the dead letters with those that the steps must give. A letter
// of a sink, or of a size, cannot be foretold, so it is taken as it is; twice is
// a duplicate.
func (d *deadLetters) row(src *sourceRead, limit int) Row {
	row := Row{Sink: "dead letters", Kind: "topic", Total: d.total, kinds: map[Kind]int{}}
	c := comparison{sink: &sinkState{name: row.Sink}, row: &row, limit: limit, parts: src.parts}
	for k := range src.dead {
		row.Expected++
		if d.letters[k] == 0 {
			row.Missing++
			c.find(Finding{Kind: Missing, Source: c.source(&entry{part: k.part, offset: k.offset}), Detail: "steps refuse it: " + src.dead[k]})
		}
	}
	for k, n := range d.letters {
		at := c.source(&entry{part: k.part, offset: k.offset})
		if _, ok := src.dead[k]; !ok && k.sink == "" && !d.large[k] {
			row.Unexpected += n
			c.find(Finding{Kind: Unexpected, Source: at, Detail: "the steps take this record"})
			continue
		}
		row.Unique++
		if n > 1 {
			row.Duplicate += n - 1
			c.find(Finding{Kind: Duplicate, Source: at})
		}
	}
	for _, l := range d.foreign {
		row.Unexpected++
		c.find(Finding{Kind: Unexpected, Place: l.Place, Detail: fmt.Sprintf("%s-%d is no partition of the source", l.Topic, l.Partition)})
	}
	return row
}

// TopicDead reads dead letters from their topic.
type TopicDead struct {
	Kafka []kgo.Opt
	Topic string
}

// ReadDead reads the whole topic. A topic that does not exist holds none.
func (t *TopicDead) ReadDead(ctx context.Context, fn func(Dead) error) error {
	in, err := openTopics(ctx, t.Kafka, []string{t.Topic}, 0)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.close()
	return in.read(ctx, func(r *kgo.Record) error {
		rec := fromKafka(r)
		l, err := deadletter.Parse(rec.Key, rec.Value, rec.Headers, rec.Timestamp)
		at := fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset)
		if err != nil {
			return fn(Dead{Place: at}) // of no source partition: unexpected
		}
		src := l.Record.Source
		return fn(Dead{
			Topic: src.Topic, Partition: src.Partition, Offset: src.Offset,
			Sink: l.Sink, Sub: l.Record.Sub, Piece: l.Piece, Place: at,
			TooLarge: l.Sink == "" && l.Code == deadletter.CodeTooLarge,
		})
	})
}
