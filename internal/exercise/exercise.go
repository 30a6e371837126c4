package exercise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/audit"
	"exactly/internal/catalog"
	"exactly/internal/config"
	"exactly/internal/payments"
)

// Options say what to run.
type Options struct {
	Brokers  []string
	DSN      string // of PostgreSQL
	Payments int64
	Seed     uint64 // when the worker is killed
	Dir      string // for the pipeline file and the worker's log
	Fresh    bool   // remove what an earlier run left

	Exe      string // the program whose `run` is the worker
	Progress io.Writer
	Log      *slog.Logger
}

// ErrEnvironment: cluster or database cannot be used, or hold an earlier run.
var ErrEnvironment = errors.New("cannot run the exercise")

// The names, as people know them.
const (
	Raw      = "payments.raw"
	Enriched = "payments.enriched"
	pipeline = "payments"
	table    = "payment_records"
	orders   = "order_records"

	deadLetters = pipeline + ".dlq"
	group       = "exactly." + pipeline
	own         = group + "." // what the engine's topics begin with
)

// Partitions is how many each topic has.
const Partitions = 4

// Result is what came of it.
type Result struct {
	Right    bool          `json:"right"`
	Payments int64         `json:"payments"`
	KilledAt int64         `json:"killed_at"` // rows that the table held then
	Back     time.Duration `json:"back_ns"`   // from the kill to the next row
	Queries  []Query       `json:"queries"`
	Audit    *audit.Report `json:"audit"`
}

// Query is one question and its answer.
type Query struct {
	Title   string     `json:"title"`
	SQL     string     `json:"sql"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// exercise is one at work.
type exercise struct {
	o    Options
	cl   *kgo.Client
	adm  *kadm.Client
	db   *pgx.Conn
	file string
	w    *worker

	note  note // what this run made, as the comments of its tables have it
	noted bool // nothing is missing in it
}

// Run runs it to its end. What was found wrong is in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	limit := 2*time.Minute + time.Duration(o.Payments)*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the exercise was not done within %s", limit))
	defer cancel()
	x := &exercise{o: o}
	defer x.close()
	res, err := x.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return res, err
}

// The worker is killed while payments from number first to number last come in,
// slowly enough that no epoch leads far beyond.
const (
	first, last = 200, 300
	slowly      = 100 // a second
)

// Least is the least number of payments.
const Least = last

func (x *exercise) run(ctx context.Context) (*Result, error) {
	if err := x.setUp(ctx); err != nil {
		return nil, err
	}
	res := &Result{Payments: x.o.Payments}
	if err := x.killOnce(ctx, res); err != nil {
		return nil, err
	}
	for _, name := range []string{table, orders} {
		if _, err := x.await(ctx, name, x.o.Payments); err != nil {
			return nil, err
		}
	}
	x.say("stop the worker")
	if err := x.w.stop(ctx); err != nil {
		return nil, err
	}
	var err error
	if res.Queries, err = x.ask(ctx); err != nil {
		return nil, err
	}
	res.Audit, err = x.audit(ctx)
	if err != nil {
		return nil, err
	}
	res.Right = res.Audit.Severity() != audit.Error && x.rightAnswers(res.Queries)
	return res, nil
}

func (x *exercise) say(format string, args ...any) {
	_, _ = fmt.Fprintf(x.o.Progress, format+"\n", args...)
}

// produce writes payments from one number to another, rate a second; 0: at once.
func (x *exercise) produce(ctx context.Context, from, to int64, rate float64) error {
	if from >= to {
		return nil
	}
	if _, err := payments.Produce(ctx, x.cl, payments.Options{Topic: Raw, First: from, Count: to - from, Rate: rate}); err != nil {
		return fmt.Errorf("write payments: %w", err)
	}
	return nil
}

// killOnce starts the worker, kills it after 200 to 300 payments, starts it again,
// and gives it the rest.
func (x *exercise) killOnce(ctx context.Context, res *Result) (err error) {
	if err := x.produce(ctx, 0, first, 0); err != nil {
		return err
	}
	at := first + int64(rand.New(rand.NewPCG(x.o.Seed, 1)).IntN(60))
	x.say("start a worker, and kill it after %d of %d payments", at, x.o.Payments)
	if err := x.w.start(); err != nil {
		return err
	}
	if _, err := x.await(ctx, table, first); err != nil {
		return err
	}
	if err := x.noteEngine(ctx); err != nil {
		return fmt.Errorf("note what the worker made: %w", err)
	}
	x.noted = true
	produced := make(chan error, 1)
	go func() { produced <- x.produce(ctx, first, last, slowly) }()
	if _, err := x.await(ctx, table, at); err != nil {
		return err
	}
	if err := x.w.kill(); err != nil {
		return err
	}
	begin := time.Now()
	if res.KilledAt, err = x.rows(ctx, table); err != nil {
		return err
	}
	x.say("killed: SIGKILL at %d rows; started again", res.KilledAt)
	if err := x.w.start(); err != nil {
		return err
	}
	if res.KilledAt < last {
		if _, err := x.await(ctx, table, res.KilledAt+1); err != nil {
			return err
		}
		res.Back = time.Since(begin)
		x.say("the next row came %s after the kill", res.Back.Round(time.Millisecond))
	}
	if err := <-produced; err != nil {
		return err
	}
	return x.produce(ctx, last, x.o.Payments, 0)
}

// lookEvery is how often the table is looked at.
const lookEvery = 5 * time.Millisecond

// await waits until a table has n rows.
func (x *exercise) await(ctx context.Context, name string, n int64) (int64, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		have, err := x.rows(ctx, name)
		if err != nil || have >= n {
			return have, err
		}
		if err := x.w.alive(); err != nil {
			return have, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return have, fmt.Errorf("%s has %d of %d rows", name, have, n)
		}
	}
}

func (x *exercise) audit(ctx context.Context) (*audit.Report, error) {
	f, err := config.Load(x.file, catalog.Kinds(), func(name string) (string, bool) {
		if name == "PG_DSN" {
			return x.o.DSN, true
		}
		return x.o.Dir, name == "EXACTLY_WORKER_DIR"
	})
	if err != nil {
		return nil, err
	}
	plan, err := audit.FromFile(f, audit.FileOptions{Log: x.o.Log})
	if err != nil {
		return nil, err
	}
	return audit.Run(ctx, plan)
}

func (x *exercise) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if x.w != nil {
		_ = x.w.kill()
		x.noteLate(ctx)
	}
	if x.cl != nil {
		x.cl.Close()
	}
	if x.db != nil {
		_ = x.db.Close(ctx)
	}
}
