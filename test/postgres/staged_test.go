//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"time"

	"exactly/internal/services"
	"exactly/record"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

func openStaged(t *testing.T, c postgres.Config, o sink.Owner) sink.StagingFlusher {
	t.Helper()
	c.Mode = "two_phase"
	s, err := postgres.New("out", c)
	if err != nil {
		t.Fatal(err)
	}
	task, err := s.(sink.Staging).OpenStaging(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = task.Close() })
	return task.(sink.StagingFlusher)
}

// values makes records of JSON.
func values(vs ...string) (rs []record.Record) {
	for _, v := range vs {
		rs = append(rs, record.Record{Key: []byte("k"), Value: []byte(v)})
	}
	return rs
}

// staged carries an epoch to where it waits for its decision.
func staged(ctx context.Context, task sink.StagingFlusher, epoch int64, rs []record.Record) ([]sink.Committable, error) {
	err := task.Write(ctx, epoch, rs)
	if err == nil {
		err = task.Flush(ctx, epoch)
	}
	if err != nil {
		return nil, err
	}
	cs, err := task.Prepare(ctx, epoch)
	for i := range cs {
		cs[i].Epoch = epoch
	}
	return cs, err
}

// TestHotKey: every epoch of two tasks updates the same row, and rows that they
// share in opposite order, while the epoch before waits for its decision. Nothing
// deadlocks, and nothing waits for long.
func TestHotKey(t *testing.T) {
	dsn, c := database(t, "CREATE TABLE t (id text PRIMARY KEY, v bigint)")
	const epochs = 60
	slowest := make([]time.Duration, 2)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for n := range 2 {
		o := owner()
		o.Task, o.Tasks = int32(n), 2
		task := openStaged(t, postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}, o)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			commits := make(chan []sink.Committable, 8)
			var cg sync.WaitGroup
			cg.Go(func() { // beside the writes, a while after the barrier, as the engine does
				for cs := range commits {
					time.Sleep(10 * time.Millisecond)
					if err := task.Commit(ctx, cs); err != nil {
						errs[n] = errors.Join(errs[n], err)
					}
				}
			})
			for e := int64(1); e <= epochs; e++ {
				vs := []string{fmt.Sprintf(`{"id":"hot","v":%d}`, e)}
				for k := range 50 {
					at := k
					if n == 1 {
						at = 49 - k
					}
					vs = append(vs, fmt.Sprintf(`{"id":"k%d","v":%d}`, at, e))
				}
				begin := time.Now()
				cs, err := staged(ctx, task, e, values(vs...))
				if err != nil {
					errs[n] = errors.Join(errs[n], fmt.Errorf("epoch %d: %w", e, err))
					break
				}
				slowest[n] = max(slowest[n], time.Since(begin))
				commits <- cs
			}
			close(commits)
			cg.Wait()
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var hot, deadlocks int64
	if err := c.QueryRow(t.Context(), "SELECT v FROM t WHERE id = 'hot'").Scan(&hot); err != nil {
		t.Fatal(err)
	}
	if err := c.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil {
		t.Fatal(err)
	}
	t.Logf("slowest epochs %v", slowest)
	if hot != epochs || deadlocks != 0 {
		t.Errorf("the hot row is at %d after %d epochs, %d deadlocks", hot, epochs, deadlocks)
	}
}

// TestZombiesLocks: an older attempt prepares after its successor has swept, and
// its transaction holds the row that everybody writes. The successor finds it.
func TestZombiesLocks(t *testing.T) {
	dsn, c := database(t, "CREATE TABLE t (id text PRIMARY KEY, v bigint); INSERT INTO t VALUES ('hot', 0)")
	cfg := postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}
	o := owner()
	zombie := openStaged(t, cfg, o)
	o.Attempt = 2
	heir := openStaged(t, cfg, o)
	if err := heir.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	// What it would prepare itself is refused: it has a successor.
	if _, err := staged(t.Context(), zombie, 1, values(`{"id":"hot","v":1}`)); err == nil || !strings.Contains(err.Error(), "successor") {
		t.Errorf("a zombie prepares: got %v, want that it has a successor", err)
	}
	// One that was past that look already.
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(c.Config().Database))
	name := fmt.Sprintf("exactly:00c0ffee00c0ffee:%08x:pay:out:1:0:1:1", sum.Sum32())
	late := session(sinktest.Wrap(t), dsn)
	if _, err := late.Exec(t.Context(), "BEGIN; UPDATE t SET v = 1; PREPARE TRANSACTION '"+name+"'"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	cs, err := staged(t.Context(), heir, 1, values(`{"id":"hot","v":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the heir waited %s for the zombie's lock", took)
	}
	if err := heir.Commit(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	var v, left int64
	if err := c.QueryRow(t.Context(), "SELECT v, (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()) FROM t").Scan(&v, &left); err != nil {
		t.Fatal(err)
	}
	if v != 2 || left != 0 {
		t.Errorf("the row is at %d, %d prepared transactions are left; want 2 and none", v, left)
	}
}

// TestResolversRace: two processes commit one prepared transaction at once, many
// times; both get to know that it is committed (failure mode 20).
func TestResolversRace(t *testing.T) {
	dsn, c := database(t, "CREATE TABLE t (v bigint)")
	cfg := postgres.Config{DSN: dsn, Table: "t"}
	a := openStaged(t, cfg, owner())
	b := openStaged(t, cfg, owner())
	rounds := sized[int64](t, 200, 1000)
	for e := int64(1); e <= rounds; e++ {
		cs, err := staged(t.Context(), a, e, values(fmt.Sprintf(`{"v":%d}`, e)))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, task := range []sink.StagingFlusher{a, b} {
			wg.Go(func() {
				for range 100 {
					if errs[i] = task.Commit(t.Context(), cs); sink.Classify(errs[i]) != sink.ClassTransient || errs[i] == nil {
						return
					}
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("round %d: %v", e, err)
		}
	}
	var n, sum int64
	if err := c.QueryRow(t.Context(), "SELECT count(*), sum(v) FROM t").Scan(&n, &sum); err != nil {
		t.Fatal(err)
	}
	if n != rounds || sum != rounds*(rounds+1)/2 {
		t.Errorf("%d rows with a sum of %d after %d rounds", n, sum, rounds)
	}
	// Gone without a mark is lost, and said so.
	cs, err := staged(t.Context(), a, rounds+1, values(`{"v":0}`))
	if err == nil {
		err = b.Abort(t.Context(), cs)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), cs); !errors.Is(err, sink.ErrLost) {
		t.Errorf("commit of what was rolled back: got %v, want ErrLost", err)
	}
}

// TestRoomForPrepared: the server's limit is looked at before anything is written
// (failure mode 21).
func TestRoomForPrepared(t *testing.T) {
	server := services.Postgres(t, true)
	dsn := server.DSN(server.Database(t))
	c := session(sinktest.Wrap(t), dsn)
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (v bigint)"); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New("out", postgres.Config{DSN: dsn, Table: "t", Mode: "two_phase"})
	if err != nil {
		t.Fatal(err)
	}
	o := owner()
	o.Tasks = 1000
	_, err = s.(sink.Staging).OpenStaging(t.Context(), o)
	if err == nil || sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), "max_prepared_transactions") || !strings.Contains(err.Error(), "1000 tasks") {
		t.Errorf("too many tasks: got %v, want a refusal that names the setting", err)
	}
	var limit int
	if err := c.QueryRow(t.Context(), "SELECT current_setting('max_prepared_transactions')::int").Scan(&limit); err != nil {
		t.Fatal(err)
	}
	o.Tasks, o.Stagings = int32(limit/4), 3 // each sink alone, and two of them, would fit
	if _, err = s.(sink.Staging).OpenStaging(t.Context(), o); sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), "3 sinks") {
		t.Errorf("too many sinks: got %v, want a refusal that counts them", err)
	}
}
