//go:build services

package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"exactly/internal/services"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

// must ends the test with an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// putAll carries an epoch of values to its end, in mode two_phase or in that of cfg.
func putAll(t *testing.T, cfg postgres.Config, mode string, vs ...string) {
	t.Helper()
	if mode == "two_phase" {
		commitEpoch(t, openStaged(t, cfg, owner()), 1, vs...)
		return
	}
	finish(t, open(t, cfg, owner()), batch(1, vs...), 30)
}

// away wants an error that is tried again.
func away(t *testing.T, what string, err error) {
	t.Helper()
	if !sink.IsTransient(err) {
		t.Errorf("%s: got %v, want an error that is tried again", what, err)
	}
}

// TestStandby: after a switchover the server of dsn is a standby for a while. It is
// waited for.
func TestStandby(t *testing.T) {
	server := services.Postgres(t, true)
	dsn := server.DSN(server.Database(t))
	c := session(sinktest.Wrap(t), dsn)
	_, err := c.Exec(t.Context(), "CREATE TABLE t (id int PRIMARY KEY)")
	must(t, err)
	dir := column(t, c, "SELECT current_setting('data_directory')")
	task := open(t, keyed(dsn, "id"), owner())
	apply(t, task, []string{`{"id":1}`})
	o := owner()
	o.Sink = "staged"
	two := openStaged(t, keyed(dsn, "id"), o)
	cs, err := staged(t.Context(), two, 1, values(`{"id":7}`))
	must(t, err)

	must(t, server.Crash())
	signal := filepath.Join(dir, "standby.signal")
	must(t, os.WriteFile(signal, nil, 0o600))
	must(t, os.Chmod(signal, 0o666)) // the server may run as another user //nolint:gosec // it is empty
	must(t, server.Start(t.Context()))
	b := batch(2, `{"id":2}`)
	b.Prev = sink.Pos{Epoch: 1, Index: 1}
	for range 2 { // the session is gone, or is new
		_, err = task.Apply(t.Context(), b)
		away(t, "apply", err)
	}
	cfg := keyed(dsn, "id")
	cfg.Create, cfg.Schema = true, map[string]string{"id": "int"}
	for _, table := range []string{"t", "not_yet"} {
		cfg.Table = table
		s, err := postgres.New("out", cfg)
		must(t, err)
		o := owner()
		o.Sink = table // that of one has written
		_, _, err = s.(sink.Outbox).OpenOutbox(t.Context(), o, sink.Pos{})
		away(t, "open on "+table, err)
	}
	away(t, "commit", two.Commit(t.Context(), cs))
	_, err = staged(t.Context(), two, 2, values(`{"id":8}`))
	away(t, "stage", err)

	c = session(sinktest.Wrap(t), dsn)
	_, err = c.Exec(t.Context(), "SELECT pg_promote()")
	must(t, err)
	_, err = task.Apply(t.Context(), b)
	must(t, err)
	must(t, two.Commit(t.Context(), cs))
	if got := column(t, c, "SELECT id::text FROM t ORDER BY id"); got != "1 | 2 | 7" {
		t.Errorf("rows %s", got)
	}
}

// TestReadOnlyByDefault: sessions write although the database says that none shall.
func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"upsert", "two_phase"} {
		dsn, c := database(t, "SELECT 1")
		_, err := c.Exec(t.Context(), "ALTER DATABASE "+c.Config().Database+" SET default_transaction_read_only = on")
		must(t, err)
		cfg := keyed(dsn, "id")
		cfg.Create, cfg.Schema = true, map[string]string{"id": "int"}
		if mode == "upsert" {
			apply(t, open(t, cfg, owner()), []string{`{"id":1}`})
		} else {
			task := openStaged(t, cfg, owner())
			for e := range int64(300) { // so many that old marks are dropped
				cs, err := staged(t.Context(), task, e+1, values(`{"id":1}`))
				must(t, err)
				must(t, task.Commit(t.Context(), cs))
			}
		}
		if got := column(t, c, "SELECT id::text FROM t"); got != "1" {
			t.Errorf("%s: rows %s", mode, got)
		}
	}
}

// TestSilentHost: the first host of dsn takes connections and says nothing; the second
// one is the primary.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	dsn, _ := database(t, `CREATE TABLE t (id int PRIMARY KEY)`)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	for _, params := range []string{"", "&target_session_attrs=read-write", "&connect_timeout=1"} {
		cfg := keyed(strings.Replace(dsn, "@", "@"+l.Addr().String()+",", 1)+params, "id")
		cfg.ConnectTimeout = 2 * time.Second
		apply(t, open(t, cfg, owner()), []string{`{"id":1}`})
		cfg.DSN = strings.Replace(dsn, "127.0.0.1:"+fmt.Sprint(portOf(t, dsn)), l.Addr().String(), 1) + params
		s, err := postgres.New("out", cfg)
		must(t, err)
		begun := time.Now()
		away(t, "a silent host alone", s.Check(t.Context()))
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s for one host", took)
		}
	}
}

func portOf(t *testing.T, dsn string) uint16 {
	t.Helper()
	cfg, err := postgres.ParseDSN(dsn)
	must(t, err)
	return cfg.Port
}

// waitsFor waits until somebody waits for a lock on table t.
func waitsFor(t *testing.T, query func() (int, error)) {
	t.Helper()
	for {
		n, err := query()
		must(t, err)
		if n > 0 {
			return
		}
	}
}

// TestLockedStatement: as TestLockedTable, for a statement, whose types the server
// tells only once the table can be read.
func TestLockedStatement(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY)`)
	cfg := postgres.Config{DSN: dsn, Statement: "INSERT INTO t VALUES ($1)", Args: []string{"id"}, Mode: "two_phase"}
	cs, err := staged(t.Context(), openStaged(t, cfg, owner()), 1, values(`{"id":1}`))
	must(t, err)
	indexed := make(chan error, 1)
	other := session(sinktest.Wrap(t), dsn)
	go func() {
		_, err := other.Exec(t.Context(), "CREATE INDEX ON t (id)")
		indexed <- err
	}()
	waitsFor(t, func() (n int, err error) {
		return n, c.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND NOT granted").Scan(&n)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := postgres.New("out", cfg)
	must(t, err)
	must(t, s.Check(ctx))
	next := owner()
	next.Attempt++
	task, err := s.(sink.Staging).OpenStaging(ctx, next)
	must(t, err)
	defer task.Close()
	must(t, task.Commit(ctx, cs))
	must(t, <-indexed)
	cs, err = staged(ctx, task.(sink.StagingFlusher), 2, values(`{"id":2}`, `{"id":"x"}`)[:1])
	must(t, err)
	must(t, task.Commit(ctx, cs))
	if got := column(t, c, "SELECT id::text FROM t ORDER BY id"); got != "1 | 2" {
		t.Errorf("rows %s", got)
	}
}

// finish applies a batch until it is done, with no more than so many tries.
func finish(t *testing.T, task sink.OutboxTask, b sink.Batch, most int) {
	t.Helper()
	for tries := 1; b.Prev != b.Through; tries++ {
		res, err := task.Apply(t.Context(), b)
		if err != nil && (sink.Classify(err) != sink.ClassTransient || tries >= most) {
			t.Fatalf("try %d, done up to %s: %v", tries, res.Through, err)
		}
		for len(b.Records) > 0 && !res.Through.Before(b.Records[0].Pos) {
			b.Records = b.Records[1:]
		}
		b.Prev = res.Through
	}
}

// TestManyShortStatements: each statement is in time, all together are not.
func TestManyShortStatements(t *testing.T) {
	t.Parallel()
	const slow = `CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;`
	const n = 100
	for name, tt := range map[string]struct {
		ddl string
		cfg postgres.Config
	}{
		"statements": {
			`CREATE TABLE t (v int)`,
			postgres.Config{Statement: "INSERT INTO t SELECT $1::int FROM pg_sleep(0.02)", Args: []string{"v"}, Mode: "statement"},
		},
		"a hot key": {
			slow + `CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`,
			postgres.Config{Table: "t", Key: []string{"id"}},
		},
		"at the end": {
			slow + `CREATE TABLE t (v int); CREATE CONSTRAINT TRIGGER f AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()`,
			postgres.Config{Table: "t", Mode: "append"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var vs []string
			for i := range n {
				vs = append(vs, fmt.Sprintf(`{"id":1,"v":%d}`, i))
			}
			cfg := tt.cfg
			cfg.StatementTimeout = 500 * time.Millisecond
			for _, mode := range []string{cfg.Mode, "two_phase"} {
				if name == "at the end" && mode == "two_phase" {
					continue // one statement checks them all
				}
				dsn, c := database(t, tt.ddl)
				cfg.DSN = dsn
				putAll(t, cfg, mode, vs...)
				if got := column(t, c, "SELECT max(v)::text FROM t"); got != fmt.Sprint(n-1) {
					t.Errorf("%s: v is %s", mode, got)
				}
			}
		})
	}
}

// TestLeadingBad: the records at the head of a batch are at fault, and the others
// are good.
func TestLeadingBad(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE EXTENSION ltree; CREATE TABLE t (id int PRIMARY KEY, v ltree)`)
	for e, good := range []int{30, 1} {
		var vs []string
		for i := range 30 + good {
			v := "a.b"
			if i < 30 {
				v = "a b"
			}
			vs = append(vs, fmt.Sprintf(`{"id":%d,"v":%q}`, 100*e+i, v))
		}
		o := owner()
		o.Sink = fmt.Sprint(e)
		if got := len(apply(t, open(t, keyed(dsn, "id"), o), vs)); got != 30 {
			t.Errorf("%d refused, want 30", got)
		}
	}
	if got := column(t, c, "SELECT count(*)::text FROM t"); got != "31" {
		t.Errorf("%s rows, want 31", got)
	}
}

// TestSameKeysInDoubt: a record has two rows of one key, and a row that the server has
// something against.
func TestSameKeysInDoubt(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE TABLE t (k citext PRIMARY KEY, v ltree)")
	cfg := postgres.Config{DSN: dsn, Tables: []postgres.Table{{Table: "t", Key: []string{"k"}, Each: "lines", Columns: map[string]string{"k": "each.item.k", "v": "each.item.v"}}}}
	const good = `{"lines":[{"k":%q,"v":"a.b"}]}`
	vs := apply(t, open(t, cfg, owner()), []string{
		fmt.Sprintf(good, "x"), `{"lines":[{"k":"A","v":"a.b"},{"k":"a","v":"a.b"},{"k":"b","v":"a b"}]}`, fmt.Sprintf(good, "y"),
		`{"lines":[{"k":"C","v":"a.b"},{"k":"c","v":"a.b"}]}`,
	})
	if got := refused(vs); got != "1/2 refused" {
		t.Errorf("refused: %s", got)
	}
	if got := column(t, c, "SELECT k::text FROM t ORDER BY k"); got != "C | x | y" {
		t.Errorf("rows %s", got)
	}
}

// TestSecondLook: a record is tried once more, and the server's reason is another one
// then.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, v text); CREATE SEQUENCE s;
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF new.v <> 'bad' THEN RETURN new; END IF;
			IF nextval('s') < 4 THEN RAISE 'not now' USING errcode = '55000'; END IF; -- in the batch, in its half, alone
			RAISE 'never' USING errcode = 'check_violation';
		END $$;
		CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`)
	vs := apply(t, open(t, keyed(dsn, "id"), owner()), []string{`{"id":1,"v":"good"}`, `{"id":2,"v":"bad"}`})
	if got := refused(vs); got != "1/2 constraint" {
		t.Errorf("refused: %s", got)
	}
	if got := column(t, c, "SELECT id::text FROM t"); got != "1" {
		t.Errorf("rows %s", got)
	}
}

// TestOtherEncoding: the reason of a verdict holds what the database cannot.
func TestOtherEncoding(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "SELECT 1")
	name := c.Config().Database
	_, err := c.Exec(t.Context(), "CREATE DATABASE "+name+"_latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	must(t, err)
	dsn = strings.Replace(dsn, name, name+"_latin", 1)
	c = session(sinktest.Wrap(t), dsn)
	_, err = c.Exec(t.Context(), "CREATE TABLE t (id int PRIMARY KEY, v text)")
	must(t, err)
	cfg := keyed(dsn, "id")
	cfg.UnknownFields = "reject"
	task := open(t, cfg, owner())
	vs := apply(t, task, []string{`{"id":1,"v":"ü"}`, `{"id":2,"名":1}`, `{"id":3,"v":"名"}`, `{"id":4}`})
	if got := refused(vs); got != "1/2 unknown_field, 1/3 value" {
		t.Fatalf("refused: %s", got)
	}
	again, err := task.Apply(t.Context(), batch(1, `{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`)) // the answer was lost
	if err != nil || fmt.Sprint(again.Verdicts) != fmt.Sprint(vs) || !strings.Contains(vs[0].Reason, `\u540d`) {
		t.Errorf("kept %v, %v, want %v", again, err, vs)
	}
	if got := column(t, c, `SELECT concat_ws(',', id, v = U&'\00FC') FROM t ORDER BY id`); got != "1,t | 4" {
		t.Errorf("rows %s", got)
	}
}

// TestLedgerAtFault: what the server has against the ledger is no row's fault.
func TestLedgerAtFault(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "CREATE TABLE t (id int PRIMARY KEY)")
	task := open(t, keyed(dsn, "id"), owner())
	_, err := c.Exec(t.Context(), "ALTER TABLE exactly_ledger ADD CHECK (epoch < 1)")
	must(t, err)
	_, err = task.Apply(t.Context(), batch(1, `{"id":1}`))
	if err == nil || strings.Contains(err.Error(), "refused what was written") || !strings.Contains(err.Error(), "exactly_ledger") {
		t.Errorf("got %v, want it to name the ledger", err)
	}
}

// TestReplaceKeyInDoubt: the input of the key's type has its own states for what it
// does not take.
func TestReplaceKeyInDoubt(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE EXTENSION ltree; CREATE TABLE raw (k ltree); CREATE TABLE t (k ltree); INSERT INTO raw VALUES ('a.b'), ('c')`)
	cfg := keyed(dsn, "k")
	cfg.Mode, cfg.From, cfg.Query = "replace", []string{"raw"}, "SELECT k FROM raw JOIN affected USING (k)"
	task := open(t, cfg, owner())
	res, err := task.Apply(t.Context(), batch(1, `{"k":"a.b"}`, `{"k":"a b"}`, `{"k":"c"}`, `{"k":"a b"}`))
	if err != nil || refused(res.Verdicts) != "1/2 refused, 1/4 refused" {
		t.Errorf("got %v, %v", res, err)
	}
	if got := column(t, c, "SELECT k::text FROM t ORDER BY k"); got != "a.b | c" {
		t.Errorf("rows %s", got)
	}
	b := batch(2, `{"k":"a b"}`)
	b.Prev = res.Through
	if res, err := task.Apply(t.Context(), b); sink.Classify(err) != sink.ClassFatal {
		t.Errorf("with nothing taken beside it: %v, %v", res, err)
	}
}

// TestPasswordFileReplaced: the file is away for an instant.
func TestPasswordFileReplaced(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "CREATE TABLE t (id int PRIMARY KEY)")
	cfg := keyed(dsn, "id")
	cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
	s, err := postgres.New("out", cfg)
	must(t, err)
	if err := s.Check(t.Context()); sink.IsTransient(err) || !strings.Contains(fmt.Sprint(err), "password_file") {
		t.Errorf("check: got %v, want a refusal for good", err)
	}
	must(t, os.WriteFile(cfg.PasswordFile, []byte("s3cret"), 0o600))
	must(t, s.Check(t.Context()))
	task := open(t, cfg, owner())
	must(t, os.Rename(cfg.PasswordFile, cfg.PasswordFile+".new"))
	_, err = c.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'exactly %' AND datname = current_database()")
	must(t, err)
	for range 2 {
		_, err = task.Apply(t.Context(), batch(1, `{"id":1}`))
		away(t, "apply", err)
	}
	must(t, os.Rename(cfg.PasswordFile+".new", cfg.PasswordFile))
	apply(t, task, []string{`{"id":1}`})
}
