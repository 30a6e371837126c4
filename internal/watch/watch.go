package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Position is the place of a source record.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Feed gives the effects that became visible in one sink, each once.
type Feed interface {
	// New calls fn with the identity of each effect that is new since the last
	// call. It does not wait for any.
	New(ctx context.Context, fn func(id string)) error
}

// Config says what is watched.
type Config struct {
	Client *kgo.Client // to ask the brokers with
	Group  string      // of the pipeline
	// TxnIDs gives the transactional ids of the task that owns a partition.
	TxnIDs func(partition int32) []string
	// Locate gives the source record of an effect; false: not known yet, ask
	// again. It may be called from several goroutines.
	Locate func(id string) (Position, bool)
	Feeds  map[string]Feed // by sink

	// Blind only reads the feeds: there is nothing that could be undecided.
	Blind bool

	Interval time.Duration // between two looks at a sink; 0: 5 ms
	Grace    time.Duration // within which an effect must be decided, and failing looks must recover; 0: 30 s
}

// Seen is what was seen of one sink.
type Seen struct {
	Effects      int64    `json:"effects"`      // all that became visible
	Suspects     int64    `json:"suspects"`     // of them, seen at or beyond the committed offset
	Undetermined int64    `json:"undetermined"` // suspects that can be neither cleared nor convicted
	Violations   int64    `json:"violations"`   // seen while undecided
	Looks        int64    `json:"looks"`
	First        []string `json:"first,omitempty"` // the first violations, for people
}

// Watcher watches all sinks of a pipeline.
type Watcher struct {
	cfg   Config
	adm   *kadm.Client
	sinks []*watched
}

// New makes a watcher; Run starts it.
func New(c Config) *Watcher {
	if c.Interval == 0 {
		c.Interval = 5 * time.Millisecond
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	w := &Watcher{cfg: c, adm: kadm.NewClient(c.Client)}
	for name, f := range c.Feeds {
		w.sinks = append(w.sinks, &watched{w: w, name: name, feed: f})
	}
	return w
}

// Run watches until stop is closed and everything seen is judged, at the latest
// after the grace time, or until ctx ends. An error means that a sink or the
// brokers could not be looked at for longer than the grace time.
func (w *Watcher) Run(ctx context.Context, stop <-chan struct{}) error {
	var wg sync.WaitGroup
	errs := make([]error, len(w.sinks))
	for i, s := range w.sinks {
		wg.Go(func() { errs[i] = s.run(ctx, stop) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Result gives what was seen so far, by sink.
func (w *Watcher) Result() map[string]Seen {
	m := map[string]Seen{}
	for _, s := range w.sinks {
		s.mu.Lock()
		seen := s.seen
		seen.First = append([]string(nil), s.seen.First...)
		s.mu.Unlock()
		m[s.name] = seen
	}
	return m
}

// offsets are the committed source offsets of the group.
type offsets map[string]map[int32]int64

func (o offsets) of(p Position) int64 { return o[p.Topic][p.Partition] }

// committed does not ask for stable offsets: those would wait for the very
// transactions that this is about.
func (w *Watcher) committed(ctx context.Context) (offsets, error) {
	resp, err := w.adm.FetchOffsets(ctx, w.cfg.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch the committed offsets of group %s: %w", w.cfg.Group, err)
	}
	o := offsets{}
	for topic, parts := range resp {
		o[topic] = map[int32]int64{}
		for p, r := range parts {
			if r.Err != nil {
				return nil, fmt.Errorf("fetch the committed offset of %s-%d: %w", topic, p, r.Err)
			}
			o[topic][p] = r.At
		}
	}
	return o, nil
}

// transactions asks for the states of ids.
func (w *Watcher) transactions(ctx context.Context, ids map[string]bool) (map[string]states, error) {
	names := make([]string, 0, len(ids))
	for id := range ids {
		names = append(names, id)
	}
	described, err := w.adm.DescribeTransactions(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe transactions: %w", err)
	}
	m := map[string]states{}
	for id, d := range described {
		if d.Err != nil && !errors.Is(d.Err, kerr.TransactionalIDNotFound) {
			return nil, fmt.Errorf("describe transaction %s: %w", id, d.Err)
		}
		s := states{ongoing: map[txn]bool{}}
		switch {
		case d.Err != nil:
		case d.State == "Ongoing":
			s.ongoing[txn{id, d.ProducerID, d.ProducerEpoch, d.StartTimestamp}] = true
		case strings.HasPrefix(d.State, "Prepare"):
			s.preparing = true
		}
		m[id] = s
	}
	return m, nil
}

// task joins the states of the ids of a task.
func (w *Watcher) task(m map[string]states, partition int32) states {
	s := states{ongoing: map[txn]bool{}}
	for _, id := range w.cfg.TxnIDs(partition) {
		s.preparing = s.preparing || m[id].preparing
		for t := range m[id].ongoing {
			s.ongoing[t] = true
		}
	}
	return s
}
