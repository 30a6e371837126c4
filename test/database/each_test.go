//go:build services

package database

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"exactly/internal/failpoint"
	"exactly/internal/services"
	"exactly/test/rig"
)

// TestKillAtEachSink (38): with a table for each way to write beside each other, the
// process dies before and after the commit of the n-th of them. Each is finished once.
func TestKillAtEachSink(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 2, Partitions: 2, Sinks: []string{"enriched", "upserted", "appended", "staged", "balances"}, Totals: "appended",
		Postgres: services.Postgres(t, true), Restart: forever, Epoch: "{ interval: 100ms }",
	})
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	w := p.Run(0)
	l.Flows(100)
	rig.Check(t, w.Kill())
	apart, cells := 0, 0
	for _, at := range rig.Sized(t,
		[]failpoint.Point{failpoint.SinkTxnBefore, failpoint.SinkTxnAfter},
		[]failpoint.Point{failpoint.SinkTxnBefore, failpoint.SinkTxnAfter, failpoint.ApplyBefore, failpoint.ApplyAfter, failpoint.CommitBefore, failpoint.CommitAfter}) {
		for hit := 1; hit <= rig.Sized(t, 5, 15); hit++ {
			w = p.Run(0, fmt.Sprintf("%s:hit=%d=kill", at, hit))
			if code := w.Exit(); code != -1 {
				t.Fatalf("%s, hit %d: the worker ended with exit code %d, not by SIGKILL\n%s", at, hit, code, w.Last())
			}
			if cells++; !together(t, p) {
				apart++
			}
		}
	}
	if t.Logf("after %d of %d kills the tables stood apart", apart, cells); apart == 0 {
		t.Error("after each kill all tables had the same payments: there is nothing to see")
	}
	w = p.Run(0)
	n := l.Stop()
	l.Complete(w)
	p.AwaitTotals(n)
	p.Stop(w)
	l.WantDecided()
	p.WantRight(n)
	p.WantNothingOpen()
}

// together: the tables have as many payments.
func together(t *testing.T, p *rig.Pipeline) (same bool) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	const sql = `SELECT count(DISTINCT n) = 1 FROM (SELECT count(*) n FROM upserted UNION ALL SELECT count(*) FROM appended
		UNION ALL SELECT count(*) FROM staged UNION ALL SELECT count(*) FROM balances_log) x`
	rig.Check(t, c.QueryRow(t.Context(), sql).Scan(&same))
	return same
}
