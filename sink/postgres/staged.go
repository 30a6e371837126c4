package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/failpoint"
	"exactly/record"
	"exactly/sink"
)

// Staged is the sink in mode two_phase: the rows of an epoch wait in a prepared
// transaction for its decision. The prepared transaction holds the locks of its
// rows, so they are written at the end of the epoch, all at once and sorted by
// their keys.
type Staged struct {
	s     *Sink
	watch adminConn // see Observe
}

var _ sink.Staging = (*Staged)(nil)

// Features implements sink.Sink.
func (s *Staged) Features() sink.Features {
	f := s.s.Features()
	f.DurableVerdicts = false // a refusal is known before the decision
	return f
}

// Close implements sink.Sink. Sessions belong to tasks, but for that of Observe.
func (s *Staged) Close() error {
	s.watch.close()
	return s.s.Close()
}

// Check implements sink.Sink.
func (s *Staged) Check(ctx context.Context) error {
	if err := s.s.Check(ctx); err != nil {
		return err
	}
	c, err := s.s.connect(ctx, "exactly check "+s.s.name)
	if err != nil {
		return s.s.wrap("check", err)
	}
	defer c.close()
	return s.s.wrap("check", c.canPrepare(ctx, sink.Owner{Tasks: 1}))
}

// perTask is how many prepared transactions of one task there may be: one that is
// being committed, one that waits for its decision.
const perTask = 2

// needed is how many prepared transactions of the pipeline there may be: the sinks of
// mode two_phase may all be on one server, each with the same tasks.
func needed(o sink.Owner) int { return perTask * int(o.Tasks) * max(1, o.Stagings) }

// canPrepare: the server must have room for those of all tasks and sinks.
func (c *conn) canPrepare(ctx context.Context, o sink.Owner) error {
	rows, err := c.query(ctx, "SELECT current_setting('max_prepared_transactions')")
	if err != nil {
		return fmt.Errorf("ask for max_prepared_transactions: %w", err)
	}
	most, err := strconv.Atoi(string(rows[0][0]))
	if need := needed(o); err == nil && most < need {
		err = sink.Fatal(fmt.Errorf("the server allows %d prepared transactions (max_prepared_transactions), mode two_phase needs %d for each of %d tasks of each of the pipeline's %d sinks with it, %d in all: "+
			"ALTER SYSTEM SET max_prepared_transactions = %d, and start the server again", most, perTask, o.Tasks, max(1, o.Stagings), need, max(2*need, 16)))
	}
	return err
}

// hasRoom: others may have used up what the server allows. PREPARE TRANSACTION would
// fail then, with the rows of the epoch lost, so a task waits here until there is room.
// What the pipeline itself has prepared, in whichever sink, is about to be ended.
func (c *conn) hasRoom(ctx context.Context, o sink.Owner) error {
	rows, err := c.query(ctx, "SELECT current_setting('max_prepared_transactions')::int - count(*), count(*) FROM pg_prepared_xacts WHERE NOT starts_with(gid, $1)",
		[]byte("exactly:"+o.Incarnation+":"))
	if err != nil {
		return fmt.Errorf("count the prepared transactions: %w", err)
	}
	free, err := strconv.Atoi(string(rows[0][0]))
	if need := needed(o); err == nil && free < need {
		err = sink.Transient(fmt.Errorf("there is room for %d prepared transactions beside the %s of others, and the tasks need %d: it is waited for; "+
			"pg_prepared_xacts lists them, `exactly resolve` ends those of a pipeline that is down, max_prepared_transactions makes more room", free, rows[0][1], need))
	}
	return err
}

// OpenStaging implements sink.Staging.
func (s *Staged) OpenStaging(ctx context.Context, o sink.Owner) (sink.StagingTask, error) {
	t := &stagedTask{s: s.s, o: o, room: make(chan struct{}, perTask), holds: map[string]bool{}}
	for i := range t.lanes {
		t.lanes[i] = &stagedLane{task: &task{s: s.s, o: o}}
	}
	first := t.lanes[0].task
	ctx, cancel := first.timeout(ctx)
	defer cancel()
	err := func() error {
		if _, err := s.s.open(ctx, first, sink.Pos{}); err != nil {
			return err
		}
		if o.Guarantee == sink.AtLeastOnce {
			return nil
		}
		if err := first.c.canPrepare(ctx, o); err != nil {
			return err
		}
		if err := first.c.hasRoom(ctx, o); err != nil {
			return err
		}
		m := t.marks(first.c)
		if err := m.create(ctx); err != nil {
			return err
		}
		return t.knows(ctx, m)
	}()
	if err != nil {
		first.drop()
		return nil, s.s.wrap(fmt.Sprintf("open task %d of", o.Task), err)
	}
	second := t.lanes[1].task
	second.ledger, second.params, second.homes = first.ledger, first.params, first.homes
	return t, nil
}

// stagedTask is the sink at work for one task.
type stagedTask struct {
	s *Sink
	o sink.Owner

	lanes [2]*stagedLane // epochs alternate: the next one may be written before this one is prepared

	room  chan struct{} // holds one for each prepared transaction of this attempt
	mu    sync.Mutex
	holds map[string]bool // by name
	keep  []sink.Committable

	admin   adminConn
	failing atomic.Bool // the last commit failed
}

// stagedLane is the session of every other epoch.
type stagedLane struct {
	task  *task
	epoch int64
	taken []sink.Entry
}

var _ sink.StagingFlusher = (*stagedTask)(nil)

func (t *stagedTask) lane(epoch int64) *stagedLane { return t.lanes[epoch&1] }

func (t *stagedTask) marks(c *conn) *epochMarks {
	return &epochMarks{ledger: ledger{c: c, table: t.lanes[0].task.ledger, o: t.o}}
}

// Write implements sink.StagingTask: it only takes records in.
func (t *stagedTask) Write(_ context.Context, epoch int64, rs []record.Record) error {
	l := t.lane(epoch)
	if l.epoch != epoch {
		l.epoch, l.taken = epoch, nil
	}
	for i := range rs {
		l.taken = append(l.taken, sink.Entry{Pos: sink.Pos{Epoch: epoch, Index: int64(len(l.taken))}, Record: rs[i]})
	}
	return nil
}

// flushTries is how often an epoch is written again for what is not a lock. A
// database that is away longer is waited for by a takeover, without holding a
// Kafka transaction open.
const flushTries = 3

// Flush implements sink.StagingFlusher.
func (t *stagedTask) Flush(ctx context.Context, epoch int64) error {
	l := t.lane(epoch)
	if l.epoch != epoch || len(l.taken) == 0 {
		return nil
	}
	var refused []sink.Verdict
	for try := 1; ; {
		var err error
		if refused, err = t.write(ctx, l); err == nil {
			t.s.larger()
			break
		}
		if !contended(err) && !t.s.smaller(err, len(l.taken)) {
			try++
		}
		if ctx.Err() != nil || try > flushTries || sink.Classify(classed(err)) != sink.ClassTransient {
			return t.s.wrap(fmt.Sprintf("write epoch %d to", epoch), err)
		}
		// What holds the lock may be a zombie's, who staged after the sweep.
		if err := t.Sweep(ctx, t.kept()); err != nil {
			return err
		}
		select {
		case <-time.After(flushPause):
		case <-ctx.Done():
		}
	}
	if len(refused) == 0 {
		return nil
	}
	poison := &sink.PoisonError{}
	for _, v := range refused {
		poison.Index = append(poison.Index, int(v.Pos.Index))
		poison.Errs = append(poison.Errs, sink.Poison(v.Code, errors.New(v.Reason)))
	}
	if len(refused) == len(l.taken) { // nothing to prepare, and no transaction to leave open
		l.taken = nil
		l.task.c.rollback(ctx)
	}
	return poison
}

const (
	// flushPause is how soon an epoch is written again.
	flushPause = 50 * time.Millisecond
	// lockWait is how long a statement waits for a lock before the task looks
	// whether a zombie holds it.
	lockWait = time.Second
)

// contended: somebody else holds what is needed, and will let go of it.
func contended(err error) bool {
	s := state(err)
	return s == stateLocked || s == stateDeadlock || s == stateSerialization
}

// smaller halves what a statement of mode two_phase may have, if it took too long: an
// epoch is one transaction, but need not be one statement. It is said to all tasks, and
// outlives an attempt.
func (s *Sink) smaller(err error, n int) bool {
	if !tooMuch(err) {
		return false
	}
	s.good.Store(0)
	most := s.most.Load()
	if most > 0 {
		n = min(n, int(most))
	}
	if n > 1 {
		s.most.CompareAndSwap(most, int64(n/2))
	}
	return n > 1
}

// goodEpochs in a row make statements larger again: each that takes too long costs
// the whole time-out.
const goodEpochs = 100

// larger doubles it again.
func (s *Sink) larger() {
	if most := s.most.Load(); most > 0 && s.good.Add(1)%goodEpochs == 0 {
		next := 2 * most
		if next >= maxTransaction {
			next = 0
		}
		s.most.CompareAndSwap(most, next)
	}
}

// write fills the lane's transaction, and leaves it open.
func (t *stagedTask) write(ctx context.Context, l *stagedLane) (refused []sink.Verdict, err error) {
	for _, careful := range []bool{false, true} {
		err = l.task.with(ctx, func(c *conn) error {
			refused, err = t.fill(ctx, c, l, careful)
			if err != nil {
				c.rollback(ctx)
			}
			return err
		})
		if !errors.Is(err, errRefused) {
			return refused, err
		}
		l.task.drop() // as task.apply does
	}
	return nil, err
}

func (t *stagedTask) fill(ctx context.Context, c *conn, l *stagedLane, careful bool) ([]sink.Verdict, error) {
	c.rollback(ctx) // of an earlier try, or of an epoch that was never prepared
	if err := l.task.current(ctx, c, func() error { return t.begin(ctx, c) }); err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	w := newWriter(l.task, c)
	w.most = int(t.s.most.Load())
	if err := w.put(ctx, c, l.taken, careful); err != nil {
		return nil, fmt.Errorf("write %d records: %w", len(l.taken), err)
	}
	if !careful {
		if err := l.task.outdated(ctx, c, w); err != nil {
			return nil, err
		}
	}
	// What waits for the end would be refused by PREPARE TRANSACTION, too late for
	// a dead letter.
	if err := c.exec(ctx, constraintsNow); err != nil {
		return nil, w.failed(err)
	}
	slices.SortFunc(w.verdicts, func(a, b sink.Verdict) int { return a.Pos.Compare(b.Pos) })
	return w.verdicts, nil
}

func (t *stagedTask) begin(ctx context.Context, c *conn) error {
	b := &pgconn.Batch{}
	begin(b, t.s.cfg.StatementTimeout)
	wait := min(lockWait, t.s.cfg.StatementTimeout/2) // who waits for a lock is told so, not that it took too long
	b.ExecParams("SELECT set_config('lock_timeout', $1, true)", [][]byte{text(wait.Milliseconds())}, []uint32{oidText}, nil, nil)
	_, err := c.startAsSeen(ctx, b)
	return err
}

// Prepare implements sink.StagingTask.
func (t *stagedTask) Prepare(ctx context.Context, epoch int64) ([]sink.Committable, error) {
	l := t.lane(epoch)
	empty := l.epoch != epoch || len(l.taken) == 0
	l.epoch, l.taken = 0, nil
	if empty {
		return nil, nil
	}
	cs, err := t.prepare(ctx, l, epoch)
	if err != nil {
		l.task.drop()
	}
	return cs, t.s.wrap(fmt.Sprintf("prepare epoch %d of", epoch), err)
}

func (t *stagedTask) prepare(ctx context.Context, l *stagedLane, epoch int64) ([]sink.Committable, error) {
	c := l.task.c
	if c == nil || c.pg.IsClosed() || c.pg.TxStatus() != 'T' {
		return nil, sink.Transient(errors.New("the session that held its rows was lost"))
	}
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkStageBefore, t.o.Task, epoch); err != nil {
		return nil, sink.Transient(err)
	}
	if t.o.Guarantee == sink.AtLeastOnce {
		return nil, c.commit(ctx, &pgconn.Batch{})
	}
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	name := gid(t.o, t.s.base.Database, epoch)
	err := t.marks(c).set(ctx, epoch)
	if err == nil {
		err = c.exec(ctx, "PREPARE TRANSACTION "+literal(name))
		if state(err) == stateMemory { // others were faster than hasRoom: the next takeover waits for them there
			err = sink.Transient(fmt.Errorf("%w; see max_prepared_transactions, and pg_prepared_xacts for whose they are", err))
		}
	}
	if err != nil {
		<-t.room // whether it is there or not: the attempt is over
		return nil, err
	}
	t.mu.Lock()
	t.holds[name] = true
	t.mu.Unlock()
	if err := t.o.Failpoints.Hit(ctx, failpoint.SinkStageAfter, t.o.Task, epoch); err != nil {
		return nil, sink.Transient(err)
	}
	data, err := json.Marshal(prepared{name})
	return []sink.Committable{{Sink: t.o.Sink, Attempt: t.o.Attempt, Data: data}}, err
}

// enter waits until there is room for a prepared transaction; not for a database
// that is away, since the Kafka transaction is open meanwhile.
func (t *stagedTask) enter(ctx context.Context) error {
	look := time.NewTicker(flushPause)
	defer look.Stop()
	for {
		select {
		case t.room <- struct{}{}:
			return nil
		case <-look.C:
			if t.failing.Load() {
				return sink.Transient(errors.New("what was decided before cannot be committed"))
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the commit of an earlier epoch: %w", ctx.Err())
		}
	}
}

// released: a prepared transaction is gone, and its place is free.
func (t *stagedTask) released(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds[name] {
		delete(t.holds, name)
		<-t.room
	}
}

func (t *stagedTask) kept() []sink.Committable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keep
}

// Close implements sink.StagingTask.
func (t *stagedTask) Close() error {
	for _, l := range t.lanes {
		l.task.drop()
	}
	t.admin.close()
	return nil
}
