package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/payments"
)

// ErrNoKafka: the brokers do not answer.
var ErrNoKafka = errors.New("no Kafka")

// run is one call of Run.
type run struct {
	o       Options
	cluster *cluster
	tables  *database // nil: none
	jobs    int       // made so far
	backlog string    // topic
	inputs  []uint64  // fingerprints of the backlog

	throughputs map[contestant][]throughput
	latencies   map[contestant]map[float64][]latency
	restarts    map[contestant]*restart
	problems    []string
}

// Run measures. It blocks until all is done or ctx ends. The result is right if
// every output was.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{
		o: o, throughputs: map[contestant][]throughput{}, latencies: map[contestant]map[float64][]latency{},
		restarts: map[contestant]*restart{}, problems: []string{},
	}
	cl, err := r.client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	pingCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := cl.Ping(pingCtx); err != nil {
		return nil, fmt.Errorf("%w at %v: %w", ErrNoKafka, o.Brokers, err)
	}
	var suffix [3]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return nil, err
	}
	r.cluster = &cluster{adm: kadm.NewClient(cl), prefix: "bench-" + hex.EncodeToString(suffix[:])}
	if o.Postgres != "" {
		if r.tables, err = openDatabase(ctx, o.Postgres, strings.ReplaceAll(r.cluster.prefix, "-", "_")); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	err = r.rounds(ctx)
	cleanCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if err := errors.Join(err, r.cluster.removeAll(cleanCtx), r.tables.close(ctx)); err != nil {
		return nil, err
	}
	return r.result(begin)
}

// client makes one of our own clients.
func (r *run) client(more ...kgo.Opt) (*kgo.Client, error) {
	base, err := broker.Options(broker.Config{Brokers: r.o.Brokers, Pipeline: "bench", Log: r.o.Log})
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(slices.Clip(base), more...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client for %v: %w", r.o.Brokers, err)
	}
	return cl, nil
}

func (r *run) has(part string) bool { return slices.Contains(r.o.Parts, part) }

func (r *run) rounds(ctx context.Context) error {
	if r.has(PartThroughput) {
		if err := r.fillBacklog(ctx); err != nil {
			return err
		}
	}
	for i := range r.o.Rounds {
		r.say("round %d of %d", i+1, r.o.Rounds)
		if r.has(PartThroughput) {
			for _, c := range turned(r.o.throughputContestants(), i) {
				if err := r.measureThroughput(ctx, c); err != nil {
					return fmt.Errorf("throughput of %s: %w", c.name(), err)
				}
			}
		}
		if r.has(PartLatency) {
			for _, c := range turned(r.o.latencyContestants(), i) {
				if err := r.measureLatency(ctx, c); err != nil {
					return fmt.Errorf("latency of %s: %w", c.name(), err)
				}
			}
		}
		if r.has(PartRestart) {
			for _, c := range turned(r.o.restartContestants(i), i) {
				if err := r.measureRestart(ctx, c); err != nil {
					return fmt.Errorf("restart of %s: %w", c.name(), err)
				}
			}
		}
	}
	return nil
}

// turned has every round begin with another contestant: what a place in the
// order costs or gives, each has in turn.
func turned(cs []contestant, by int) []contestant {
	by %= len(cs)
	return append(slices.Clone(cs[by:]), cs[:by]...)
}

// job makes a job with an output topic of its own. It reads from the topic.
func (r *run) job(ctx context.Context, c contestant, from string) (job, error) {
	r.jobs++
	id := fmt.Sprintf("%s-%d", r.cluster.prefix, r.jobs)
	j := job{contestant: c, tasks: r.o.Tasks, id: id, from: from, to: id + ".out", dir: filepath.Join(r.o.Dir, id)}
	if c.mode != "" {
		j.table = id
		if err := r.tables.table(ctx, j.table); err != nil {
			return j, err
		}
	}
	return j, r.cluster.create(ctx, j.to, r.o.Partitions)
}

// fillBacklog writes the payments that every contestant works through, and
// reads them once, so that the brokers are warm.
func (r *run) fillBacklog(ctx context.Context) error {
	r.say("a backlog of %d payments …", r.o.Records)
	r.backlog = r.cluster.prefix + ".backlog"
	if err := r.cluster.create(ctx, r.backlog, r.o.Partitions); err != nil {
		return err
	}
	cl, err := r.client(kgo.ProducerLinger(10 * time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := payments.Produce(ctx, cl, payments.Options{Topic: r.backlog, Count: r.o.Records}); err != nil {
		return err
	}
	if r.inputs, err = fingerprints(r.o.Records); err != nil {
		return err
	}
	c, err := r.count(ctx, r.backlog, r.inputs)
	if err != nil {
		return err
	}
	if ps := c.problems("backlog", true); len(ps) > 0 {
		return fmt.Errorf("%v", ps)
	}
	return ctx.Err()
}

// problem notes what is wrong with an output, and says it at once.
func (r *run) problem(c Counts, what string, once bool) {
	for _, p := range c.problems(what, once) {
		r.say("WRONG %s", p)
		r.problems = append(r.problems, p)
	}
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Progress, format+"\n", args...) }
