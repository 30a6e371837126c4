//go:build synctests

package sim

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"exactly/internal/broker"
	"exactly/internal/embedded"
	"exactly/internal/engine"
	"exactly/internal/failpoint"
	"exactly/internal/mutation"
	"exactly/sink"
	"exactly/sinktest"
	"exactly/step"
)

const (
	source   = "in"
	target   = "out"
	letters  = "letters"
	pipeline = "sim"
)

// world is one run of a schedule.
type world struct {
	s       schedule
	log     *slog.Logger
	stack   *kfake.VirtualNetwork
	cluster *kfake.Cluster
	seeds   []string
	srvs    []server // of the sinks beside the topic, in the order of the names
	input   *input
	watch   *watcher
	nonce   atomic.Int64 // makes the transform's results differ from try to try

	over   chan struct{}  // closed: the run ends
	wg     sync.WaitGroup // of processes that end
	mu     sync.Mutex
	tasks  int32 // of the present generation
	slots  []*slot
	hosts  []*host // of every life so far
	owners map[*failpoint.Set]*host
	lives  int
	paused bool // no worker is started

	happened map[string]int // incidents and fail points that came about
	trace    hash.Hash64    // of every request
	requests int
	outcome  uint64 // of the last check: what every sink shows
	injected []*kfake.FaultHandle
	expired  time.Time // the last look at dead members
}

// server is the service of one sink; each has its own, so that one can be away
// while another is not.
type server struct {
	name string
	*sinktest.Server
}

// The sinks beside the topic: rows has an outbox, files stages from an outbox,
// db is of two phases; sums follows rows and db.
const everySink = "rows files db"

// sink makes the server's sink as a new process would.
func (w *world) sink(s server) sink.Sink {
	h, opt := w.s.Shape, sinktest.Options{Table: s.name}
	switch s.name {
	case sums:
		return follower{Outbox: sinktest.NewModelOutbox(s.Server, opt), w: w, leaders: w.leaders()}
	case "rows":
		opt.Bare = h.Bare
		return sinktest.NewModelOutbox(s.Server, opt)
	case "files":
		opt.RollRecords, opt.RollAge = h.Roll, 700
		return sinktest.NewModelStager(s.Server, opt)
	}
	opt.Collect = h.Collect
	return sinktest.NewModelStaging(s.Server, opt)
}

// server finds a sink's.
func (w *world) server(name string) *sinktest.Server {
	for _, s := range w.srvs {
		if s.name == name {
			return s.Server
		}
	}
	return nil
}

// servers calls f with that of one sink, or with all for "".
func (w *world) servers(name string, f func(*sinktest.Server)) {
	for _, s := range w.srvs {
		if name == "" || s.name == name {
			f(s.Server)
		}
	}
}

// slot is a place where one worker runs, life after life.
type slot struct {
	n     int
	proc  *process
	after time.Time // not started again before
	gone  bool      // for good
}

// process is one life of a worker.
type process struct {
	host   *host
	cancel context.CancelFunc
	done   chan struct{}
	err    error // when done
	armed  []*pointArm
}

type pointArm struct {
	incident
	left int
}

func newWorld(s schedule, log *slog.Logger) (*world, error) {
	w := &world{
		s: s, log: log, stack: new(kfake.VirtualNetwork), over: make(chan struct{}), tasks: s.Shape.Tasks,
		owners: map[*failpoint.Set]*host{}, happened: map[string]int{},
		trace: fnv.New64a(),
	}
	ports := []int{9092, 9093, 9094}[:s.Shape.Brokers]
	opts := []kfake.Opt{
		kfake.NumBrokers(s.Shape.Brokers), kfake.Ports(ports...), kfake.ListenFn(w.stack.Listen),
		kfake.SeedTopics(s.Shape.Partitions, source, target), kfake.SeedTopics(1, letters),
	}
	if s.Shape.Old {
		opts = append(opts, kfake.MaxVersions(kversion.V3_5_0()))
	}
	var err error
	if w.cluster, err = embedded.Start(opts...); err != nil {
		return nil, err
	}
	w.seeds = w.cluster.ListenAddrs()
	w.watch = newWatcher(w)
	for _, name := range s.Shape.servers() {
		srv := sinktest.NewServer(defects()...)
		srv.Intercept(w.watch.request)
		w.srvs = append(w.srvs, server{name, srv})
	}
	w.input = newInput(w)
	for n := range s.Shape.Workers {
		w.slots = append(w.slots, &slot{n: n})
	}
	return w, nil
}

// defects are the mutations of sinks.
func defects() []sinktest.Defect {
	var ds []sinktest.Defect
	for r, d := range map[mutation.Rule]sinktest.Defect{
		mutation.LedgerIgnored: sinktest.LedgerIgnored, mutation.SweepAll: sinktest.SweepLater,
		mutation.GenerationIgnored: sinktest.GenerationIgnored, mutation.IncarnationLost: sinktest.ForeignMarkIgnored,
	} {
		if mutation.On(r) {
			ds = append(ds, d)
		}
	}
	return ds
}

// client is one that no fault meets.
func (w *world) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.seeds...), kgo.Dialer(w.stack.DialContext), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
}

// config of a worker, or of a reset, on a host.
func (w *world) config(h *host, points *failpoint.Set) engine.Config {
	sinks := []engine.Sink{{Name: target, Sink: toTopic{}}}
	for _, s := range w.srvs {
		sinks = append(sinks, engine.Sink{Name: s.name, Sink: w.sink(s)})
	}
	return engine.Config{
		Pipeline: pipeline, Worker: h.name, Tasks: w.tasks,
		Broker: broker.Config{Brokers: w.seeds, CreateTopics: true, SessionTimeout: 6 * time.Second, ClientID: h.name, Dialer: h.dial, Log: w.log.With("client", h.name)},
		Source: engine.Source{Topics: []string{source}},
		Epoch:  engine.Epoch{Interval: w.s.Shape.Interval, Timeout: w.s.Shape.Timeout, MaxRecords: w.s.Shape.MaxRecords},
		// As a user who wants no process to end would set it.
		Restart:    engine.Restart{Max: 1 << 30, Delay: 100 * time.Millisecond, MaxDelay: time.Second},
		NewChain:   func() step.Chain { return &chain{w: w} },
		Sinks:      sinks,
		Dead:       engine.DeadLetters{Topic: letters},
		Memory:     engine.Memory{Epoch: w.s.Shape.Memory, Handover: w.s.Shape.Memory},
		StopWithin: 2 * time.Second, Refresh: 2 * time.Second, RenewEvery: w.s.Shape.Renew, SweepEvery: sweepEvery,
		Events: func(e engine.Event) {
			w.log.Debug("event", "worker", h.name, "kind", e.Kind, "task", e.Task, "epoch", e.Epoch, "sink", e.Sink, "n", e.N, "err", e.Err)
		},
		Trace: func(s engine.Step) { w.watch.step(h, s) }, Log: w.log.With("worker", h.name), Failpoints: points,
	}
}

// start begins a life.
func (w *world) start(ctx context.Context, s *slot) {
	w.lives++
	p := &process{host: newHost(w, fmt.Sprintf("%d.%d", s.n, w.lives)), done: make(chan struct{})}
	points := failpoint.New(func(ctx context.Context, at failpoint.Point, task int32, n int64) error {
		return w.passes(ctx, s, p, at)
	})
	w.add(points, p.host)
	c := w.config(p.host, points)
	ctx, p.cancel = context.WithCancel(ctx)
	s.proc = p
	w.wg.Go(func() {
		defer close(p.done)
		p.err = engine.New(c).Run(ctx)
		w.log.Info("process ended", "worker", p.host.name, "err", p.err)
	})
}

// add makes a host known; the caller holds the lock.
func (w *world) add(points *failpoint.Set, h *host) {
	w.hosts, w.owners[points] = append(w.hosts, h), h
}

// passes is called at every fail point of a process.
func (w *world) passes(ctx context.Context, s *slot, p *process, at failpoint.Point) error {
	if err := p.host.gate(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	w.happened["point "+string(at)]++
	var hit *pointArm
	for _, a := range p.armed {
		if a.Point == at && a.left > 0 {
			if a.left--; a.left == 0 {
				hit = a
			}
		}
	}
	if hit == nil {
		w.mu.Unlock()
		return nil
	}
	w.happened[string(hit.Kind)]++
	w.happened["at a point: "+hit.Do]++
	w.mu.Unlock()
	w.log.Info("fail point", "worker", p.host.name, "at", at, "do", hit.Do)
	switch hit.Do {
	case "kill":
		w.kill(s, p, hit.For)
		return errDead
	case "freeze":
		if hit.Deaf {
			p.host.deafen()
		}
		w.freeze(p, hit.For)
		return p.host.gate(ctx)
	case "delay":
		t := time.NewTimer(hit.For)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failpoint.ErrInjected
}

// kill ends a life as SIGKILL does: what it has sent may arrive, nothing else
// leaves it.
func (w *world) kill(s *slot, p *process, rest time.Duration) {
	p.host.set(dead)
	p.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.proc == p {
		s.proc, s.after = nil, time.Now().Add(rest)
	}
}

func (w *world) freeze(p *process, d time.Duration) {
	p.host.set(frozen)
	w.wg.Go(func() {
		w.rest(d)
		p.host.set(up)
	})
}

// rest waits, at most until the run ends.
func (w *world) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.over:
	}
}

// supervise keeps a process in each slot, as an init system would.
func (w *world) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		for _, s := range w.slots {
			if s.proc != nil {
				select {
				case <-s.proc.done:
					if s.proc.err != nil {
						w.watch.ended(s.proc.err)
					}
					s.proc, s.after = nil, time.Now().Add(200*time.Millisecond)
				default:
				}
			}
			if s.proc == nil && !s.gone && !w.paused && !time.Now().Before(s.after) {
				w.start(ctx, s)
			}
		}
		w.mu.Unlock()
		w.expire(ctx)
		w.rest(50 * time.Millisecond)
	}
}

// sweepEvery is when orphans of late zombies are gone.
const sweepEvery = 15 * time.Second

// expiry is when a broker drops a member that was to send SyncGroup: after the
// rebalance time-out.
const expiry = 12 * time.Second

// expire drops members that died in the middle of a join, as Kafka does. The
// embedded broker keeps those that never sent their SyncGroup for ever.
func (w *world) expire(ctx context.Context) {
	w.mu.Lock()
	if time.Since(w.expired) < 2*time.Second {
		w.mu.Unlock()
		return
	}
	w.expired = time.Now()
	gone := map[string]bool{}
	for _, h := range w.hosts {
		gone[h.name] = h.deadFor() > expiry
	}
	w.mu.Unlock()
	g := w.cluster.GroupInfo("exactly." + pipeline)
	if g == nil {
		return
	}
	for _, m := range g.Members {
		if gone[m.ClientID] {
			w.evict(ctx, g.Group, m.MemberID)
		}
	}
}

func (w *world) evict(ctx context.Context, group, member string) {
	cl, err := w.client()
	if err != nil {
		return
	}
	defer cl.Close()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	rm := kmsg.NewLeaveGroupRequestMember()
	rm.MemberID = member
	req.Members = append(req.Members, rm)
	_, err = req.RequestWith(ctx, cl)
	w.log.Info("a member that died while it joined is dropped", "member", member, "err", err)
}

// admin of the embedded broker.
func (w *world) admin(f func(*kadm.Client) error) error {
	cl, err := w.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return f(kadm.NewClient(cl))
}

func (w *world) rng(salt uint64) *rand.Rand { return rand.New(rand.NewPCG(w.s.Seed, salt)) }

// asked notes a request on its way to a broker.
func (w *world) asked(h *host, key int16, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	fmt.Fprintln(w.trace, h.name, key, bytes, time.Now().UnixNano())
}

// met notes a fault of the network.
func (w *world) met(f fault) {
	w.note("network: " + string(f))
	w.note(string(network))
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what]++
}

var _ sink.Transactional = toTopic{}
