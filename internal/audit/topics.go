package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stall is how long a read may go without any record before it is given up.
const stall = time.Minute

// bound is the part of a partition that is read: [from, to).
type bound struct {
	partition
	from, to int64
}

// topics reads committed records of some topics, from their begin to the end
// that they had when it was opened.
type topics struct {
	cl     *kgo.Client
	bounds []bound
}

// openTopics looks up where the topics begin and end. since is in Unix
// milliseconds; 0: from the earliest record.
func openTopics(ctx context.Context, opts []kgo.Opt, names []string, since int64) (*topics, error) {
	opts = append(slices.Clone(opts),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last offset may be a transaction marker
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	t := &topics{cl: cl}
	if err := t.lookUp(ctx, names, since); err != nil {
		cl.Close()
		return nil, err
	}
	return t, nil
}

func (t *topics) close() { t.cl.Close() }

func (t *topics) lookUp(ctx context.Context, names []string, since int64) error {
	adm := kadm.NewClient(t.cl)
	begins, err := adm.ListStartOffsets(ctx, names...)
	if err == nil && since > 0 {
		begins, err = adm.ListOffsetsAfterMilli(ctx, since, names...)
	}
	if err == nil {
		err = begins.Error()
	}
	if err != nil {
		return fmt.Errorf("look up where topic %s begins: %w", strings.Join(names, ", "), err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("look up where topic %s ends: %w", strings.Join(names, ", "), err)
	}
	ends.Each(func(e kadm.ListedOffset) {
		b := bound{partition: partition{e.Topic, e.Partition}, to: e.Offset}
		if begin, ok := begins.Lookup(e.Topic, e.Partition); ok {
			b.from = begin.Offset
		}
		t.bounds = append(t.bounds, b)
	})
	slices.SortFunc(t.bounds, func(a, b bound) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
	return nil
}

// read calls fn for each record, in order within a partition.
func (t *topics) read(ctx context.Context, fn func(*kgo.Record) error) error {
	ends := map[partition]int64{}
	add := map[string]map[int32]kgo.Offset{}
	for _, b := range t.bounds {
		if b.from >= b.to {
			continue
		}
		ends[b.partition] = b.to
		if add[b.topic] == nil {
			add[b.topic] = map[int32]kgo.Offset{}
		}
		add[b.topic][b.number] = kgo.NewOffset().At(b.from)
	}
	t.cl.AddConsumePartitions(add)
	for len(ends) > 0 {
		if err := t.poll(ctx, ends, fn); err != nil {
			return err
		}
	}
	return nil
}

// poll takes one round of fetches and removes finished partitions from ends.
func (t *topics) poll(ctx context.Context, ends map[partition]int64, fn func(*kgo.Record) error) error {
	wait, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	fs := t.cl.PollFetches(wait)
	if err := ctx.Err(); err != nil {
		return err
	}
	if wait.Err() != nil && fs.NumRecords() == 0 {
		return fmt.Errorf("no record for %s, and %d partitions are not at their end", stall, len(ends))
	}
	if errs := fs.Errors(); len(errs) > 0 {
		return fmt.Errorf("fetch topic %s partition %d: %w", errs[0].Topic, errs[0].Partition, errs[0].Err)
	}
	done := map[string][]int32{}
	for it := fs.RecordIter(); !it.Done(); {
		r := it.Next()
		p := partition{r.Topic, r.Partition}
		end, ok := ends[p]
		if !ok || r.Offset >= end {
			continue
		}
		if !r.Attrs.IsControl() {
			if err := fn(r); err != nil {
				return err
			}
		}
		if r.Offset == end-1 {
			delete(ends, p)
			done[r.Topic] = append(done[r.Topic], r.Partition)
		}
	}
	t.cl.PauseFetchPartitions(done)
	return nil
}
