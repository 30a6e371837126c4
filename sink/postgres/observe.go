package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"exactly/sink"
)

var _ sink.Observer = (*Staged)(nil)

// anyGID begins the name of every prepared transaction of this program.
const anyGID = "exactly:"

// Observe implements sink.Observer: the prepared transactions of the database that
// bear names in our manner. The view is made from shared memory, and has at most
// max_prepared_transactions rows, so that asking costs next to nothing; it is done
// in a session of its own, which is kept.
func (s *Staged) Observe(ctx context.Context, o sink.Owner) ([]sink.StagedWork, error) {
	var rows [][][]byte
	open := func(ctx context.Context) (*conn, error) { return s.s.connect(ctx, "exactly observe "+s.s.name) }
	err := s.watch.with(ctx, s.s, open, func(ctx context.Context, c *conn) (err error) {
		rows, err = c.query(ctx, `SELECT gid, greatest(0, extract(epoch FROM clock_timestamp() - prepared) * 1000)::bigint
			FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1) ORDER BY prepared`, []byte(anyGID))
		return err
	})
	if err != nil {
		return nil, s.s.wrap("look for prepared transactions of", err)
	}
	var out []sink.StagedWork
	for _, r := range rows {
		w := s.s.work(o, string(r[0]))
		ms, err := strconv.ParseInt(string(r[1]), 10, 64)
		if err != nil {
			return nil, s.s.wrap("read the age of a prepared transaction of", err)
		}
		w.Age = time.Duration(ms) * time.Millisecond
		out = append(out, w)
	}
	return out, nil
}

// work says whose a prepared transaction is.
func (s *Sink) work(o sink.Owner, name string) sink.StagedWork {
	w := sink.StagedWork{
		Name: name, Place: fmt.Sprintf("%s at %s", s.base.Database, s.base.Host), Undo: "ROLLBACK PREPARED " + literal(name),
	}
	by, ok := parseGID(o, s.base.Database, name)
	if !ok {
		w.Foreign = true
		return w
	}
	w.Generation, w.Task, w.Attempt, w.Epoch = by.generation, by.task, by.attempt, by.epoch
	return w
}

// settled tells who asks that a prepared transaction was ended here.
func (t *stagedTask) settled(name string, by stagedBy, committed bool) {
	if t.o.Settled != nil {
		t.o.Settled(sink.StagedWork{
			Name: name, Generation: by.generation, Task: by.task, Attempt: by.attempt, Epoch: by.epoch,
		}, committed)
	}
}
