package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/record"
	"exactly/step"
)

// partition is one partition of the source.
type partition struct {
	topic  string
	number int32
}

// sourceRead is what came of reading the source.
type sourceRead struct {
	records int64
	parts   []partition
	index   map[partition]uint16
	dead    map[deadKey]string // records that the steps refuse, with the code
	notes   []string
}

// readSource runs the steps over the whole source and fills the sinks' tables.
func (p *Plan) readSource(ctx context.Context, sinks []*sinkState) (*sourceRead, error) {
	t, err := openTopics(ctx, p.Kafka, p.Topics, p.Since)
	if err != nil {
		return nil, fmt.Errorf("%w the source: %w", ErrRead, err)
	}
	defer t.close()
	src := &sourceRead{index: map[partition]uint16{}, dead: map[deadKey]string{}}
	for _, b := range t.bounds {
		if len(src.parts) > math.MaxUint16 {
			return nil, fmt.Errorf("the source has more than %d partitions", math.MaxUint16)
		}
		src.index[b.partition] = uint16(len(src.parts))
		src.parts = append(src.parts, b.partition)
		if b.from > 0 && p.Since == 0 {
			src.notes = append(src.notes, fmt.Sprintf(
				"%s-%d begins at offset %d: what came before is gone, and its effects count as unexpected", b.topic, b.number, b.from))
		}
	}
	var results []record.Record
	err = t.read(ctx, func(r *kgo.Record) error {
		if src.records++; src.records%1000 == 0 {
			p.Progress("source", src.records)
		}
		results, err = p.Steps.Apply(results[:0], fromKafka(r), epoch)
		part := src.index[partition{r.Topic, r.Partition}]
		if refusal := (*step.Error)(nil); errors.As(err, &refusal) {
			src.dead[deadKey{part: part, offset: r.Offset}] = refusal.Code
			return nil
		}
		if err != nil {
			return fmt.Errorf("steps on %s-%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		for i := range results {
			src.take(sinks, &results[i], part)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w the source: %w", ErrRead, err)
	}
	p.Progress("source", src.records)
	for _, s := range sinks {
		s.table.seal()
		s.canon.learned()
	}
	return src, nil
}

// take hands a result of the steps to the sinks. Where one of them cannot deal
// with it, the engine meets the same error and makes a dead letter of it.
func (src *sourceRead) take(sinks []*sinkState, r *record.Record, part uint16) {
	dead := func(sink string, err error) {
		src.dead[deadKey{part: part, offset: r.Source.Offset, sub: uint32(r.Sub), sink: sink}] = err.Error()
	}
	if by, err := refused(sinks, r); err != nil {
		dead(by, err)
		return
	}
	for _, s := range sinks {
		if err := s.expect(r, part); err != nil {
			dead(s.name, err)
		}
	}
}

// fromKafka gives the record as the pipeline sees it.
func fromKafka(r *kgo.Record) record.Record {
	out := record.Record{
		Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli(),
		Source: record.Position{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
			LeaderEpoch: r.LeaderEpoch, Timestamp: r.Timestamp.UnixMilli(),
		},
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, record.Header{Key: h.Key, Value: h.Value})
	}
	return out
}
