//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"exactly/internal/services"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
	pgproxy "exactly/test/proxy/postgres"
)

// lossy is a way to write, and the statements that it sends for an epoch.
type lossy struct {
	name       string
	cfg        postgres.Config
	statements []string
}

func lossies() []lossy {
	outbox := func(write string) []string {
		return []string{"begin", "select incarnation", "delete from", write, `update "public"."exactly_ledger"`, "commit"}
	}
	return []lossy{
		{"upsert", postgres.Config{Key: []string{"id"}, Audit: postgres.Audit{InsertCount: "n"}}, outbox("insert into")},
		{"append", postgres.Config{Mode: "append"}, outbox("insert into")},
		{"statement", postgres.Config{Mode: "statement", Statement: "UPDATE t SET v = v + $1 WHERE id = 'sum'", Args: []string{"v"}}, outbox("update t")},
		{
			"two_phase",
			postgres.Config{Mode: "two_phase", Key: []string{"id"}, Audit: postgres.Audit{InsertCount: "n"}},
			[]string{"begin", "insert into", "set constraints", `insert into "public"."exactly_ledger_epochs"`, "prepare transaction", "commit prepared"},
		},
	}
}

// TestAnswersLost: each statement of each way to write is not carried out, or is
// carried out and not answered, by a connection that is cut or goes silent, or
// answered with an error. What is not known is asked of the ledger, all is there once,
// and triggers fired once for each record (failure modes 20, 22, 24).
func TestAnswersLost(t *testing.T) {
	server := services.Postgres(t, false)
	for _, l := range lossies() {
		for _, answer := range []bool{false, true} {
			acts := map[string]pgproxy.Act{"cut": pgproxy.Cut(), "silent": pgproxy.Drop()}
			if answer {
				acts["refused"] = pgproxy.Refuse("57P01", "terminating connection, says the proxy") // all but a cut
			}
			for how, act := range acts {
				what := map[bool]string{false: "request", true: "answer"}[answer]
				t.Run(fmt.Sprintf("%s/%s/%s", l.name, what, how), func(t *testing.T) {
					t.Parallel()
					statements := l.statements
					if how == "silent" { // patience takes time: the statements that end something
						statements = sized(t, statements[len(statements)-2:], statements)
					}
					for _, sql := range statements {
						loseOne(t, server, l, pgproxy.Rule{SQL: sql, Answer: answer, From: 2, Act: act})
					}
				})
			}
		}
	}
}

// loseOne carries three epochs through while the rule strikes.
func loseOne(t *testing.T, server *services.PostgresServer, l lossy, r pgproxy.Rule) {
	t.Helper()
	database := server.Database(t)
	dsn := server.DSN(database)
	c := session(sinktest.Wrap(t), dsn)
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (id text, v bigint, n int NOT NULL DEFAULT 1); CREATE UNIQUE INDEX ON t (id)"); err != nil {
		t.Fatal(err)
	}
	begun := int64(0)
	if l.cfg.Mode == "statement" {
		begun = 1
		if _, err := c.Exec(t.Context(), "INSERT INTO t VALUES ('sum', 0)"); err != nil {
			t.Fatal(err)
		}
	}
	const trigger = `CREATE TABLE fired (n int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (1); RETURN NULL; END $$;
		CREATE TRIGGER f AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()`
	if _, err := c.Exec(t.Context(), trigger); err != nil {
		t.Fatal(err)
	}
	px := pgproxy.Start(t, server.Address())
	cfg := l.cfg
	cfg.DSN, cfg.StatementTimeout = strings.Replace(dsn, server.Address(), px.Address(), 1), 400*time.Millisecond
	if cfg.Mode != "statement" {
		cfg.Table = "t"
	}
	armed := px.Add(r)
	w := &writer{t: t, cfg: cfg, o: owner()}
	for e := int64(1); e <= 3; e++ {
		var vs []string
		for i := range 4 {
			vs = append(vs, fmt.Sprintf(`{"id":"e%d-%d","v":%d}`, e, i, e))
		}
		w.epoch(e, vs)
	}
	if armed.Hits() != 1 {
		t.Errorf("%s: the rule struck %d times, want once", r.SQL, armed.Hits())
	}
	var rows, sum, writes, fired int64
	if err := c.QueryRow(t.Context(), "SELECT count(*), sum(v), sum(n), (SELECT count(*) FROM fired) FROM t").Scan(&rows, &sum, &writes, &fired); err != nil {
		t.Fatal(err)
	}
	want := int64(12)
	if begun > 0 {
		want = begun
	}
	if rows != want || sum != 4*(1+2+3) || writes != want || fired != 12 {
		t.Errorf("%s: %d rows with a sum of %d, written %d times, a trigger fired %d times; want %d, 24, %d, 12", r.SQL, rows, sum, writes, fired, want, want)
	}
}

// writer carries epochs to a sink as the engine does: again and again, with a new
// attempt where the old one is over.
type writer struct {
	t   *testing.T
	cfg postgres.Config
	o   sink.Owner

	outbox sink.OutboxTask
	at     sink.Pos
	staged sink.StagingFlusher
	open   bool
}

func (w *writer) epoch(e int64, vs []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	var cs []sink.Committable
	for decided := false; ; {
		err := w.try(ctx, e, vs, &cs, &decided)
		if err == nil {
			return
		}
		if sink.Classify(err) != sink.ClassTransient || ctx.Err() != nil {
			w.t.Fatalf("epoch %d: %v", e, err)
		}
	}
}

func (w *writer) try(ctx context.Context, e int64, vs []string, cs *[]sink.Committable, decided *bool) error {
	if !w.open {
		if err := w.takeOver(ctx, *cs, *decided); err != nil {
			return err
		}
	}
	if w.staged == nil {
		b := batch(e, vs...)
		b.Prev = w.at
		res, err := w.outbox.Apply(ctx, b)
		if err == nil && res.Through != b.Through {
			err = fmt.Errorf("applied through %s of %s", res.Through, b.Through)
		}
		if err == nil {
			w.at = b.Through
		}
		return err
	}
	if !*decided {
		got, err := staged(ctx, w.staged, e, values(vs...))
		if err != nil { // the attempt is over
			w.open = false
			return errors.Join(err, w.staged.Close())
		}
		*cs, *decided = got, true
	}
	return w.staged.Commit(ctx, *cs)
}

func (w *writer) takeOver(ctx context.Context, cs []sink.Committable, decided bool) error {
	s, err := postgres.New("out", w.cfg)
	if err != nil {
		return err
	}
	w.o.Attempt++
	if st, ok := s.(sink.Staging); ok {
		task, err := st.OpenStaging(ctx, w.o)
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = task.Close() })
		if decided {
			if err := task.Commit(ctx, cs); err != nil {
				return err
			}
			cs = nil
		}
		w.staged, w.open = task.(sink.StagingFlusher), true
		return task.Sweep(ctx, nil)
	}
	task, _, err := s.(sink.Outbox).OpenOutbox(ctx, w.o, w.at)
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { _ = task.Close() })
	w.outbox, w.open = task, true
	return nil
}
