package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"exactly/internal/broker"
	"exactly/sink"
)

// prepare looks at everything before the group is joined: the cluster, the
// topics, the pipeline's identity, the sinks.
func (w *Worker) prepare(ctx context.Context) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	checked, err := w.identity(ctx)
	if err != nil {
		return err
	}
	// Beside each other: whoever is started again waits for all of it.
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.topics(gctx) })
	if !checked {
		g.Go(func() error { return w.checkSinks(gctx) })
	}
	return g.Wait()
}

// connect makes the clients and looks at the cluster and the source.
func (w *Worker) connect(ctx context.Context) (err error) {
	if err := w.dial(ctx); err != nil {
		return err
	}
	if w.sources, err = w.admin.DescribeTopics(ctx, w.c.Source.Topics...); err != nil {
		return err
	}
	return w.limits.Load(ctx, w.c.Source.Topics...)
}

// dial makes the clients and looks at the cluster.
func (w *Worker) dial(ctx context.Context) (err error) {
	if w.admin, err = broker.NewAdmin(w.c.Broker); err != nil {
		return err
	}
	w.log = broker.NewLog(w.admin.Client())
	w.limits = broker.NewLimits(w.admin)
	if w.feat, err = w.admin.Features(ctx); err != nil {
		return err
	}
	if err := w.c.Epoch.checkTimeouts(w.feat.MaxTransactionTimeout); err != nil && w.exactly() {
		return err
	}
	return nil
}

func (w *Worker) exactly() bool { return w.c.Guarantee == sink.ExactlyOnce }

// DefaultTasks is the number of tasks where the pipeline file gives none: one
// per partition, at most 4, and fewer with short epochs. The brokers pay for
// transactions, tasks divided by interval, and with too many of them each takes
// longer than the interval.
func DefaultTasks(partitions int32, interval time.Duration) int32 {
	return max(1, min(partitions, 4, int32(min(interval/(25*time.Millisecond), 4))))
}

// wanted is the meta record that the pipeline file asks for.
func (w *Worker) wanted() broker.Meta {
	want := broker.Meta{
		Pipeline: w.c.Pipeline, Generation: 1, Tasks: w.c.Tasks, Guarantee: string(w.c.Guarantee),
		Cluster: w.feat.ClusterID, Created: time.Now().UTC(), CreatedBy: w.c.Worker,
	}
	for _, t := range w.c.Source.Topics {
		want.Sources = append(want.Sources, broker.SourceOf(w.sources[t]))
	}
	for _, s := range w.c.Sinks {
		want.Sinks = append(want.Sinks, broker.MetaSink{Name: s.Name, Kind: kindOf(s.Sink)})
	}
	return want
}

// identity agrees with all other workers on incarnation, generation and tasks.
// Where that writes meta, the sinks are checked before: a start that is refused must
// not fix a name that is a mistake.
func (w *Worker) identity(ctx context.Context) (checked bool, err error) {
	want := w.wanted()
	plan, err := w.plan(1, 1)
	if err != nil {
		return false, err
	}
	if _, err := w.admin.EnsureTopics(ctx, plan.Spec(broker.KindMeta)...); err != nil {
		return false, err
	}
	have, found, err := w.admin.LoadMeta(ctx)
	if err != nil {
		return false, err
	}
	if !found {
		if err := w.checkTargets(ctx, plan); err != nil {
			return false, err
		}
		checked = true
		if have, err = w.firstMeta(ctx, want); err != nil {
			return false, err
		}
	}
	want.Incarnation, want.Generation = have.Incarnation, have.Generation
	added, err := broker.CompareMeta(have, want)
	if err != nil {
		return false, err
	}
	if len(added) > 0 {
		if !checked {
			if err := w.checkTargets(ctx, plan); err != nil {
				return false, err
			}
			checked = true
		}
		if have, err = w.addSinks(ctx, have, want, added); err != nil {
			return false, err
		}
	}
	w.meta = have
	w.names = w.admin.Names(have.Generation)
	return checked, nil
}

// firstMeta begins the pipeline; another worker may have been faster.
func (w *Worker) firstMeta(ctx context.Context, first broker.Meta) (_ broker.Meta, err error) {
	if first.Tasks == 0 {
		first.Tasks = DefaultTasks(mostPartitions(w.sources), w.c.Epoch.Interval)
	}
	if first.Incarnation, err = broker.NewIncarnation(rand.Reader); err != nil {
		return first, err
	}
	return w.admin.CreateMeta(ctx, first)
}

// addSinks adds those that the pipeline did not have yet.
func (w *Worker) addSinks(ctx context.Context, have, want broker.Meta, added []string) (broker.Meta, error) {
	next := have
	next.Sinks = slices.Clone(have.Sinks)
	for _, s := range want.Sinks {
		if slices.Contains(added, s.Name) {
			next.Sinks = append(next.Sinks, s)
		}
	}
	return w.admin.UpdateMeta(ctx, have, next)
}

// checkTargets looks at all that the sinks write to: those of Kafka are their topics.
// The topics of the pipeline itself depend on what is not agreed on yet.
func (w *Worker) checkTargets(ctx context.Context, plan broker.Plan) error {
	if err := w.checkSinks(ctx); err != nil {
		return err
	}
	if err := w.createOutputs(ctx); err != nil {
		return err
	}
	specs := plan.Spec(broker.KindOutput)
	if len(specs) == 0 {
		return nil
	}
	infos, err := w.admin.EnsureTopics(ctx, specs...)
	if err != nil {
		return err
	}
	return w.checkOutputs(infos)
}

// kindOf names a sink's kind for the meta record.
func kindOf(s sink.Sink) string {
	switch s.(type) {
	case sink.Transactional:
		return "transactional"
	case sink.Staging:
		return "staging"
	}
	return "outbox"
}

func (w *Worker) plan(generation, tasks int32) (broker.Plan, error) {
	in := broker.PlanInput{
		Names: w.admin.Names(generation), Tasks: tasks, Sources: w.c.Source.Topics, Outputs: w.outputs(), DeadLetter: w.c.Dead.Topic,
		Start: w.c.Source.Start, Replication: w.c.Broker.Replication, CreateTopics: w.c.Broker.CreateTopics,
		MaxSourceBytes: w.limits.Largest(w.c.Source.Topics...),
	}
	return broker.NewPlan(in)
}

// outputs are the topics of Kafka sinks.
func (w *Worker) outputs() []string {
	var out []string
	for _, s := range w.c.Sinks {
		if t, ok := s.Sink.(sink.Transactional); ok {
			out = append(out, t.Topics()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w *Worker) topics(ctx context.Context) error {
	plan, err := w.plan(w.meta.Generation, w.meta.Tasks)
	if err != nil {
		return err
	}
	if err := w.createOutputs(ctx); err != nil {
		return err
	}
	infos, err := w.admin.EnsureTopics(ctx, plan.Topics...)
	if err != nil {
		return err
	}
	if err := w.checkOutputs(infos); err != nil {
		return err
	}
	return w.limits.Load(ctx, append(w.outputs(), w.c.Dead.Topic, w.names.Journal(), w.names.Outbox())...)
}

// creator is a Kafka sink that wants its missing topics made.
type creator interface{ CreateTopics() bool }

// mirror is a Kafka sink that keeps the numbers of partitions.
type mirror interface{ SamePartitions() bool }

func (w *Worker) createOutputs(ctx context.Context) error {
	var specs []broker.TopicSpec
	for _, s := range w.c.Sinks {
		t, ok := s.Sink.(sink.Transactional)
		if c, yes := s.Sink.(creator); !ok || !yes || !c.CreateTopics() {
			continue
		}
		for _, name := range t.Topics() {
			specs = append(specs, broker.TopicSpec{Name: name, Kind: broker.KindCreatedOutput, Partitions: mostPartitions(w.sources)})
		}
	}
	if len(specs) == 0 {
		return nil
	}
	_, err := w.admin.EnsureTopics(ctx, specs...)
	return err
}

func mostPartitions(sources map[string]broker.TopicInfo) int32 {
	most := int32(1)
	for _, s := range sources {
		most = max(most, s.Partitions)
	}
	return most
}

func (w *Worker) checkOutputs(infos map[string]broker.TopicInfo) error {
	most := mostPartitions(w.sources)
	for _, s := range w.c.Sinks {
		t, ok := s.Sink.(sink.Transactional)
		if m, yes := s.Sink.(mirror); !ok || !yes || !m.SamePartitions() {
			continue
		}
		for _, name := range t.Topics() {
			if have := infos[name].Partitions; have < most {
				return &broker.Problem{
					Code: broker.CodeTopicPartitions, Place: "sink " + s.Name + ", topic " + name,
					Cause:  fmt.Sprintf("has %d partitions and is to keep the partition numbers of a source with %d", have, most),
					Remedy: "add partitions to it, or set partition: by_key",
				}
			}
		}
	}
	return nil
}

// checkSinks refuses the start where a sink is wrong. One that is merely away
// is no reason: the others go on, and it gets its records when it is back.
func (w *Worker) checkSinks(ctx context.Context) error {
	if name, err := CheckFollowers(w.c.Sinks); err != nil {
		return Permanent(fmt.Errorf("sink %s: %w", name, err))
	}
	found := make([]error, len(w.c.Sinks))
	var wg sync.WaitGroup
	for i, s := range w.c.Sinks {
		wg.Go(func() { found[i] = s.Sink.Check(ctx) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err() // what the sinks say of it is not about them
	}
	var errs []error
	for i, s := range w.c.Sinks {
		err := found[i]
		switch {
		case err == nil:
		case sink.IsTransient(err):
			w.emit(Event{Kind: SinkFailed, Sink: s.Name, Err: err})
		default:
			errs = append(errs, fmt.Errorf("sink %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// refresh looks at the source topics: a partition that was added is handed to
// its task, a topic that was deleted and made again stops the worker.
func (w *Worker) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.c.Refresh)
	defer cancel()
	now, err := w.admin.DescribeTopics(ctx, w.c.Source.Topics...)
	if err != nil {
		if broker.CodeOf(err) == broker.CodeTopicMissing {
			return Permanent(err)
		}
		w.away = true
		w.emit(Event{Kind: KafkaAway, Err: err})
		return nil
	}
	if w.away {
		w.away = false
		w.emit(Event{Kind: KafkaBack})
	}
	for topic, t := range now {
		if old := w.sources[topic]; old.ID != t.ID {
			return Permanent(recreated(topic, hex.EncodeToString(old.ID[:]), hex.EncodeToString(t.ID[:])))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.tasks {
		s.sourcesAre(now)
	}
	return nil
}

func recreated(topic, was, is string) error {
	return &broker.Problem{
		Code: broker.CodeTopicRecreated, Place: "source topic " + topic,
		Cause:  fmt.Sprintf("was deleted and made again (id %s, now %s): its offsets mean other records now", was, is),
		Remedy: "stop the workers and run `exactly reset` to begin a new generation",
	}
}
