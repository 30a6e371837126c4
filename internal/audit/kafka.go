package audit

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaReader reads the committed records of output topics.
type KafkaReader struct {
	Kafka  []kgo.Opt // how to reach the cluster
	Topics []string
	ByKey  bool // the message's key is the identity
}

// Shape: topics keep every record, tombstones as well.
func (k *KafkaReader) Shape(context.Context) (Shape, error) {
	return Shape{Mode: Every, Deletes: true}, nil
}

// Read reads all partitions to their end.
func (k *KafkaReader) Read(ctx context.Context, fn func(*Held) error) error {
	t, err := openTopics(ctx, k.Kafka, k.Topics, 0)
	if err != nil {
		return err
	}
	defer t.close()
	return t.read(ctx, func(r *kgo.Record) error {
		h := Held{Record: fromKafka(r)}
		h.Stream = fmt.Sprintf("%s-%d", r.Topic, r.Partition)
		h.Place = fmt.Sprintf("%s@%d", h.Stream, r.Offset)
		if k.ByKey {
			h.ID = r.Key
		}
		return fn(&h)
	})
}
