//go:build synctests

package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/record"
	"exactly/sink"
	"exactly/step"
)

// input feeds the source, and knows what has to come out of it.
type input struct {
	w  *world
	cl *kgo.Client

	written []entry
}

// entry is one committed source record.
type entry struct {
	id, key   string
	partition int32
}

// What ids say: "drop" vanishes, "twin" becomes two records, "bad" is refused
// by the step, "poison" by every sink that can refuse.
func ids(i int) string {
	for _, k := range []struct {
		every int
		name  string
	}{{29, "bad"}, {23, "poison"}, {19, "drop"}, {11, "twin"}} {
		if i%k.every == k.every-1 {
			return fmt.Sprintf("%s-%05d", k.name, i)
		}
	}
	return fmt.Sprintf("r-%05d", i)
}

func newInput(w *world) *input { return &input{w: w} }

// run writes everything within the span, in bursts.
func (in *input) run(ctx context.Context) (err error) {
	if in.cl, err = in.w.client(); err != nil {
		return err
	}
	defer in.cl.Close()
	rng := in.w.rng(1)
	n := in.w.s.Shape.Records
	for i := 0; i < n; {
		burst := min(1+rng.IntN(12), n-i)
		for range burst {
			e := entry{id: ids(i), key: fmt.Sprintf("k%d", i%7), partition: int32(i%7) % in.w.s.Shape.Partitions}
			if err := in.put(ctx, in.cl, e); err != nil {
				return err
			}
			in.written = append(in.written, e)
			i++
		}
		in.w.rest(time.Duration(rng.Int64N(int64(span) * 2 * int64(burst) / int64(n))))
	}
	return nil
}

// put writes one record. Injected faults of brokers meet the feeder too; those
// that the client does not repeat by itself were answered in place of acting.
func (in *input) put(ctx context.Context, cl *kgo.Client, e entry) error {
	for try := 0; ; try++ {
		err := cl.ProduceSync(ctx, &kgo.Record{Topic: source, Partition: e.partition, Key: []byte(e.key), Value: []byte(e.id)}).FirstErr()
		if err == nil || try == 20 || ctx.Err() != nil {
			return err
		}
		in.w.rest(100 * time.Millisecond)
	}
}

// more writes records beyond those of the schedule, to see that all still runs.
func (in *input) more(ctx context.Context, n int) error {
	cl, err := in.w.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range n {
		e := entry{id: fmt.Sprintf("r-9%04d", i), key: fmt.Sprintf("k%d", i%7), partition: int32(i%7) % in.w.s.Shape.Partitions}
		if err := in.put(ctx, cl, e); err != nil {
			return err
		}
		in.written = append(in.written, e)
	}
	return nil
}

// aborted writes a transaction that is given up: nothing of it may come out.
func (in *input) aborted(ctx context.Context, n int) error {
	cl, err := in.w.client(kgo.TransactionalID(fmt.Sprintf("feeder-%d", n)))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	err = cl.ProduceSync(ctx, &kgo.Record{Topic: source, Partition: 0, Key: []byte("k0"), Value: []byte("aborted")}).FirstErr()
	return errors.Join(err, cl.EndTransaction(ctx, kgo.TryAbort))
}

// outputs are the values, without their nonce, that one source record becomes.
func outputs(id string) []string {
	switch id[:strings.IndexByte(id, '-')] {
	case "bad", "drop":
		return nil
	case "twin":
		return []string{id + "#0", id + "#1"}
	}
	return []string{id}
}

// refused reports whether sinks that can refuse do so.
func refused(value string) bool { return strings.HasPrefix(value, "poison") }

// chain is the pipeline's transform. It is not deterministic: two sinks that
// got their records from different tries would differ.
type chain struct{ w *world }

// Apply implements step.Chain.
func (c *chain) Apply(dst []record.Record, r record.Record, _ step.Epoch) ([]record.Record, error) {
	id := string(r.Value)
	if strings.HasPrefix(id, "bad") {
		return dst, &step.Error{Step: "steps[0].check", Code: "expression", Err: errors.New("bad")}
	}
	for i, v := range outputs(id) {
		out := r
		out.Sub = int32(i)
		out.Value = fmt.Appendf(nil, "%s|%d", v, c.w.nonce.Add(1))
		dst = append(dst, out)
	}
	return dst, nil
}

// toTopic is the Kafka sink.
type toTopic struct{}

func (toTopic) Features() sink.Features     { return sink.Features{Keyless: true, Deletes: true} }
func (toTopic) Check(context.Context) error { return nil }
func (toTopic) Close() error                { return nil }
func (toTopic) Topics() []string            { return []string{target} }
func (toTopic) Route(dst []sink.Message, r *record.Record) ([]sink.Message, error) {
	return append(dst, sink.Message{Topic: target, Partition: -1, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}), nil
}
