//go:build services

package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"exactly/internal/services"
	"exactly/record"
	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

func owner() sink.Owner {
	return sink.Owner{
		Incarnation: "00c0ffee00c0ffee", Pipeline: "pay", Sink: "out", Generation: 1, Tasks: 1,
		Attempt: 1, Guarantee: sink.ExactlyOnce,
	}
}

// database makes one with some tables.
func database(t *testing.T, ddl string) (dsn string, c *pgx.Conn) {
	t.Helper()
	server := services.Postgres(t, false)
	dsn = server.DSN(server.Database(t))
	c = session(sinktest.Wrap(t), dsn)
	if _, err := c.Exec(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}
	return dsn, c
}

func open(t *testing.T, c postgres.Config, o sink.Owner) sink.OutboxTask {
	t.Helper()
	s, err := postgres.New("out", c)
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := s.(sink.Outbox).OpenOutbox(t.Context(), o, sink.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = task.Close() })
	return task
}

// batch makes one of an epoch out of JSON values, behind nothing; "" is a tombstone
// of key k.
func batch(epoch int64, values ...string) sink.Batch {
	b := sink.Batch{Through: sink.Pos{Epoch: epoch, Index: int64(len(values))}}
	for i, v := range values {
		r := record.Record{Key: []byte("k"), Value: []byte(v), Source: record.Position{Topic: "raw", Partition: 3, Offset: int64(100 + i)}}
		if v == "" {
			r.Value = nil
		}
		b.Records = append(b.Records, sink.Entry{Pos: sink.Pos{Epoch: epoch, Index: int64(i + 1)}, Record: r})
	}
	return b
}

// apply applies values as the next epochs, and gives the verdicts.
func apply(t *testing.T, task sink.OutboxTask, epochs ...[]string) (vs []sink.Verdict) {
	t.Helper()
	prev := sink.Pos{}
	for i, values := range epochs {
		b := batch(int64(i+1), values...)
		b.Prev = prev
		res, err := task.Apply(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		prev, vs = res.Through, append(vs, res.Verdicts...)
	}
	return vs
}

func column(t *testing.T, c *pgx.Conn, sql string) string {
	t.Helper()
	rows, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(got, " | ")
}

// TestTypes: every value arrives as it was, in both ways of writing.
func TestTypes(t *testing.T) {
	const ddl = `CREATE TYPE mood AS ENUM ('fine', 'bad');
		CREATE DOMAIN cents AS numeric(20,2);
		CREATE TABLE t (id uuid PRIMARY KEY, n numeric, d cents, big bigint, at timestamptz, j jsonb, old json, tags text[], grid int[],
		raw bytea, m mood, ok boolean, f double precision, name varchar(5), code char(3), nothing text, seq bigserial)`
	const rec = `{"id":"6BA7B810-9dad-11d1-80b4-00c04fd430c8","n":123456789012345678901234567890.123456789,"d":12345678901234567.89,
		"big":9223372036854775807,"at":"2026-02-03T04:05:06.789012Z","j":{"a":[1,"ü"]},"old":{"b": 1},"tags":["a,b","c\"\\d",null,"NULL",""],
		"grid":[[1,2],[3,4]],"raw":"\\x00ff","m":"bad","ok":true,"f":0.1,"name":"züabc","code":"x","nothing":null}`
	const want = `6ba7b810-9dad-11d1-80b4-00c04fd430c8;123456789012345678901234567890.123456789;12345678901234567.89;9223372036854775807;` +
		`2026-02-03 04:05:06.789012+00;{"a": [1, "ü"]};{"b": 1};{"a,b","c\"\\d",NULL,"NULL",""};{{1,2},{3,4}};\x00ff;bad;true;0.1;züabc;x  ;<null>`
	for _, mode := range []string{"upsert", "append"} {
		for _, n := range []int{1, 60} { // a single statement, and COPY
			t.Run(fmt.Sprint(mode, n), func(t *testing.T) {
				t.Parallel()
				dsn, c := database(t, ddl)
				cfg := postgres.Config{DSN: dsn, Table: "t", Mode: mode}
				if mode == "upsert" {
					cfg.Key = []string{"id"}
				}
				values := []string{rec}
				for i := 1; i < n; i++ {
					values = append(values, strings.Replace(rec, "6BA7B810", fmt.Sprintf("%08x", i), 1))
				}
				if vs := apply(t, open(t, cfg, owner()), values); len(vs) > 0 {
					t.Fatal(vs)
				}
				if _, err := c.Exec(t.Context(), "SET timezone = 'UTC'"); err != nil {
					t.Fatal(err)
				}
				got := column(t, c, `SELECT concat_ws(';', id, n, d, big, at, j, old, tags, grid, raw, m, ok::text, f, name, code, coalesce(nothing, '<null>'))
					FROM t WHERE id::text LIKE '6ba7b810%'`)
				if got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		}
	}
}

// TestRefusals (23): each refused row is a dead letter, its neighbours are
// written; nothing is rounded, cut or overwritten on the way.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const ddl = `CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1);
		CREATE TABLE t (id int PRIMARY KEY, email text UNIQUE, price numeric(10,2), name varchar(3), n int CHECK (n > 0),
		ref int REFERENCES other DEFERRABLE INITIALLY DEFERRED);
		CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.name = 'bad' THEN RAISE 'not bad'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()`
	tests := []struct{ name, rec, code string }{
		{"other unique key", `{"id":2,"email":"a@x"}`, "constraint"},
		{"check", `{"id":3,"n":0}`, "constraint"},
		{"deferred foreign key", `{"id":4,"ref":9}`, "constraint"},
		{"too many digits", `{"id":5,"price":1.005}`, "value"},
		{"too long", `{"id":6,"name":"four"}`, "value"},
		{"no number", `{"id":7,"n":"x"}`, "value"},
		{"out of range", `{"id":8,"n":3000000000}`, "value"},
		{"no integer", `{"id":9,"n":1.5}`, "value"},
		{"NUL", `{"id":10,"email":"a\u0000b"}`, "value"},
		{"trigger", `{"id":11,"name":"bad"}`, "raised"},
		{"no key", `{"email":"b@x"}`, "key_missing"},
		{"no column", `{"foo":1}`, "no_columns"},
	}
	dsn, c := database(t, ddl)
	values := []string{`{"id":1,"email":"a@x","price":1.50,"n":1e0}`}
	for i, tt := range tests {
		values = append(values, tt.rec, fmt.Sprintf(`{"id":%d,"ref":1}`, 100+i))
	}
	vs := apply(t, open(t, postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}, owner()), values)
	if len(vs) != len(tests) {
		t.Fatalf("%d verdicts, want %d: %v", len(vs), len(tests), vs)
	}
	for i, tt := range tests {
		if want := (sink.Pos{Epoch: 1, Index: int64(2 + 2*i)}); vs[i].Code != tt.code || vs[i].Pos != want {
			t.Errorf("%s: got %+v, want code %s at %s", tt.name, vs[i], tt.code, want)
		}
	}
	if got := column(t, c, "SELECT count(*)::text FROM t"); got != fmt.Sprint(1+len(tests)) {
		t.Errorf("%s rows, want %d", got, 1+len(tests))
	}
}

// TestOneKey: records of one key, spelled in several ways, keep their order
// within a batch; older ones never overwrite; a delete is in its place.
func TestOneKey(t *testing.T) {
	t.Parallel()
	const upper, lower = "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	tests := []struct {
		name, ddl string
		cfg       postgres.Config
		values    []string
		want      string
	}{
		{
			"uuid", "CREATE TABLE t (id uuid PRIMARY KEY, v text, extra text)",
			postgres.Config{},
			[]string{`{"id":"` + upper + `","v":"1"}`, `{"id":"` + lower + `","v":"2","extra":"x"}`, `{"id":"` + upper + `","v":"3"}`},
			"3x",
		},
		{
			"numeric", "CREATE TABLE t (id numeric PRIMARY KEY, v text, extra text)",
			postgres.Config{},
			[]string{`{"id":1,"v":"1","extra":"y"}`, `{"id":2,"v":"1"}`, `{"id":1.0,"v":"2","extra":"x"}`, `{"id":1.00,"v":"3"}`, `{"id":2.0,"v":"2","extra":"z"}`},
			"3x | 2z",
		},
		{
			"citext", "CREATE EXTENSION citext; CREATE TABLE t (id citext PRIMARY KEY, v text, extra text)",
			postgres.Config{},
			[]string{`{"id":"A","v":"1"}`, `{"id":"a","v":"2","extra":"x"}`, `{"id":"A","v":"3"}`},
			"3x",
		},
		{
			"version", "CREATE TABLE t (id text PRIMARY KEY, v text, extra text, at timestamptz)",
			postgres.Config{Version: "at"},
			[]string{`{"id":"k","v":"2","extra":"x","at":"2026-01-02T00:00:00+01:00"}`, `{"id":"k","v":"1","at":"2026-01-01T22:30:00Z"}`, `{"id":"k","v":"3","at":"2026-01-01T23:00:00Z"}`},
			"3x",
		},
		{
			"delete", "CREATE TABLE t (id text PRIMARY KEY, v text, extra text)",
			postgres.Config{},
			[]string{`{"id":"k","v":"1","extra":"gone"}`, ``, `{"id":"k","v":"2"}`, `{"id":"l","v":"1"}`},
			"2 | 1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, tt.ddl)
			tt.cfg.DSN, tt.cfg.Table, tt.cfg.Key = dsn, "t", []string{"id"}
			if vs := apply(t, open(t, tt.cfg, owner()), tt.values); len(vs) > 0 {
				t.Fatal(vs)
			}
			if got := column(t, c, "SELECT v || coalesce(extra, '') FROM t ORDER BY id"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAudit: the columns that the sink fills, and that a row that stays as it is
// is not written.
func TestAudit(t *testing.T) {
	t.Parallel()
	const ddl = `CREATE TABLE t (id text PRIMARY KEY, v int, run uuid, ep bigint, topic text, part int, off bigint, first timestamptz, last timestamptz);
		CREATE TABLE fired (n int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (1); RETURN NULL; END $$;
		CREATE TRIGGER f AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()`
	dsn, c := database(t, ddl)
	cfg := postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}, Audit: postgres.Audit{
		RunID: "run", Epoch: "ep", Topic: "topic", Partition: "part", Offset: "off", ProcessedAt: "first", UpdatedAt: "last",
	}}
	task := open(t, cfg, owner())
	apply(t, task, []string{`{"id":"a","v":1}`, `{"id":"b","v":1}`}, []string{`{"id":"a","v":1}`, `{"id":"b","v":2}`})
	got := column(t, c, "SELECT concat_ws(',', id, v, ep, topic, part, off, last > first, substr(run::text, 15, 1)) FROM t ORDER BY id")
	if want := "a,1,1,raw,3,100,f,5 | b,2,2,raw,3,101,t,5"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := column(t, c, "SELECT count(*)::text FROM fired"); got != "3" {
		t.Errorf("the trigger fired %s times, want 3", got)
	}
}

// TestSessionsEnded (22): sessions are ended by an administrator all the time,
// in the middle of batches and of COMMIT; a trigger that counts writes (24) ends
// at one per record.
func TestSessionsEnded(t *testing.T) {
	t.Parallel()
	const ddl = `CREATE TABLE t (id int, v int); CREATE TABLE fired (id int);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (NEW.id); RETURN NULL; END $$;
		CREATE TRIGGER f AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()`
	dsn, c := database(t, ddl)
	task := open(t, postgres.Config{DSN: dsn, Table: "t", Mode: "append"}, owner())
	killer := session(sinktest.Wrap(t), dsn)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		tick := time.NewTicker(90 * time.Millisecond) // a new session has to get somewhere
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			tag, err := killer.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE starts_with(application_name, 'exactly') AND datname = current_database()`)
			if err != nil {
				return
			}
			n += int(tag.RowsAffected())
		}
	}()
	const epochs, size = 400, 80
	prev, tries := sink.Pos{}, 0
	for e := range int64(epochs) {
		values := make([]string, size)
		for i := range values {
			values[i] = fmt.Sprintf(`{"id":%d,"v":1}`, e*size+int64(i))
		}
		b := batch(e+1, values...)
		b.Prev = prev
		for {
			tries++
			res, err := task.Apply(t.Context(), b)
			if err == nil {
				prev = res.Through
				break
			}
			if sink.Classify(err) != sink.ClassTransient {
				t.Fatal(err)
			}
		}
	}
	stop()
	killed := <-done
	t.Logf("%d sessions ended, %d tries for %d epochs", killed, tries, epochs)
	if tries == epochs {
		t.Error("no try failed: nothing was shown")
	}
	for _, table := range []string{"t", "fired"} {
		got := column(t, c, "SELECT concat_ws(',', count(*), count(DISTINCT id)) FROM "+table)
		if want := fmt.Sprintf("%d,%d", epochs*size, epochs*size); got != want {
			t.Errorf("%s: %s rows and ids, want %s", table, got, want)
		}
	}
}

// TestFrozenOwner: a session of an older attempt that stands still in the middle
// of a transaction does not hold up who takes over.
func TestFrozenOwner(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "CREATE TABLE t (id text PRIMARY KEY)")
	cfg := postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}
	apply(t, open(t, cfg, owner()), []string{`{"id":"a"}`})
	name := column(t, c, "SELECT application_name FROM pg_stat_activity WHERE starts_with(application_name, 'exactly') AND datname = current_database()")
	frozen := session(sinktest.Wrap(t), dsn+"&application_name="+strings.ReplaceAll(name, " ", "%20"))
	if _, err := frozen.Exec(t.Context(), "BEGIN; SELECT 1 FROM exactly_ledger FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	next := owner()
	next.Attempt = 2
	begun := time.Now()
	open(t, cfg, next)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("taken over after %s", took)
	}
	if _, err := frozen.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the session of the older attempt goes on")
	}
}

// TestStart: what is wrong is said before the first record, by its name.
func TestStart(t *testing.T) {
	t.Parallel()
	dsn, _ := database(t, `CREATE TABLE t (id int, v int, PRIMARY KEY (id)); CREATE TABLE late (id int UNIQUE DEFERRABLE);
		CREATE VIEW w AS SELECT 1 AS id; CREATE TABLE part (id int, v int); CREATE UNIQUE INDEX ON part (id) WHERE v > 0`)
	tests := []struct {
		name string
		cfg  postgres.Config
		want string
	}{
		{"no table", postgres.Config{Table: "nope", Key: []string{"id"}}, `table: "nope" does not exist`},
		{"no column", postgres.Config{Table: "t", Key: []string{"ID"}}, `did you mean "id"?`},
		{"no constraint", postgres.Config{Table: "t", Key: []string{"v"}}, "CREATE UNIQUE INDEX"},
		{"half a key", postgres.Config{Table: "t", Key: []string{"id", "v"}}, "exactly (id, v)"},
		{"deferrable", postgres.Config{Table: "late", Key: []string{"id"}}, "checked at once"},
		{"partial", postgres.Config{Table: "part", Key: []string{"id"}}, "exactly (id)"},
		{"view", postgres.Config{Table: "w", Key: []string{"id"}}, "is no table"},
		{"audit", postgres.Config{Table: "t", Key: []string{"id"}, Audit: postgres.Audit{Epoch: "ep"}}, "ADD COLUMN"},
		{"arguments", postgres.Config{Mode: "statement", Statement: "UPDATE t SET v = $1 WHERE id = $2", Args: []string{"v"}}, "2 parameters, args has 1"},
		{"statement", postgres.Config{Mode: "statement", Statement: "UPDATE nope SET v = 1"}, "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.DSN = dsn
			s, err := postgres.New("out", tt.cfg)
			if err == nil {
				err = s.Check(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || sink.IsTransient(err) {
				t.Errorf("got %v, want it to say %q for good", err, tt.want)
			}
		})
	}
}

// TestSecrets: a password is in no error.
func TestSecrets(t *testing.T) {
	t.Parallel()
	server := services.Postgres(t, false)
	for _, dsn := range []string{
		"postgres://nobody:s3cr3t@" + server.Address() + "/postgres?sslmode=disable",
		"postgres://postgres:s3cr3t@127.0.0.1:1/postgres?sslmode=disable",
		"postgres://postgres:s3cr3t@[/x", "host=x password=s3cr3t port=y",
		// of pgconn's text only what it takes for the password is left out
		"host=x password = s3cr3t port=y", "host=x password= s3cr3t port=y", `host=x password=abc\ s3cr3t port=y`,
		"postgres://u:abc@s3cr3t%zz@h/db", "postgres://u:abc/s3cr3t@h/db", "postgres://u@h:x/db?password=s3cr3t",
	} {
		s, err := postgres.New("out", postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}})
		if err == nil {
			err = s.Check(t.Context())
		}
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
}

// TestReplay: a further generation may read the past again; a table in which
// nothing tells what is newer refuses it.
func TestReplay(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, "CREATE TABLE t (id text PRIMARY KEY, v int)")
	cfg := postgres.Config{DSN: dsn, Table: "t", Key: []string{"id"}}
	apply(t, open(t, cfg, owner()), []string{`{"id":"a","v":1}`})
	next := owner()
	next.Generation = 2
	s, err := postgres.New("out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.(sink.Outbox).OpenOutbox(t.Context(), next, sink.Pos{})
	if sink.Classify(err) != sink.ClassFatal || !strings.Contains(fmt.Sprint(err), "exactly_order") {
		t.Fatalf("got %v, want a refusal that names the column", err)
	}
	if _, err := c.Exec(t.Context(), "ALTER TABLE t ADD COLUMN exactly_order bytea"); err != nil {
		t.Fatal(err)
	}
	task := open(t, cfg, next)
	apply(t, task, []string{`{"id":"a","v":2}`})
	// The ledger is lost, and the first generation comes again.
	if _, err := c.Exec(t.Context(), "DELETE FROM exactly_ledger"); err != nil {
		t.Fatal(err)
	}
	apply(t, open(t, cfg, owner()), []string{`{"id":"a","v":1}`})
	if got := column(t, c, "SELECT v::text FROM t"); got != "2" {
		t.Errorf("the row says %s, want 2: an older record overwrote it", got)
	}
}
