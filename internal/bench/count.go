package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/payments"
	"exactly/record"
)

// Counts is what an output holds, compared with the payments that went in.
type Counts struct {
	Inputs     int64 `json:"inputs"`
	Unique     int64 `json:"unique"`     // of the inputs, at least once in the output
	Duplicates int64 `json:"duplicates"` // records beyond the first of an input
	Unknown    int64 `json:"unknown"`    // records of no input
	Wrong      int64 `json:"wrong"`      // among those that were looked into
}

func (c Counts) plus(d Counts) Counts {
	return Counts{
		Inputs: c.Inputs + d.Inputs, Unique: c.Unique + d.Unique, Duplicates: c.Duplicates + d.Duplicates,
		Unknown: c.Unknown + d.Unknown, Wrong: c.Wrong + d.Wrong,
	}
}

// problems says what is wrong with the counts. Duplicates are none where the
// guarantee allows them.
func (c Counts) problems(what string, once bool) []string {
	var ps []string
	if missing := c.Inputs - c.Unique; missing > 0 {
		ps = append(ps, fmt.Sprintf("%s: %d of %d are missing", what, missing, c.Inputs))
	}
	if c.Duplicates > 0 && once {
		ps = append(ps, fmt.Sprintf("%s: %d duplicates", what, c.Duplicates))
	}
	if c.Unknown > 0 {
		ps = append(ps, fmt.Sprintf("%s: %d records of no input", what, c.Unknown))
	}
	if c.Wrong > 0 {
		ps = append(ps, fmt.Sprintf("%s: %d records are wrong", what, c.Wrong))
	}
	return ps
}

// fingerprint makes 8 bytes of an id, to count by. fingerprints sees to it that
// no two payments share one.
func fingerprint(id uuid.UUID) uint64 {
	return binary.BigEndian.Uint64(id[:8]) ^ binary.BigEndian.Uint64(id[8:])
}

// fingerprints are those of the payments below n, sorted.
func fingerprints(n int64) ([]uint64, error) {
	all := make([]uint64, n)
	for i := range all {
		id, err := uuid.Parse(payments.ID(int64(i)))
		if err != nil {
			return nil, fmt.Errorf("id of payment %d: %w", i, err)
		}
		all[i] = fingerprint(id)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			return nil, fmt.Errorf("two of %d payments have the fingerprint %x: take another number of records", n, all[i])
		}
	}
	return all, nil
}

// compare counts sorted outputs against sorted inputs.
func compare(inputs, outputs []uint64) Counts {
	c := Counts{Inputs: int64(len(inputs))}
	for len(outputs) > 0 {
		n := 1
		for n < len(outputs) && outputs[n] == outputs[0] {
			n++
		}
		for len(inputs) > 0 && inputs[0] < outputs[0] {
			inputs = inputs[1:]
		}
		if len(inputs) > 0 && inputs[0] == outputs[0] {
			c.Unique++
			c.Duplicates += int64(n - 1)
		} else {
			c.Unknown += int64(n)
		}
		outputs = outputs[n:]
	}
	return c
}

// lookEvery is how many records there are to each one that is looked into.
const lookEvery = 1000

// count reads a topic, committed records only, and compares it with the
// payments that went in.
func (r *run) count(ctx context.Context, topic string, inputs []uint64) (Counts, error) {
	end, err := r.cluster.stable(ctx, topic)
	if err != nil {
		return Counts{}, err
	}
	cl, err := r.client(
		kgo.ConsumePartitions(partitions(topic, r.o.Partitions)), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // their offsets show that the end is reached
		kgo.FetchMaxBytes(16<<20), kgo.FetchMaxPartitionBytes(4<<20),
	)
	if err != nil {
		return Counts{}, err
	}
	defer cl.Close()
	outputs := make([]uint64, 0, len(inputs))
	next := make([]int64, r.o.Partitions)
	var wrong int64
	for total := int64(0); total < end; total = sumOf(next) {
		fs := cl.PollRecords(ctx, 0)
		if err := fetchError(ctx, fs); err != nil || ctx.Err() != nil {
			return Counts{}, fmt.Errorf("read %s: %w", topic, orErr(err, ctx.Err()))
		}
		for it := fs.RecordIter(); !it.Done(); {
			rec := it.Next()
			next[rec.Partition] = rec.Offset + 1
			if rec.Attrs.IsControl() {
				continue
			}
			id, err := idOf(rec.Value)
			if err != nil {
				return Counts{}, fmt.Errorf("read %s-%d@%d: %w", topic, rec.Partition, rec.Offset, err)
			}
			if len(outputs)%lookEvery == 0 && topic != r.backlog && !right(rec) {
				wrong++
			}
			outputs = append(outputs, fingerprint(id))
		}
	}
	slices.Sort(outputs)
	c := compare(inputs, outputs)
	c.Wrong = wrong
	return c, nil
}

func sumOf(ns []int64) (n int64) {
	for _, x := range ns {
		n += x
	}
	return n
}

func orErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// idOf reads the id of a payment, in or out.
func idOf(value []byte) (uuid.UUID, error) {
	raw, ok := record.Lookup(value, "payment_id")
	if !ok || len(raw) < 2 {
		return uuid.UUID{}, fmt.Errorf("no payment: %q", value)
	}
	return uuid.ParseBytes(raw[1 : len(raw)-1])
}

// right does the steps again and looks whether they give the same.
func right(r *kgo.Record) bool {
	var p payment
	if err := json.Unmarshal(r.Value, &p); err != nil {
		return false
	}
	want := payments.Payment{AmountCents: p.AmountCents}.Enrich()
	return string(r.Key) == p.ID && p.Status == want.Status && p.FeeCents == want.FeeCents &&
		p.ProcessedAt != "" && p.EventTime != "" && p.Merchant != ""
}
