//go:build services

package database

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"exactly/internal/services"
	"exactly/test/rig"
)

// resolved is what `exactly resolve --json` prints.
type resolved struct {
	Error string `json:"error"`
	Tasks []struct {
		Sink       string `json:"sink"`
		Task       int32  `json:"task"`
		Found      int64  `json:"found"`
		Committed  int64  `json:"committed"`
		RolledBack int64  `json:"rolled_back"`
	} `json:"tasks"`
	Prepared []struct {
		Name string `json:"name"`
		Fate string `json:"fate"`
		Why  string `json:"why"`
	} `json:"prepared"`
	Foreign []struct {
		Name string `json:"name"`
		Undo string `json:"undo"`
	} `json:"foreign"`
}

// sum is what it did.
func (r resolved) sum() (found, committed, rolledBack int64) {
	for _, t := range r.Tasks {
		found, committed, rolledBack = found+t.Found, committed+t.Committed, rolledBack+t.RolledBack
	}
	return found, committed, rolledBack
}

func (r resolved) fates() map[string]int {
	m := map[string]int{}
	for _, p := range r.Prepared {
		m[p.Fate]++
	}
	return m
}

// orphanage is a pipeline whose workers die over prepared transactions.
type orphanage struct {
	*rig.Pipeline
	c *pgx.Conn
}

func (o *orphanage) resolve(want int, args ...string) resolved {
	o.T.Helper()
	code, out, errs := o.Command(append([]string{"resolve", o.File, "--json"}, args...)...)
	var r resolved
	if err := json.Unmarshal([]byte(out), &r); code != want || err != nil {
		o.T.Fatalf("exactly resolve %v: exit code %d, want %d; %v\n%s%s", args, code, want, err, out, errs)
	}
	o.T.Logf("resolve %v: %s", args, out)
	return r
}

// prepared are the names of all prepared transactions of the database.
func (o *orphanage) prepared() []string {
	o.T.Helper()
	rows, err := o.c.Query(o.T.Context(), "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
	rig.Check(o.T, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	rig.Check(o.T, err)
	return names
}

func (o *orphanage) number(sql string, args ...any) (n int64) {
	o.T.Helper()
	rig.Check(o.T, o.c.QueryRow(o.T.Context(), sql, args...).Scan(&n))
	return n
}

// locked: somebody holds locks of rows in the table.
func (o *orphanage) locked(table string) bool {
	o.T.Helper()
	_, err := o.c.Exec(o.T.Context(), "BEGIN; SET LOCAL lock_timeout = '200ms'; LOCK TABLE "+table+" IN SHARE MODE")
	_, rerr := o.c.Exec(o.T.Context(), "ROLLBACK")
	rig.Check(o.T, rerr)
	var e *pgconn.PgError
	if err != nil && (!errors.As(err, &e) || e.Code != "55P03") {
		o.T.Fatal(err)
	}
	return err != nil
}

// gone waits until the group knows that its workers are dead.
func (o *orphanage) gone() {
	o.T.Helper()
	rig.Await(o.T, "the dead to leave the group", func(ctx context.Context) (string, bool) {
		gs, err := o.Admin.DescribeGroups(ctx, o.Group())
		rig.Check(o.T, err)
		n := len(gs[o.Group()].Members)
		return strconv.Itoa(n), n == 0
	})
}

// heldLocks counts the locks of prepared transactions: no process has them.
const heldLocks = `SELECT count(*) FROM pg_prepared_xacts p
	JOIN pg_locks x ON x.locktype = 'transactionid' AND x.transactionid = p.transaction AND x.pid IS NULL
	JOIN pg_locks l ON l.virtualtransaction = x.virtualtransaction AND l.relation IS NOT NULL AND l.pid IS NULL
	WHERE p.gid = ANY($1)`

// TestOrphans: workers are killed between PREPARE and decision, and between decision
// and COMMIT PREPARED, and stay dead (failure mode 19). What they left holds locks,
// and is finished by `exactly resolve`: rows of decided epochs show, of others not,
// and what other pipelines prepared stays. Then a worker goes on.
func TestOrphans(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{
		Tasks: 2, Sinks: []string{"enriched", "staged", "staged_log", "upserted"}, Postgres: services.Postgres(t, true), HTTP: true,
		Epoch: "{ interval: 40ms }",
	})
	c, err := pgx.Connect(t.Context(), p.DSN)
	rig.Check(t, err)
	o := &orphanage{Pipeline: p, c: c}
	l := p.Load(200, 0)
	l.Watch(p.Tasks, nil)
	var strangers []string
	for _, round := range []struct {
		name, arms        string
		commits, rollback bool // there is some of it
	}{
		{"decided and undecided", "epoch/before-commit:task=0:hit=3=delay(1h);sink/staged:task=1:hit=40=kill", true, true},
		{"decided", "epoch/before-commit:hit=9=kill", true, false}, // sink/before-commit is of upserted as well,
		{"undecided", "sink/staged:hit=9=kill", false, true},
	} {
		w := p.Run(0, strings.Split(round.arms, ";")...)
		if code := w.Exit(); code != -1 {
			t.Fatalf("%s: the worker ended with exit code %d, not by SIGKILL\n%s", round.name, code, w.Last())
		}
		o.gone()
		if strangers == nil {
			strangers = o.strangers()
		}
		left := slices.DeleteFunc(o.prepared(), func(name string) bool { return slices.Contains(strangers, name) })
		dry := o.resolve(0, "--dry-run")
		fates := dry.fates()
		if len(left) == 0 || len(dry.Prepared) != len(left) || len(dry.Foreign) != len(strangers) {
			t.Fatalf("%s: %d prepared transactions are left, the dry run lists %d and %d foreign", round.name, len(left), len(dry.Prepared), len(dry.Foreign))
		}
		// What the dead had not decided is open in Kafka until somebody fences.
		decided, undecided := int64(fates["commit"]), int64(fates["unknown"]+fates["roll_back"])
		if round.commits && decided == 0 || round.rollback && undecided == 0 {
			t.Fatalf("%s: %v, want both kinds where the round is to have them", round.name, fates)
		}
		if !o.locked("staged") && !o.locked("staged_log") {
			t.Errorf("%s: the orphans hold no locks", round.name)
		}
		if held := o.number(heldLocks, left); held == 0 {
			t.Errorf("%s: pg_locks shows nothing that the orphans hold", round.name)
		}
		staged := o.number("SELECT (SELECT count(*) FROM staged) + (SELECT count(*) FROM staged_log)")

		res := o.resolve(0)
		found, committed, rolledBack := res.sum()
		if found != int64(len(left)) || committed < decided || committed+rolledBack != found || round.rollback && rolledBack == 0 {
			t.Errorf("%s: found %d, committed %d, rolled back %d of %d; the dry run said %v", round.name, found, committed, rolledBack, len(left), fates)
		}
		if now := o.prepared(); !slices.Equal(now, strangers) || len(res.Foreign) != len(strangers) {
			t.Errorf("%s: prepared are %v, want only those of strangers", round.name, now)
		}
		if shown := o.number("SELECT (SELECT count(*) FROM staged) + (SELECT count(*) FROM staged_log)"); (shown > staged) != (committed > 0) {
			t.Errorf("%s: %d rows before, %d after %d were committed", round.name, staged, shown, committed)
		}
		// The table that is fed from the outbox holds what is decided and nothing else.
		for _, table := range []string{"staged", "staged_log"} {
			if n := o.number("SELECT count(*) FROM upserted u FULL JOIN " + table + " s USING (payment_id) WHERE u.place IS NULL OR s.place IS NULL"); n != 0 {
				t.Errorf("%s: %d payments are in only one of upserted and %s", round.name, n, table)
			}
			if o.locked(table) {
				t.Errorf("%s: %s is still locked", round.name, table)
			}
		}
	}
	o.away(strangers)

	w := p.Run(0)
	p.AwaitTasks(p.Tasks, w)
	if code, _, errs := p.Command("resolve", p.File); code != 3 || !strings.Contains(errs, "1 workers are running") {
		t.Errorf("beside a worker: exit code %d, want 3 and who runs: %s", code, errs)
	}
	n := l.Stop()
	l.Complete(w)
	o.metric(w, strangers)
	p.Stop(w)
	o.gone()
	if _, committed, rolledBack := o.resolve(0).sum(); committed != 0 || rolledBack != 1 {
		t.Errorf("after the zombie: %d committed and %d rolled back, want 0 and 1", committed, rolledBack)
	}
	l.WantDecided()
	p.WantRight(n)
	for _, f := range o.resolve(0, "--dry-run").Foreign { // as a person would, who is sure
		_, err := o.c.Exec(t.Context(), f.Undo)
		rig.Check(t, err)
	}
	p.WantNothingOpen()
}

// own is the name of a prepared transaction of the pipeline.
func (o *orphanage) own(prefix string) (parts []string) {
	o.T.Helper()
	for _, name := range o.prepared() {
		if parts = strings.Split(name, ":"); len(parts) == 9 && strings.HasPrefix(name, prefix) {
			return parts
		}
	}
	o.T.Fatalf("no prepared transaction is named as ours are: %v", o.prepared())
	return nil
}

func (o *orphanage) prepare(name string) {
	o.T.Helper()
	_, err := o.c.Exec(o.T.Context(), "CREATE TABLE IF NOT EXISTS strangers (name text)")
	rig.Check(o.T, err)
	_, err = o.c.Exec(o.T.Context(), fmt.Sprintf("BEGIN; INSERT INTO strangers VALUES ('%s'); PREPARE TRANSACTION '%s'", name, name))
	rig.Check(o.T, err)
}

// strangers prepares what is named almost as ours is: of another incarnation, and of
// pipelines with a longer and a shorter name.
func (o *orphanage) strangers() (names []string) {
	o.T.Helper()
	parts := o.own("exactly:")
	with := func(at int, value string) string {
		other := slices.Clone(parts)
		other[at] = value
		return strings.Join(other, ":")
	}
	names = []string{with(1, "00c0ffee00c0ffee"), with(3, parts[3]+"2"), with(3, parts[3][:len(parts[3])-1])}
	for _, name := range names {
		o.prepare(name)
	}
	slices.Sort(names)
	return names
}

// away: the database cannot be reached, and the command says so.
func (o *orphanage) away(strangers []string) {
	o.T.Helper()
	rig.Check(o.T, o.Postgres.Crash())
	code, _, errs := o.Command("resolve", o.File)
	if code != 3 || !strings.Contains(errs, "sink staged") || !strings.Contains(errs, "nothing is lost") {
		o.T.Errorf("without the database: exit code %d, want 3 and the sink: %s", code, errs)
	}
	rig.Check(o.T, o.Postgres.Start(o.T.Context()))
	var err error
	o.c, err = pgx.Connect(o.T.Context(), o.DSN)
	rig.Check(o.T, err)
	if now := o.prepared(); !slices.Equal(now, strangers) {
		o.T.Errorf("after the crash: prepared are %v, want %v", now, strangers)
	}
}

// metric: what a late zombie prepared shows, with its age, until somebody ends it.
func (o *orphanage) metric(w *rig.Worker, strangers []string) {
	o.T.Helper()
	parts := strings.Split(strangers[0], ":")
	inc := ""
	rig.Check(o.T, o.c.QueryRow(o.T.Context(), "SELECT DISTINCT incarnation FROM exactly_ledger WHERE sink = 'staged'").Scan(&inc))
	o.prepare(fmt.Sprintf("exactly:%s:%s:%s:staged:1:0:0:7", inc, parts[2], o.Name))
	begin := time.Now()
	rig.Await(o.T, "the gauge to show the orphan", func(ctx context.Context) (string, bool) {
		n, oldest := o.gauge(w, "exactly_sink_prepared"), o.gauge(w, "exactly_sink_oldest_prepared_seconds")
		return fmt.Sprintf("%v, %v s", n, oldest), n == 1 && oldest >= 5 && oldest <= time.Since(begin).Seconds()+1
	})
	if n := o.gaugeOf(w, "exactly_sink_prepared", "staged_log"); n != 0 {
		o.T.Errorf("the other table has %v prepared transactions, want none", n)
	}
	if s := status(o.T, w).Sinks["staged"].Prepared; s.Count != 1 || s.OldestMillis < 5000 {
		o.T.Errorf("status: %+v, want the orphan", s)
	}
}

func (o *orphanage) gauge(w *rig.Worker, name string) float64 { return o.gaugeOf(w, name, "staged") }

// gaugeOf is -1 where there is no value.
func (o *orphanage) gaugeOf(w *rig.Worker, name, sink string) float64 {
	o.T.Helper()
	req, err := http.NewRequestWithContext(o.T.Context(), http.MethodGet, "http://"+w.Listens()+"/metrics", nil)
	rig.Check(o.T, err)
	resp, err := http.DefaultClient.Do(req)
	rig.Check(o.T, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	rig.Check(o.T, err)
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, fmt.Sprintf("%s{pipeline=%q,sink=%q} ", name, o.Name, sink)); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			rig.Check(o.T, err)
			return v
		}
	}
	return -1
}
