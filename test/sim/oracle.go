//go:build synctests

package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/deadletter"
	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/internal/journal"
	"exactly/sink"
)

// seen is what one sink shows, in its order.
type seen struct {
	key, value string // the value with its nonce
}

// check holds the promise against every sink: each effect once, of one try, in
// order per key. soon tells what is merely missing from what can never be right.
func (w *world) check(ctx context.Context) (soon, never error) {
	out, err := w.committed(ctx, target)
	if err != nil {
		return err, nil
	}
	sinks := map[string][]seen{target: nil}
	for _, r := range out {
		sinks[target] = append(sinks[target], seen{string(r.Key), string(r.Value)})
	}
	for _, s := range w.srvs {
		sinks[s.name] = nil
		for _, r := range s.Records(s.name) {
			sinks[s.name] = append(sinks[s.name], seen{string(r.Key), string(r.Value)})
		}
	}
	nonces := map[string]string{}
	shown := fnv.New64a()
	defer func() { w.outcome = shown.Sum64() }()
	var missing []error
	for _, name := range slices.Sorted(maps.Keys(sinks)) {
		m, err := w.checkSink(name, sinks[name], nonces, shown)
		if err != nil {
			return nil, err
		}
		if m != nil {
			missing = append(missing, m)
		}
	}
	m, err := w.checkLetters(ctx)
	if err != nil {
		return nil, err
	}
	return errors.Join(append(missing, m)...), nil
}

func (w *world) checkSink(name string, got []seen, nonces map[string]string, shown io.Writer) (missing, wrong error) {
	want := map[string][]string{} // by key
	n := 0
	for _, e := range w.input.written {
		for _, v := range outputs(e.id) {
			if name == target || !refused(v) {
				want[e.key] = append(want[e.key], v)
				n++
			}
		}
	}
	have := map[string][]string{}
	for _, g := range got {
		v, nonce, _ := strings.Cut(g.value, "|")
		if other, ok := nonces[v]; ok && other != nonce {
			return nil, fmt.Errorf("%s: %s is of another try than in another sink, or there twice: %s and %s", name, v, nonce, other)
		}
		nonces[v] = nonce
		have[g.key] = append(have[g.key], v)
	}
	for key, vs := range have {
		for i, v := range vs {
			if slices.Contains(vs[:i], v) {
				return nil, fmt.Errorf("%s: %s is there twice", name, v)
			}
			if i >= len(want[key]) || want[key][i] != v {
				return nil, fmt.Errorf("%s: key %s shows %v, want the beginning of %v", name, key, vs, want[key])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		fmt.Fprintln(shown, name, key, have[key])
	}
	if len(got) < n {
		return fmt.Errorf("%s shows %d of %d records", name, len(got), n), nil
	}
	return nil, nil
}

// checkLetters: one dead letter for each refusal of each refusing place.
func (w *world) checkLetters(ctx context.Context) (missing, wrong error) {
	want := map[string]bool{}
	for _, e := range w.input.written {
		if strings.HasPrefix(e.id, "bad") {
			want["/"+e.id] = true
		}
		for _, v := range outputs(e.id) {
			if refused(v) {
				for _, s := range w.srvs {
					want[s.name+"/"+v] = true
				}
			}
		}
	}
	recs, err := w.committed(ctx, letters)
	if err != nil {
		return err, nil
	}
	have := map[string]bool{}
	for _, r := range recs {
		v, _, _ := strings.Cut(string(r.Value), "|")
		id := ""
		for _, h := range r.Headers {
			if h.Key == deadletter.HeaderSink {
				id = string(h.Value)
			}
		}
		id += "/" + v
		if have[id] || !want[id] {
			return nil, fmt.Errorf("dead letter %s is there twice, or has no place (%v)", id, have[id])
		}
		have[id] = true
	}
	if len(have) < len(want) {
		return fmt.Errorf("%d of %d dead letters", len(have), len(want)), nil
	}
	return nil, nil
}

// committed reads a topic to its stable end.
func (w *world) committed(ctx context.Context, topic string) ([]*kgo.Record, error) {
	cl, err := w.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	at, out := map[int32]int64{}, []*kgo.Record(nil)
	done := func() bool {
		ok := true
		ends.Each(func(o kadm.ListedOffset) { ok = ok && at[o.Partition] >= o.Offset })
		return ok
	}
	for ctx.Err() == nil && !done() {
		lim, cancel := context.WithTimeout(ctx, 5*time.Second)
		cl.PollFetches(lim).EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
		stuck := lim.Err() != nil
		cancel()
		if stuck {
			return nil, fmt.Errorf("read %s: stuck at %v", topic, at)
		}
	}
	return out, ctx.Err()
}

// checkJournals: attempts rise, decisions are in order without gaps, and at the
// end nothing is pending and every cursor stands at the tail.
func (w *world) checkJournals(ctx context.Context, generations int32) error {
	for g := int32(1); g <= generations; g++ {
		topic := fmt.Sprintf("exactly.%s.g%d.journal", pipeline, g)
		recs, err := w.committed(ctx, topic)
		if err != nil {
			return err
		}
		last := map[int32]*journal.Record{}
		for _, rec := range recs {
			r, err := journal.Decode(rec.Value)
			if err != nil {
				return err
			}
			if err := follows(last[rec.Partition], r); err != nil {
				return fmt.Errorf("%s-%d@%d: %w", topic, rec.Partition, rec.Offset, err)
			}
			last[rec.Partition] = r
		}
		for p, r := range last {
			if len(r.Pending) > 0 {
				return fmt.Errorf("%s-%d: %d committables are pending at the end", topic, p, len(r.Pending))
			}
			for name, c := range r.Cursors {
				if c.Pos != r.Tail.Pos {
					return fmt.Errorf("%s-%d: sink %s stands at %s of %s at the end", topic, p, name, c.Pos, r.Tail.Pos)
				}
			}
			if g < generations && !r.Sealed {
				return fmt.Errorf("%s-%d: not sealed", topic, p)
			}
		}
	}
	return nil
}

func follows(a, b *journal.Record) error {
	switch {
	case a == nil:
		if !b.Claim || b.Epoch != 0 || b.Attempt != 1 {
			return fmt.Errorf("the first record is epoch %d of attempt %d", b.Epoch, b.Attempt)
		}
	case a.Sealed && !b.Sealed:
		return fmt.Errorf("epoch %d of attempt %d follows the seal", b.Epoch, b.Attempt)
	case b.Claim:
		if b.Epoch != a.Epoch || b.Attempt != a.Attempt+1 {
			return fmt.Errorf("a claim of attempt %d at epoch %d follows attempt %d at epoch %d", b.Attempt, b.Epoch, a.Attempt, a.Epoch)
		}
	case b.Epoch != a.Epoch+1 || b.Attempt != a.Attempt:
		return fmt.Errorf("epoch %d of attempt %d follows epoch %d of attempt %d", b.Epoch, b.Attempt, a.Epoch, a.Attempt)
	}
	return nil
}

// recreate makes the pipeline anew under its old name: the sinks hold marks of
// another incarnation, and the start has to be refused.
func (w *world) recreate(ctx context.Context) error {
	err := w.admin(func(c *kadm.Client) error {
		topics, err := c.ListTopics(ctx)
		if err != nil {
			return err
		}
		for _, t := range topics.Names() {
			if strings.HasPrefix(t, "exactly.") {
				if err := w.cluster.DeleteTopic(t); err != nil {
					return err
				}
			}
		}
		_, err = c.DeleteGroup(ctx, "exactly."+pipeline)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the pipeline: %w", err)
	}
	before := w.shown()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	h := newHost(w, "anew")
	err = engine.New(w.config(h, failpoint.New(func(context.Context, failpoint.Point, int32, int64) error { return nil }))).Run(ctx)
	if !errors.Is(err, sink.ErrForeignMark) {
		return fmt.Errorf("a pipeline that was made anew was not refused: %v", err)
	}
	if now := w.shown(); now != before {
		return fmt.Errorf("a pipeline that was made anew wrote %d records", now-before)
	}
	return nil
}

// shown counts what the sinks with a server show.
func (w *world) shown() (n int) {
	for _, s := range w.srvs {
		n += len(s.Records(s.name))
	}
	return n
}
