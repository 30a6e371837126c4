package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"exactly/internal/audit"
	"exactly/internal/catalog"
	"exactly/internal/config"
	"exactly/internal/watch"
	"exactly/sink"
)

// Options say what to run. Zero values are replaced as told.
type Options struct {
	Payments  int64 // 0: 1,000
	Kills     int   // below 0: one per phase and a few at random, as far as there are payments for them
	Workers   int   // 0: 2
	Tasks     int   // 0: 4
	Seed      uint64
	Dir       string   // to keep everything in; "": a temporary folder, removed if all is right
	Brokers   []string // of a real cluster; nil: embedded
	Guarantee sink.Guarantee

	Exe      string    // the program whose `run` is a worker
	Progress io.Writer // lines or bars; nil: nothing is told
	Terminal bool      // Progress is a terminal
	Log      *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Payments == 0 {
		o.Payments = 1000
	}
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Tasks == 0 {
		o.Tasks = 4
	}
	if o.Guarantee == "" {
		o.Guarantee = sink.ExactlyOnce
	}
	if o.Kills < 0 {
		o.Kills = int(min(int64(defaultKills), o.Payments/paymentsPerKill))
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate says what is wrong with o, in the words of the flags.
func (o Options) Validate() error {
	switch {
	case o.Payments < 1 || o.Payments > 50_000_000:
		return errors.New("payments: must be 1 to 50000000")
	case o.Kills > 10_000:
		return errors.New("kills: must be at most 10000")
	case o.Workers < 1 || o.Workers > 64:
		return errors.New("workers: must be 1 to 64")
	case o.Tasks < 1 || o.Tasks > 64:
		return errors.New("tasks: must be 1 to 64")
	case o.Guarantee != sink.ExactlyOnce && o.Guarantee != sink.AtLeastOnce:
		return fmt.Errorf("guarantee: %q is neither exactly_once nor at_least_once", o.Guarantee)
	}
	return nil
}

// run is one demo at work.
type run struct {
	o     Options
	dir   string
	temp  bool
	kaf   *cluster
	part  *partner
	crew  *crew
	x     *index
	outs  *outputs
	table *tableFeed
	watch *watch.Watcher
	prod  *producer
	chaos *chaos
	file  string
	bars  *progress
	begin time.Time
}

// Run runs the demo. An error means that it could not be run to its end; what
// was found wrong is in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{o: o, begin: time.Now()}
	if err := r.setUp(ctx); err != nil {
		return nil, errors.Join(err, r.tearDown(nil))
	}
	limit := time.Duration(60+o.Payments/1000+5*int64(len(r.chaos.plan))) * time.Second
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo was not done within %s", limit))
	defer cancel()
	res, err := r.work(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %s", context.Cause(limited), r.lacking())
	}
	return res, errors.Join(err, r.tearDown(res))
}

// setUp makes everything but the workers.
func (r *run) setUp(ctx context.Context) error {
	var err error
	if r.dir, r.temp, err = folder(r.o.Dir); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(r.o.Seed, 1))
	name := strconv.FormatUint(rand.Uint64(), 36) // not of the seed: names must not meet
	if r.kaf, err = openCluster(ctx, r.o.Brokers, name, int32(max(4, r.o.Tasks))); err != nil {
		return err
	}
	if r.part, err = startPartner(r.o.Seed, r.o.Payments, slowCall*time.Millisecond); err != nil {
		return err
	}
	if r.file, err = writePipeline(r.dir, r.kaf, r.part, r.o.Guarantee, r.o.Tasks); err != nil {
		return err
	}
	if r.crew, err = newCrew(r.o.Exe, r.file, r.dir, r.o.Workers); err != nil {
		return err
	}
	r.x = newIndex(r.kaf.raw, r.o.Payments)
	if r.outs, err = newOutputs(r.kaf, r.x, r.o.Tasks); err != nil {
		return err
	}
	r.watch = watch.New(r.watchConfig())
	r.prod = &producer{cl: r.kaf.cl, topic: r.kaf.raw, x: r.x, n: r.o.Payments}
	r.bars = newProgress(r.o.Progress, r.o.Terminal, r.o.Payments)
	r.chaos = &chaos{
		rng: rng, g: r.o.Guarantee, crew: r.crew, kaf: r.kaf, x: r.x, prod: r.prod, outs: r.outs, db: dbPath(r.dir), log: r.o.Log,
		plan: makePlan(rng, r.o.Guarantee, r.o.Kills), say: r.bars.kill,
	}
	r.bars.begin(r.o, r.dir, len(r.chaos.plan))
	return nil
}

func folder(dir string) (string, bool, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "exactly-demo-")
		if err != nil {
			return "", false, fmt.Errorf("make a folder for the demo: %w", err)
		}
		return dir, true, nil
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(abs, 0o755)
	}
	if err != nil {
		return "", false, fmt.Errorf("%w %s: %w", ErrFolder, dir, err)
	}
	for _, name := range []string{"payments.db", "lake", "pipeline.yaml"} {
		if _, err := os.Stat(filepath.Join(abs, name)); err == nil {
			return "", false, fmt.Errorf("%w: %s holds %s of an earlier run: empty it, or name another", ErrFolder, dir, name)
		}
	}
	return abs, false, nil
}

func (r *run) watchConfig() watch.Config {
	r.table = &tableFeed{path: dbPath(r.dir)}
	feeds := map[string]watch.Feed{
		"enriched": r.outs.feed,
		"records":  r.table,
		"lake":     &lakeFeed{url: lakeURL(r.dir), known: map[string]bool{}},
		"partner":  &partnerFeed{p: r.part},
	}
	for name, f := range feeds {
		feeds[name] = noted{f, name, r.x}
	}
	tasks := int32(r.o.Tasks)
	return watch.Config{
		Client: r.kaf.cl, Group: r.kaf.group(), Feeds: feeds, Locate: r.x.locate,
		TxnIDs: func(p int32) []string { return r.kaf.txnIDs(int(p % tasks)) },
		Blind:  r.o.Guarantee == sink.AtLeastOnce, // nothing is ever undecided there
	}
}

// work runs workers, kills and all, and audits what came of it.
func (r *run) work(ctx context.Context) (*Result, error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	background := func(fn func() error) {
		wg.Go(func() {
			if err := fn(); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	stopWatch := make(chan struct{})
	watched := make(chan error, 1)
	readCtx, stopReading := context.WithCancel(ctx)
	defer stopReading()
	wg.Go(func() { r.outs.run(readCtx) })
	wg.Go(func() { r.bars.run(readCtx, r.x) })
	background(func() error { return r.prod.run(ctx) })
	wg.Go(func() {
		err := r.watch.Run(ctx, stopWatch)
		if err != nil {
			cancel(err)
		}
		watched <- err
	})
	if err := r.upToRest(ctx); err != nil {
		cancel(err)
		return nil, context.Cause(ctx) // what came first
	}
	r.bars.note("every payment is in every sink; the workers stop")
	stopped := r.crew.stop()
	close(stopWatch)
	if err := <-watched; err != nil {
		return nil, err
	}
	stopReading()
	r.bars.note("the audit reads the source and all sinks")
	return r.judge(ctx, stopped)
}

// upToRest starts the workers, kills them by the plan, and waits until every
// payment has arrived everywhere.
func (r *run) upToRest(ctx context.Context) error {
	for _, s := range r.crew.slots {
		if err := r.crew.start(ctx, s, ""); err != nil {
			return err
		}
	}
	warm := r.outs.after(time.Now(), nil)
	r.chaos.ration(len(r.chaos.plan) + 1)
	r.chaos.recovered(ctx, warm)
	if err := r.chaos.run(ctx); err != nil {
		return err
	}
	r.prod.grant(r.prod.left(), time.Duration(r.o.Payments/10)*time.Millisecond+time.Millisecond)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !r.x.complete() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := r.chaos.replace(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacking tells what a run that took too long was waiting for.
func (r *run) lacking() string {
	text := fmt.Sprintf("%d of %d payments written, %d of %d kills done", r.x.written(), r.o.Payments, len(r.chaos.kills), len(r.chaos.plan))
	for _, name := range sinkNames {
		text += fmt.Sprintf(", %d in %s", r.x.distinct(name), name)
	}
	for _, s := range r.crew.slots {
		text += s.tail()
	}
	return text
}

// judge audits and puts the result together.
func (r *run) judge(ctx context.Context, stopped error) (*Result, error) {
	env := func(name string) (string, bool) {
		if name == "EXACTLY_WORKER_DIR" {
			return r.dir, true
		}
		return os.LookupEnv(name)
	}
	f, err := config.Load(r.file, catalog.Kinds(), env)
	if err != nil {
		return nil, err
	}
	plan, err := audit.FromFile(f, audit.FileOptions{
		Listings: map[string]string{"partner": r.part.url + "/v1/events"}, Log: r.o.Log,
	})
	if err != nil {
		return nil, err
	}
	rep, err := audit.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	return r.result(rep, stopped), nil
}

// tearDown ends what is left. The folder is removed if it was temporary and all
// is right.
func (r *run) tearDown(res *Result) error {
	var errs []error
	if r.bars != nil {
		r.bars.end()
	}
	if r.crew != nil {
		r.crew.close()
	}
	if r.table != nil {
		r.table.close()
	}
	if r.part != nil {
		r.part.close()
	}
	right := res != nil && res.Right
	if r.kaf != nil {
		errs = append(errs, r.kaf.close(len(r.o.Brokers) > 0, false))
	}
	if r.temp && right {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}
