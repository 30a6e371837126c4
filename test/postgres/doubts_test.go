//go:build services

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

// keyed is a sink that writes table t by its key.
func keyed(dsn string, key ...string) postgres.Config {
	return postgres.Config{DSN: dsn, Table: "t", Key: key}
}

// refused gives the indexes of refused records with their codes.
func refused(vs []sink.Verdict) string {
	var out []string
	for _, v := range vs {
		out = append(out, fmt.Sprintf("%d/%d %s", v.Pos.Epoch, v.Pos.Index, v.Code))
	}
	return strings.Join(out, ", ")
}

// wantRefused wants the check to refuse the settings for good, with these words.
func wantRefused(t *testing.T, name string, cfg postgres.Config, want string) {
	t.Helper()
	s, err := postgres.New("out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q, and that it takes a person", name, err, want)
	}
}

// TestDoubtful: the server's error does not say whether the record is at fault or the
// table. Beside records that are taken it is the record.
func TestDoubtful(t *testing.T) {
	raising := func(what string) string {
		return `CREATE TABLE t (id int PRIMARY KEY, v text);
			CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + what + ` RETURN new; END $$;
			CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`
	}
	const bad, good = `"bad"`, `"good"`
	for name, tt := range map[string]struct{ ddl, bad, good string }{
		"hstore":      {`CREATE EXTENSION hstore; CREATE TABLE t (id int PRIMARY KEY, v hstore)`, `"a=>"`, `"a=>1"`},
		"ltree":       {`CREATE EXTENSION ltree; CREATE TABLE t (id int PRIMARY KEY, v ltree)`, `"a b"`, `"a.b"`},
		"tsquery":     {`CREATE TABLE t (id int PRIMARY KEY, v tsquery)`, `"a b"`, `"a & b"`},
		"regclass":    {`CREATE TABLE t (id int PRIMARY KEY, v regclass)`, `"nope"`, `"pg_class"`},
		"no case":     {raising(`CASE new.v WHEN 'good' THEN NULL; END CASE;`), bad, good},
		"state 55000": {raising(`IF new.v = 'bad' THEN RAISE 'account is closed' USING errcode = 'object_not_in_prerequisite_state'; END IF;`), bad, good},
		"state 42501": {raising(`IF new.v = 'bad' THEN RAISE 'no' USING errcode = 'insufficient_privilege'; END IF;`), bad, good},
		"state 09000": {raising(`IF new.v = 'bad' THEN RAISE 'no' USING errcode = 'triggered_action_exception'; END IF;`), bad, good},
		"at the end": {`CREATE TABLE t (id int PRIMARY KEY, v text);
			CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.v = 'bad' THEN RAISE 'no' USING errcode = '55000'; END IF; RETURN new; END $$;
			CREATE CONSTRAINT TRIGGER g AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()`, bad, good},
	} {
		for _, mode := range []string{"upsert", "append"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				dsn, c := database(t, tt.ddl)
				cfg := postgres.Config{DSN: dsn, Table: "t", Mode: mode}
				if mode == "upsert" {
					cfg.Key = []string{"id"}
				}
				var values []string
				for i := 1; i <= 70; i++ {
					v := tt.good
					if i == 2 || i == 60 {
						v = tt.bad
					}
					values = append(values, fmt.Sprintf(`{"id":%d,"v":%s}`, i, v))
				}
				vs := apply(t, open(t, cfg, owner()), values)
				if got := refused(vs); got != "1/2 refused, 1/60 refused" {
					t.Errorf("refused: %s", got)
				}
				if n := column(t, c, "SELECT count(*)::text FROM t"); n != "68" {
					t.Errorf("%s rows, want 68", n)
				}
			})
		}
	}
}

// TestTableAtFault: nothing is taken, so no record is made a dead letter for it.
func TestTableAtFault(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, v text);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nobody(); RETURN new; END $$`)
	task := open(t, keyed(dsn, "id"), owner())
	if vs := apply(t, task, []string{`{"id":1,"v":"a"}`}); len(vs) > 0 {
		t.Fatal(vs)
	}
	if _, err := c.Exec(t.Context(), "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"); err != nil {
		t.Fatal(err)
	}
	b := batch(2, `{"id":2,"v":"b"}`, `{"id":3,"v":"c"}`, `{"id":"x","v":"c"}`)
	b.Prev = sink.Pos{Epoch: 1, Index: 1}
	if res, err := task.Apply(t.Context(), b); sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), "nobody") {
		t.Fatalf("got %v, %v, want what the table has, and that it takes a person", res, err)
	}
	if _, err := c.Exec(t.Context(), "DROP TRIGGER g ON t"); err != nil {
		t.Fatal(err)
	}
	res, err := task.Apply(t.Context(), b)
	if err != nil || refused(res.Verdicts) != "2/3 value" {
		t.Errorf("mended: %v, %v", res, err)
	}
}

// TestConstraintsAtTheEnd: what is checked at the end of the transaction is not
// checked earlier because another record is refused.
func TestConstraintsAtTheEnd(t *testing.T) {
	circle := func(dsn string) postgres.Config {
		return postgres.Config{DSN: dsn, Tables: []postgres.Table{
			{Table: "a", Key: []string{"id"}, Columns: map[string]string{"id": "id", "b": "b"}},
			{Table: "b", Key: []string{"id"}, Columns: map[string]string{"id": "b", "a": "id"}},
		}}
	}
	const circular = `CREATE TABLE a (id int PRIMARY KEY, b int CHECK (b > 0));
		CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a DEFERRABLE INITIALLY DEFERRED);
		ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b DEFERRABLE INITIALLY DEFERRED`
	var circles []string
	for i := 1; i <= 100; i++ {
		circles = append(circles, fmt.Sprintf(`{"id":%d,"b":%d}`, i, i))
	}
	swap := func(dsn string) postgres.Config { return keyed(dsn, "id") }
	const unique = `CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE DEFERRABLE INITIALLY DEFERRED, n int CHECK (n < 10));
		INSERT INTO t VALUES (1, 10, 0), (2, 20, 0)`
	for name, tt := range map[string]struct {
		ddl    string
		cfg    func(string) postgres.Config
		values []string
		want   string // refused
		rows   string
		sql    string
	}{
		"a circle": {circular, circle, slices.Concat(circles[:50], []string{`{"id":900,"b":-1}`}, circles[50:]), "1/51 constraint", "100", "SELECT count(*)::text FROM a"},
		"a swap": {
			unique, swap,
			[]string{`{"id":1,"v":20}`, `{"id":3,"v":5,"n":11}`, `{"id":2,"v":10}`},
			"1/2 constraint", "1,20 | 2,10", "SELECT concat_ws(',', id, v) FROM t ORDER BY id",
		},
		"one that fails at the end": {
			unique, swap,
			[]string{`{"id":3,"v":30}`, `{"id":4,"v":20}`, `{"id":5,"v":50}`},
			"1/2 constraint", "1,10 | 2,20 | 3,30 | 5,50", "SELECT concat_ws(',', id, v) FROM t ORDER BY id",
		},
		"circles, and one that fails at the end": {
			circular + `; ALTER TABLE b ADD UNIQUE (a) DEFERRABLE INITIALLY DEFERRED; INSERT INTO a VALUES (500, NULL); INSERT INTO b VALUES (500, 500)`,
			circle, append(slices.Clone(circles), `{"id":500,"b":501}`), "1/101 constraint", "101", "SELECT count(*)::text FROM a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, tt.ddl)
			if got := refused(apply(t, open(t, tt.cfg(dsn), owner()), tt.values)); got != tt.want {
				t.Errorf("refused %q, want %q", got, tt.want)
			}
			if got := column(t, c, tt.sql); got != tt.rows {
				t.Errorf("got %s, want %s", got, tt.rows)
			}
			dsn, _ = database(t, tt.ddl)
			poison := flushed(t, openStaged(t, tt.cfg(dsn), owner()), tt.values)
			if len(poison) != 1 || !strings.HasSuffix(tt.want, " "+sink.Code(poison[0])) {
				t.Errorf("two_phase refuses %v, want %q", poison, tt.want)
			}
		})
	}
}

// flushed writes an epoch and gives the errors of its refused records.
func flushed(t *testing.T, task sink.StagingFlusher, vs []string) []error {
	t.Helper()
	if err := task.Write(t.Context(), 1, values(vs...)); err != nil {
		t.Fatal(err)
	}
	err := task.Flush(t.Context(), 1)
	poison, ok := err.(*sink.PoisonError) //nolint:errorlint // as the engine gets it
	if !ok {
		t.Fatalf("flush: %v", err)
	}
	return poison.Errs
}

// TestChanges: an update is made wherever the row would not be the same, however the
// type compares.
func TestChanges(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE EXTENSION citext; CREATE TYPE pair AS (a citext, b int);
		CREATE TABLE t (id int PRIMARY KEY, i interval, n numeric, j jsonb, f float8, c citext[], p pair, old json)`)
	first := `{"id":1,"i":"1 day","n":1.0,"j":{"a":1.0},"f":0,"c":["A"],"p":"(A,1)","old":{"a":1}}`
	second := `{"id":1,"i":"24 hours","n":1.00,"j":{"a":1.00},"f":-0.0,"c":["a"],"p":"(a,1)","old":{"a": 1}}`
	if vs := apply(t, open(t, keyed(dsn, "id"), owner()), []string{first}, []string{second}); len(vs) > 0 {
		t.Fatal(vs)
	}
	got := column(t, c, "SELECT concat_ws(';', i, n, j, f, c, p, old) FROM t")
	if want := `24:00:00;1.00;{"a": 1.00};-0;{a};(a,1);{"a": 1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	version := column(t, c, "SELECT xmin::text FROM t")
	task := open(t, keyed(dsn, "id"), func() sink.Owner { o := owner(); o.Sink = "other"; return o }())
	if vs := apply(t, task, []string{second}); len(vs) > 0 {
		t.Fatal(vs)
	}
	if now := column(t, c, "SELECT xmin::text FROM t"); now != version {
		t.Errorf("a row that stays as it is was written again")
	}
}

// TestNothingRounded: a number that the column would round is refused, as which
// ever text it comes.
func TestNothingRounded(t *testing.T) {
	t.Parallel()
	const ddl = `CREATE DOMAIN money2 AS numeric(10,2); CREATE DOMAIN cents AS money2; CREATE DOMAIN doc AS jsonb; CREATE DOMAIN docs AS doc;
		CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2), k numeric(5,-2), d cents, l numeric(10,2)[], i int[], j docs, js jsonb[])`
	good := []string{
		`"n":"1.05"`, `"n":" 1.050 "`, `"n":"NaN"`, `"k":1200`, `"d":"1.5e1"`, `"l":[1.05,"2.00",null]`, `"i":[1.0,1e3,"7"]`, `"j":"7"`,
		`"js":["1","true",{"a":[1]},null,[2]]`,
	}
	bad := []string{
		`"n":"1.005"`, `"n":1.005`, `"k":1234`, `"k":"1.2e3","n":"0.001"`, `"d":1.005`, `"d":"1.005"`, `"l":[1.005]`, `"l":["1.005"]`, `"l":[[1,1.005]]`, `"i":[1.5]`,
	}
	dsn, c := database(t, ddl)
	var vals []string
	for i, f := range good {
		vals = append(vals, fmt.Sprintf(`{"id":%d,%s}`, i, f))
	}
	for i, f := range bad {
		vals = append(vals, fmt.Sprintf(`{"id":%d,%s}`, 100+i, f))
	}
	vs := apply(t, open(t, keyed(dsn, "id"), owner()), vals)
	if len(vs) != len(bad) {
		t.Errorf("%d refused, want %d: %v", len(vs), len(bad), vs)
	}
	for _, v := range vs {
		if v.Code != "value" || v.Pos.Index <= int64(len(good)) {
			t.Errorf("refused: %+v", v)
		}
	}
	got := column(t, c, `SELECT v FROM (SELECT concat_ws(';', n, k, d, l, i, j, js) AS v FROM t) x ORDER BY v COLLATE "C"`)
	if want := `"7" | 1.05 | 1.05 | 1200 | 15.00 | NaN | {"\"1\"","\"true\"","{\"a\": [1]}",NULL,[2]} | {1,1000,7} | {1.05,2.00,NULL}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNoNUL: what an expression says of a text with a NUL is kept without it.
func TestNoNUL(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, v text)`)
	cfg := keyed(dsn, "id")
	cfg.Columns = map[string]string{"id": "id", "v": `{'a': 'b'}[v]`}
	if got := refused(apply(t, open(t, cfg, owner()), []string{`{"id":1,"v":"a"}`, `{"id":2,"v":"a\u0000"}`})); got != "1/2 expression" {
		t.Errorf("refused %q", got)
	}
	if n := column(t, c, "SELECT count(*)::text FROM t"); n != "1" {
		t.Errorf("%s rows", n)
	}
}

// TestUnfitTables: tables that would lose rows, or refuse every record, are refused at
// the start.
func TestUnfitTables(t *testing.T) {
	audit := func(a postgres.Audit) func(*postgres.Config) {
		return func(c *postgres.Config) { c.Audit = a }
	}
	none := func(*postgres.Config) {}
	for name, tt := range map[string]struct {
		ddl  string
		with func(*postgres.Config)
		want string
	}{
		"unlogged":      {`CREATE UNLOGGED TABLE t (id int PRIMARY KEY)`, none, "SET LOGGED"},
		"unlogged part": {`CREATE TABLE t (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE UNLOGGED TABLE t1 PARTITION OF t DEFAULT`, none, "t1 is UNLOGGED"},
		"rules":         {`CREATE TABLE t (id int PRIMARY KEY); CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING`, none, "has rules"},
		"published":     {`CREATE TABLE t (id int UNIQUE); CREATE PUBLICATION p FOR TABLE t`, none, "REPLICA IDENTITY"},
		"run id":        {`CREATE TABLE t (id int PRIMARY KEY, a int)`, audit(postgres.Audit{RunID: "a"}), "want uuid"},
		"topic":         {`CREATE TABLE t (id int PRIMARY KEY, a varchar(20))`, audit(postgres.Audit{Topic: "a"}), "character varying(20)"},
		"updated at":    {`CREATE TABLE t (id int PRIMARY KEY, a text)`, audit(postgres.Audit{UpdatedAt: "a"}), "want timestamptz"},
		"insert count":  {`CREATE TABLE t (id int PRIMARY KEY, a smallint)`, audit(postgres.Audit{InsertCount: "a"}), "smallint"},
		"version":       {`CREATE TABLE t (id int PRIMARY KEY, v json)`, func(c *postgres.Config) { c.Version = "v" }, "json <= json"},
		"replace with a loose key": {
			`CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE t (id text COLLATE ci); CREATE TABLE raw (id text)`,
			func(c *postgres.Config) {
				c.Mode, c.From, c.Query = "replace", []string{"raw"}, "SELECT id FROM raw JOIN affected USING (id)"
			}, "collation",
		},
		"replace over a part of itself": {
			`CREATE TABLE t (id int) PARTITION BY LIST (id); CREATE TABLE t1 PARTITION OF t DEFAULT`,
			func(c *postgres.Config) {
				c.Mode, c.From, c.Query = "replace", []string{"raw"}, "SELECT id FROM t JOIN affected USING (id)"
			}, "which it fills",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, _ := database(t, tt.ddl)
			cfg := keyed(dsn, "id")
			tt.with(&cfg)
			wantRefused(t, name, cfg, tt.want)
		})
	}
}

// TestReplaceKeys: a key that its column would round is refused, since its rows would
// not be found again; the other fields of a record are not looked at.
func TestReplaceKeys(t *testing.T) {
	for name, tt := range map[string]struct{ kind, bad, good string }{
		"scale":     {"numeric(10,2)", `"1.005"`, `"1.00"`},
		"length":    {"varchar(3)", `"ab  "`, `"abc"`},
		"precision": {"timestamptz(0)", `"2026-01-01T00:00:00.4Z"`, `"2026-01-01T00:00:00Z"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, `CREATE TABLE raw (k `+strings.NewReplacer("(10,2)", "", "(3)", "", "(0)", "").Replace(tt.kind)+`, v int);
				CREATE TABLE t (k `+tt.kind+`, v int)`)
			for _, k := range []string{tt.bad, tt.good} {
				if _, err := c.Exec(t.Context(), "INSERT INTO raw VALUES ('"+strings.Trim(k, `"`)+"', 1)"); err != nil {
					t.Fatal(err)
				}
			}
			cfg := keyed(dsn, "k")
			cfg.Mode, cfg.From, cfg.Query = "replace", []string{"raw"}, "SELECT k, v FROM raw JOIN affected USING (k)"
			epoch := []string{`{"k":` + tt.bad + `,"v":1.5}`, `{"k":` + tt.good + `,"v":1.5}`}
			if got := refused(apply(t, open(t, cfg, owner()), epoch, epoch)); got != "1/1 value, 2/1 value" {
				t.Errorf("refused %q", got)
			}
			if n := column(t, c, "SELECT count(*)::text FROM t"); n != "1" {
				t.Errorf("%s rows, want 1", n)
			}
		})
	}
}

// TestLooseIndex: a unique index may take different texts for the same key though its
// column does not.
func TestLooseIndex(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TABLE t (id text, a int, b int); CREATE UNIQUE INDEX ON t (id COLLATE ci)`)
	vs := apply(t, open(t, keyed(dsn, "id"), owner()), []string{`{"id":"z","a":0,"b":0}`, `{"id":"A","a":1}`, `{"id":"a","a":2,"b":2}`})
	if got := column(t, c, "SELECT concat_ws(',', a, b) FROM t ORDER BY a"); len(vs) > 0 || got != "0,0 | 2,2" {
		t.Errorf("got %s, %v", got, vs)
	}
}

// TestSlowEpoch: an epoch of mode two_phase is one transaction, but as many statements
// as the time-out asks for.
func TestSlowEpoch(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN new; END $$;
		CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`)
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf(`{"id":%d}`, i))
	}
	cfg := keyed(dsn, "id")
	cfg.Mode, cfg.StatementTimeout = "two_phase", time.Second
	task := openStaged(t, cfg, owner())
	cs, err := staged(t.Context(), task, 1, values(all...))
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Commit(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if n := column(t, c, "SELECT count(*)::text FROM t"); n != "100" {
		t.Errorf("%s rows", n)
	}
}

// TestAltered: a table that loses or renames a column under a living session is looked
// at again, without an attempt that fails.
func TestAltered(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY, v text, w text)`)
	task := open(t, keyed(dsn, "id"), owner())
	prev := sink.Pos{}
	for i, ddl := range []string{"SELECT 1", "ALTER TABLE t DROP COLUMN w", "ALTER TABLE t RENAME v TO u", "ALTER TABLE t ADD COLUMN w int"} {
		if _, err := c.Exec(t.Context(), ddl); err != nil {
			t.Fatal(err)
		}
		b := batch(int64(i+1), fmt.Sprintf(`{"id":%d,"v":"a","w":1}`, i))
		b.Prev = prev
		res, err := task.Apply(t.Context(), b)
		if err != nil || len(res.Verdicts) > 0 {
			t.Fatalf("%s: %v, %v", ddl, res, err)
		}
		prev = res.Through
	}
}

// TestStatementsOfTasks: tasks whose statements take the same locks in another order
// get on, without an error that the engine would wait after.
func TestStatementsOfTasks(t *testing.T) {
	t.Parallel()
	const tasks, epochs, records = 4, 10, 60
	dsn, c := database(t, `CREATE TABLE b (id int PRIMARY KEY, n int); INSERT INTO b SELECT i, 0 FROM generate_series(0, 9) i`)
	failed := make(chan error, tasks)
	for k := range tasks {
		o := owner()
		o.Task, o.Tasks = int32(k), tasks
		task := open(t, postgres.Config{DSN: dsn, Mode: "statement", Statement: "UPDATE b SET n = n + 1 WHERE id = $1", Args: []string{"id"}}, o)
		go func() {
			failed <- func() error {
				prev := sink.Pos{}
				for e := range epochs {
					var vs []string
					for i := range records {
						vs = append(vs, fmt.Sprintf(`{"id":%d}`, (i*(2*k+1)+e+k)%10))
					}
					b := batch(int64(e+1), vs...)
					b.Prev = prev
					res, err := task.Apply(t.Context(), b)
					if err != nil {
						return err
					}
					prev = res.Through
				}
				return nil
			}()
		}()
	}
	for range tasks {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := column(t, c, "SELECT sum(n)::text FROM b"); n != fmt.Sprint(tasks*epochs*records) {
		t.Errorf("%s updates, want %d", n, tasks*epochs*records)
	}
}

// TestRoomOfOthers: others have used up what may be prepared; the sink is away, by
// name, until there is room.
func TestRoomOfOthers(t *testing.T) {
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE s (id text)`)
	var room int
	if err := c.QueryRow(t.Context(), "SELECT current_setting('max_prepared_transactions')::int - count(*)::int FROM pg_prepared_xacts").Scan(&room); err != nil {
		t.Fatal(err)
	}
	prepare(t, c, room)
	cfg := keyed(dsn, "id")
	cfg.Mode = "two_phase"
	s, err := postgres.New("out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.(sink.Staging).OpenStaging(t.Context(), owner())
	if !sink.IsTransient(err) || !strings.Contains(err.Error(), "room for 0") {
		t.Errorf("no room: %v", err)
	}
	for i := range room {
		if _, err := c.Exec(t.Context(), fmt.Sprintf("ROLLBACK PREPARED 'someone %d'", i)); err != nil {
			t.Fatal(err)
		}
	}
	task := openStaged(t, cfg, owner())
	prepare(t, c, room)
	if _, err := staged(t.Context(), task, 1, values(`{"id":1}`)); !sink.IsTransient(err) || !strings.Contains(err.Error(), "pg_prepared_xacts") {
		t.Errorf("no room at PREPARE: %v", err)
	}
	for i := range room {
		if _, err := c.Exec(t.Context(), fmt.Sprintf("ROLLBACK PREPARED 'someone %d'", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLockedTable: somebody alters the table, and waits for a prepared transaction of a
// worker that is dead. Its successor does not wait for them before it commits that.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE TABLE t (id int PRIMARY KEY)`)
	cfg := keyed(dsn, "id")
	cs, err := staged(t.Context(), openStaged(t, cfg, owner()), 1, values(`{"id":1}`))
	if err != nil {
		t.Fatal(err)
	}
	indexed := make(chan error, 1)
	other := session(sinktest.Wrap(t), dsn)
	go func() {
		_, err := other.Exec(t.Context(), "CREATE INDEX ON t (id)")
		indexed <- err
	}()
	for waiting := 0; waiting == 0; {
		if err := c.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND NOT granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cfg.Mode = "two_phase"
	s, err := postgres.New("out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(ctx); err != nil {
		t.Errorf("check: %v", err)
	}
	next := owner()
	next.Attempt++
	for _, fresh := range []bool{false, true} { // what the check has seen, or a look of its own
		if fresh {
			if s, err = postgres.New("out", cfg); err != nil {
				t.Fatal(err)
			}
		}
		task, err := s.(sink.Staging).OpenStaging(ctx, next)
		if err != nil {
			t.Fatal(err)
		}
		defer task.Close()
		if fresh {
			err = task.Commit(ctx, cs)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-indexed; err != nil {
		t.Error(err)
	}
	if n := column(t, c, "SELECT count(*)::text FROM t"); n != "1" {
		t.Errorf("%s rows", n)
	}
}

func prepare(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	for i := range n {
		if _, err := c.Exec(t.Context(), fmt.Sprintf("BEGIN; INSERT INTO s VALUES ('%d'); PREPARE TRANSACTION 'someone %d'", i, i)); err != nil {
			t.Fatal(err)
		}
	}
}
