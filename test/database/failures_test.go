//go:build services

package database

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/failpoint"
	"exactly/internal/services"
	"exactly/test/proxy"
	pgproxy "exactly/test/proxy/postgres"
	"exactly/test/rig"
)

// TestDeadLetters (37): what the database refuses is a dead letter once for each
// table, also where the worker is killed between the refusal and the decision that
// carries it: when the ledger has moved, and when the rest is prepared.
func TestDeadLetters(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 1, Partitions: 1, Sinks: []string{"enriched", "upserted", "staged", "balances"}, Postgres: services.Postgres(t, true), Restart: forever,
	})
	l := p.Load(0, 50)
	w := p.Run(0)
	l.WaitOutput(50)
	execute(t, p, "ALTER TABLE upserted ADD CHECK (merchant_id <> 'poison')", "ALTER TABLE staged ADD CHECK (merchant_id <> 'poison')",
		"INSERT INTO balances VALUES ('poison', 0)", "ALTER TABLE balances ADD CHECK (merchant_id <> 'poison' OR payments = 0)")
	cl := p.Cluster.Client(t)
	want := map[string]int{}
	points := []failpoint.Point{failpoint.SinkTxnAfter, failpoint.ApplyAfter, failpoint.SinkStageAfter, failpoint.PrepareAfter, failpoint.EndBefore, failpoint.EndAfter}
	for i, at := range points {
		p.AwaitTasks(1, w)
		p.Stop(w)
		w = p.Run(0, string(at)+":hit=1=kill")
		for j, merchant := range []string{"poison", "merchant-000"} {
			rec := &kgo.Record{Topic: p.Raw, Key: fmt.Appendf(nil, "odd-%d", i), Value: fmt.Appendf(nil,
				`{"payment_id":"6ba7b810-9dad-11d1-80b4-%012d","amount_cents":5,"merchant_id":%q,"event_time":"2026-01-31T10:00:00Z"}`, 2*i+j, merchant)}
			rig.Check(t, cl.ProduceSync(t.Context(), rec).FirstErr())
			if merchant == "poison" {
				want[fmt.Sprint(rec.Offset)] = 3 // one for each table
			}
		}
		if code := w.Exit(); code != -1 {
			t.Errorf("%s: the worker ended with exit code %d, not by SIGKILL\n%s", at, code, w.Last())
		}
		w = p.Run(0)
		rig.Await(t, "the dead letters", func(context.Context) (string, bool) {
			got := p.Letters(kgo.ReadCommitted())
			return fmt.Sprint(got), len(got) >= len(want)
		})
	}
	p.AwaitTasks(1, w)
	rig.Await(t, "all letters of each", func(context.Context) (string, bool) {
		got := fmt.Sprint(p.Letters(kgo.ReadCommitted()))
		return got, got == fmt.Sprint(want)
	})
	p.Stop(w)
	if got := p.Letters(kgo.ReadCommitted()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("dead letters by offset of the source: got %v, want %v", got, want)
	}
	copies := 0
	for offset, n := range p.Letters(kgo.ReadUncommitted()) {
		copies += n - want[offset]
	}
	if copies == 0 {
		t.Error("no epoch with a dead letter was aborted: there is nothing to see")
	}
	if code, r := p.Audit(); code != 0 {
		t.Errorf("audit: exit code %d, %+v", code, r)
	}
	p.WantBalances("poison")
	p.WantNothingOpen()
}

func execute(t *testing.T, p *rig.Pipeline, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestLeaderElections (39): a broker (at full size, one after the other) is restarted
// under load. No row becomes a dead letter for it.
func TestLeaderElections(t *testing.T) {
	c := services.Kafka(t, three)
	p := rig.New(t, c, rig.Shape{Tasks: 4, Sinks: []string{"enriched", "upserted", "staged"}, Postgres: services.Postgres(t, true)})
	l := p.Load(rig.Sized(t, 200.0, 500), 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	ws := []*rig.Worker{p.Run(0), p.Run(1)}
	p.AwaitTasks(4, ws...)
	for range rig.Sized(t, 1, 3) {
		for id := 1; id <= rig.Sized(t, 1, 3); id++ {
			rig.Check(t, c.Node(id).Terminate()) // it hands its partitions over
			<-c.Node(id).Done()
			out.Current(l)
			rig.Check(t, c.Start(t.Context(), id))
			rig.Check(t, c.InSync(t.Context()))
			for _, w := range ws {
				w.MustLive()
			}
		}
	}
	finish(p, l, ws...)
}

// finish ends the load and wants everything right, with no dead letter.
func finish(p *rig.Pipeline, l *rig.Load, ws ...*rig.Worker) {
	p.T.Helper()
	n := l.Stop()
	l.Complete(ws...)
	p.Stop(ws...)
	l.WantDecided()
	p.WantRight(n)
	p.WantNothingOpen()
}

// TestCommitsRefused (40): for long, no COMMIT PREPARED comes through. What waits
// stays bounded, in the database and in the journal, takeovers succeed meanwhile, and
// afterwards all of it is there once.
func TestCommitsRefused(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 2, Partitions: 2, Sinks: []string{"enriched", "staged", "upserted"}, Postgres: services.Postgres(t, true), Restart: forever,
	})
	p.Behind()
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	p.AwaitTasks(p.Tasks, w)
	l.AtLeast(200)
	refused := p.Proxy.Add(pgproxy.Rule{SQL: "commit prepared", Times: proxy.Always, Act: pgproxy.Cut()})
	most := 0
	for begin := time.Now(); time.Since(begin) < rig.Sized(t, 20*time.Second, 10*time.Minute); {
		rig.Pause(t, time.Second)
		w.MustLive()
		most = max(most, prepared(t, p))
	}
	rig.Check(t, w.Kill())
	w = p.Run(0)
	rig.Await(t, "the heir to try", func(context.Context) (string, bool) {
		n := refused.Hits()
		most = max(most, prepared(t, p))
		return fmt.Sprint(n), n >= 10
	})
	if most == 0 || most > 2*p.Tasks {
		t.Errorf("%d transactions were prepared at once, want some, and two for each of %d tasks at most", most, p.Tasks)
	}
	t.Logf("COMMIT PREPARED refused %d times; at most %d prepared", refused.Hits(), most)
	p.WantSmallJournal()
	refused.Remove()
	finish(p, l, w)
}

func prepared(t *testing.T, p *rig.Pipeline) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	rig.Check(t, c.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()").Scan(&n))
	return n
}

// TestForeignMarks (42): a pipeline of the same name on another cluster, and one that
// is made anew after its topics were deleted, meet the marks that the first left in
// the database, whatever its way to write. Both are refused, and the table stays as
// it is.
func TestForeignMarks(t *testing.T) {
	for _, table := range rig.Sized(t, []string{"upserted", "staged", "balances"}, []string{"upserted", "appended", "staged", "staged_log", "paired", "balances"}) {
		t.Run(table, func(t *testing.T) {
			shape := rig.Shape{Tasks: 1, Partitions: 1, Sinks: []string{"enriched", table}, Postgres: services.Postgres(t, true)}
			first := rig.New(t, services.Kafka(t, one), shape)
			l := first.Load(0, 100)
			l.Watch(1, nil)
			w := first.Run(0)
			l.Complete(w)
			first.Stop(w)
			l.WantDecided()

			other := rig.New(t, services.Kafka(t, three), shape)
			other.Name, other.DSN = first.Name, first.DSN
			other.Write()
			other.Batch(0, 100)
			other.Refused(1, table, "marks of another incarnation")
			first.WantRight(100)

			for _, topic := range []string{first.Group() + ".meta", first.Journal(), first.Group() + ".g1.outbox"} {
				if _, err := first.Admin.DeleteTopic(t.Context(), topic); err != nil && !strings.Contains(topic, "outbox") {
					t.Fatal(err) // with two phases there is no outbox
				}
			}
			_, err := first.Admin.DeleteGroup(t.Context(), first.Group())
			rig.Check(t, err)
			first.Refused(1, table, "marks of another incarnation")
		})
	}
}
