//go:build services

package database

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/failpoint"
	"exactly/internal/services"
	"exactly/test/rig"
)

// TestSourceChanges (41): a partition that is added is taken up; a topic that is made
// again is refused by its id, and after a reset its records overwrite the rows that
// the old ones left, which their order allows, and no others. What the generation
// before had prepared and not decided is gone.
func TestSourceChanges(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 2, Partitions: 2, Sinks: []string{"enriched", "upserted", "staged"}, Postgres: services.Postgres(t, true),
	})
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	p.AwaitTasks(p.Tasks, w)
	l.AtLeast(200)
	_, err := p.Admin.CreatePartitions(t.Context(), 2, p.Raw)
	rig.Check(t, err)
	rig.Await(t, "records in the added partitions", func(context.Context) (string, bool) {
		ends := p.Ends()
		return fmt.Sprint(ends), len(ends) == 4 && ends[2] > 0 && ends[3] > 0
	})
	finish(p, l, w)
	n := l.Written()

	p.Batch(n, 50) // and nobody decides them
	if code := p.Run(0, string(failpoint.SinkStageAfter)+":hit=1=kill").Exit(); code != -1 {
		t.Fatalf("the worker ended with exit code %d, not by SIGKILL", code)
	}
	if prepared(t, p) == 0 {
		t.Fatal("nothing is prepared: there is nothing to see")
	}
	(&orphanage{Pipeline: p}).gone()
	old := latest(t, p, "upserted")
	p.Recreate()
	p.Batch(0, 100) // the first hundred again, at other offsets and of another time
	p.Refused(3, "was deleted and made again")
	p.Reset("--to", "earliest")
	if left := prepared(t, p); left != 0 {
		t.Errorf("%d transactions of the generation before are prepared after the reset", left)
	}
	w = p.Run(0)
	for _, table := range []string{"upserted", "staged"} {
		want := counts{rows: n, fresh: 100}
		rig.Await(t, "rows of the new source in "+table, func(context.Context) (string, bool) {
			got := count(t, p, table, old)
			return fmt.Sprint(got), got.fresh >= want.fresh
		})
		if got := count(t, p, table, old); got != want {
			t.Errorf("%s: %+v, want %+v", table, got, want)
		}
	}
	p.Stop(w)
	code, r := p.Audit()
	for _, table := range []string{"upserted", "staged"} {
		s := r.Sink(t, table)
		bad := s.Missing + s.Duplicate + s.OutOfOrder + s.Changed + s.ConflictingWrites
		if code != 4 || s.Expected != 100 || s.Unique != 100 || s.Unexpected != n-100 || bad != 0 {
			t.Errorf("audit: exit code %d, %s; want 4, the hundred right, and the other %d rows unexpected", code, rig.Text(s), n-100)
		}
	}
	p.WantNothingOpen()
}

// counts are the rows of a table, and those that are of payments of a new source.
type counts struct{ rows, fresh int64 }

func latest(t *testing.T, p *rig.Pipeline, table string) (at time.Time) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	rig.Check(t, c.QueryRow(t.Context(), "SELECT max(event_time) FROM "+table).Scan(&at))
	return at
}

func count(t *testing.T, p *rig.Pipeline, table string, old time.Time) (n counts) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	rig.Check(t, c.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE event_time > $1) FROM "+table, old).Scan(&n.rows, &n.fresh))
	return n
}

// TestOffsetsLost (41): the brokers have forgotten what the group had read, as when
// offsets expire: they are committed again from the journal. Offsets that somebody has
// moved are refused until they are moved back. Neither repeats a row, nor an addition
// to a balance, nor leaves one out.
func TestOffsetsLost(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 2, Partitions: 2, Sinks: []string{"enriched", "upserted", "appended", "staged_log", "balances"}, Postgres: services.Postgres(t, true),
	})
	l := p.Idle()
	l.Watch(p.Tasks, nil)
	more := func() {
		t.Helper()
		l.Produce(0, 50)
		w := p.Run(0)
		l.Complete(w)
		p.Stop(w)
	}
	more()
	p.Forgotten(func() {
		w := p.Run(0)
		p.AwaitTasks(p.Tasks, w)
		p.Stop(w)
	})
	more()
	p.WantRight(100)

	for _, by := range []int64{-3, 3} { // back: records again; ahead: records left out
		l.Produce(0, 50)
		<-l.Done
		p.MoveOffset(by)
		p.Refused(3, "the committed offset is", "or move it back")
		p.MoveOffset(-by)
		more()
	}
	l.WantDecided()
	p.WantRight(300)
	p.WantNothingOpen()
}
