//go:build services

package database

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestBackToWork: how long after a SIGKILL under load the next row is visible, of a
// worker that is started again, and of another that takes over from one that stays
// away. The times are written down; what is judged is only that nobody waits for
// something that does not come, and that all is there once. A process that starts on
// the same files is known to its group again, so that no session has to run out.
func TestBackToWork(t *testing.T) {
	const session = 6 * time.Second // the default
	p := rig.New(t, services.Kafka(t, three), rig.Shape{
		Tasks: 2, Sinks: []string{"enriched", "upserted", "staged"}, Postgres: services.Postgres(t, true), Restart: forever,
	})
	l := p.Load(300, 0)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	p.AwaitTasks(p.Tasks, w)
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(context.Background()) }()
	tables := []string{"upserted", "staged"}
	for _, table := range tables {
		rig.Await(t, "payments in "+table, func(ctx context.Context) (string, bool) {
			var n int64
			err := c.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n) // the worker makes the table
			return fmt.Sprint(n, err), n > 500
		})
		_, err := c.Exec(t.Context(), "CREATE INDEX ON "+table+" (place)") // waits for what is prepared
		rig.Check(t, err)
	}
	took := map[string][]time.Duration{}
	next := func(from time.Time, last map[string]int64) {
		for table := range last {
			took[table] = append(took[table], nextRow(t, c, table, last[table]).Sub(from))
		}
	}
	for range rig.Sized(t, 2, 20) {
		for _, table := range tables {
			w.Kill()
			last := map[string]int64{table: lastRow(t, c, table)}
			begin := time.Now()
			w = p.Run(0)
			next(begin, last)
			p.AwaitTasks(p.Tasks, w)
		}
	}
	for table, all := range took {
		slices.Sort(all)
		t.Logf("%s, started again: the next row after %s, at most %s (wanted: 200ms)", table, all[len(all)/2], all[len(all)-1])
		if all[0] >= session {
			t.Errorf("%s: not one of %d starts came before the session was over", table, len(all))
		}
	}
	o := p.Follow()
	var over []time.Duration
	for i := range rig.Sized(t, 1, 5) {
		heir := p.Run(1 + i)
		p.AwaitTasks(p.Tasks, w, heir)
		lost := w.Tasks()
		o.Current(l)
		w.Kill()
		begin := time.Now()
		p.AwaitTasks(p.Tasks, heir)
		over = append(over, o.Since(l, begin, lost))
		w = heir
	}
	slices.Sort(over)
	t.Logf("taken over: the next output after %s, at most %s (wanted: the session, %s, and 1s)", over[len(over)/2], over[len(over)-1], session)
	if over[0] >= session+rig.Patience/4 {
		t.Errorf("an heir took %s", over[0])
	}
	n := l.Stop()
	l.Complete(w)
	p.Stop(w)
	l.WantDecided()
	p.WantRight(n)
	p.WantNothingOpen()
}

func lastRow(t *testing.T, c *pgx.Conn, table string) (place int64) {
	t.Helper()
	rig.Check(t, c.QueryRow(t.Context(), "SELECT coalesce(max(place), 0) FROM "+table).Scan(&place))
	return place
}

// nextRow waits until a row behind last is visible.
func nextRow(t *testing.T, c *pgx.Conn, table string, last int64) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	look := time.NewTicker(2 * time.Millisecond) // without, the looks take the processor from what they wait for
	defer look.Stop()
	for {
		var there bool
		if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table+" WHERE place > $1)", last).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there {
			return time.Now()
		}
		<-look.C
	}
}
