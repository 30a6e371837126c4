//go:build services

package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/sinktest"
)

const revenueDDL = `CREATE TABLE sales (id text PRIMARY KEY, day date NOT NULL, shop text NOT NULL, cents bigint NOT NULL);
	CREATE TABLE revenue (day date NOT NULL, shop text NOT NULL, cents bigint NOT NULL, sales int NOT NULL, by_epoch bigint, run uuid)`

func revenue(dsn string) postgres.Config {
	return postgres.Config{
		DSN: dsn, Mode: "replace", Table: "revenue", Key: []string{"day"}, From: []string{"sales"},
		Query: "SELECT day, shop, sum(cents) AS cents, count(*) AS sales FROM sales JOIN affected USING (day) GROUP BY day, shop; ",
		Audit: postgres.Audit{Epoch: "by_epoch", RunID: "run"},
	}
}

// TestReplace: the rows of the days that records name are made anew, and no others.
func TestReplace(t *testing.T) {
	dsn, c := database(t, revenueDDL+`;
		INSERT INTO sales VALUES ('1', '2026-01-01', 'a', 5), ('2', '2026-01-01', 'b', 7), ('3', '2026-01-02', 'a', 1), ('4', '2026-01-03', 'a', 100);
		INSERT INTO revenue (day, shop, cents, sales) VALUES ('2026-01-01', 'gone', 1, 1), ('2026-01-03', 'stays', 3, 3)`)
	task := open(t, revenue(dsn), owner())
	b := batch(4, `{"day":"2026-01-01"}`, `{"day":"2026-01-02","x":1}`, `{"day":"no day"}`, `{"day":"2026-1-1"}`, `{"day":null}`, `{"other":1}`, "")
	b.Prev = sink.Pos{}
	res, err := task.Apply(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, v := range res.Verdicts {
		codes = append(codes, fmt.Sprint(v.Pos.Index, v.Code))
	}
	if got := strings.Join(codes, " "); got != "3value 5key_missing 6no_columns 7expression" {
		t.Errorf("verdicts: %s: %v", got, res.Verdicts)
	}
	const rows = `SELECT day || shop || cents || '/' || sales || ':' || coalesce(by_epoch::text, '') || (run IS NOT NULL) FROM revenue ORDER BY day, shop`
	want := "2026-01-01a5/1:4true | 2026-01-01b7/1:4true | 2026-01-02a1/1:4true | 2026-01-03stays3/3:false"
	if got := column(t, c, rows); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// What the query gives of other days is left out.
	wide := revenue(dsn)
	wide.Query = "SELECT s.day, shop, sum(cents) AS cents, count(*) AS sales FROM sales s, affected GROUP BY s.day, shop -- all days"
	o := owner()
	o.Sink = "wide"
	if vs := apply(t, open(t, wide, o), []string{`{"day":"2026-01-02"}`}); len(vs) > 0 {
		t.Error(vs)
	}
	if got := column(t, c, `SELECT day || shop || sales FROM revenue ORDER BY day, shop`); got != "2026-01-01a1 | 2026-01-01b1 | 2026-01-02a1 | 2026-01-03stays3" {
		t.Errorf("got  %s", got)
	}
	// A day whose last row is gone is empty.
	if _, err := c.Exec(t.Context(), "DELETE FROM sales WHERE day = '2026-01-02'"); err != nil {
		t.Fatal(err)
	}
	next := batch(5, `{"day":"2026-01-02"}`)
	next.Prev = res.Through
	if _, err := task.Apply(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := column(t, c, "SELECT count(*)::text FROM revenue WHERE day = '2026-01-02'"); got != "0" {
		t.Errorf("%s rows of a day without sales", got)
	}
}

// TestReplaceTogether: tasks that make the same days at once leave what all of them
// have written, and readers see each day whole, never less of it than before.
func TestReplaceTogether(t *testing.T) {
	dsn, c := database(t, revenueDDL)
	const tasks, rounds, shops = 3, 40, 5
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // each day has all shops, or none; sales only grow
		reader := session(sinktest.Wrap(t), dsn)
		last := int64(0)
		for ctx.Err() == nil {
			var halves, sales int64
			err := reader.QueryRow(ctx, `SELECT count(*) FILTER (WHERE n <> $1), coalesce(sum(sales), 0) FROM
				(SELECT day, count(*) AS n, sum(sales) AS sales FROM revenue GROUP BY day) d`, shops).Scan(&halves, &sales)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			if err == nil && (halves > 0 || sales < last) {
				t.Errorf("%d days half written, %d sales after %d", halves, sales, last)
			}
			last = max(last, sales)
		}
	})
	var work sync.WaitGroup
	for n := range tasks {
		work.Go(func() {
			o := owner()
			o.Task, o.Tasks = int32(n), tasks
			task, writer := open(t, revenue(dsn), o), session(sinktest.Wrap(t), dsn)
			prev := sink.Pos{}
			for i := range rounds {
				day := fmt.Sprintf("2026-02-%02d", 1+i%3)
				tx, err := writer.Begin(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for s := range shops {
					if _, err := tx.Exec(ctx, "INSERT INTO sales VALUES ($1, $2::text::date, $3, 1)", fmt.Sprint(n, " ", i, " ", s), day, fmt.Sprint(s)); err != nil {
						t.Error(err)
						return
					}
				}
				if err := tx.Commit(ctx); err != nil {
					t.Error(err)
					return
				}
				b := batch(int64(i+1), fmt.Sprintf(`{"day":%q}`, day))
				b.Prev = prev
				res, err := task.Apply(ctx, b)
				if err != nil || len(res.Verdicts) > 0 {
					t.Error(res, err)
					return
				}
				prev = res.Through
			}
		})
	}
	work.Wait()
	cancel()
	wg.Wait()
	if got := column(t, c, "SELECT sum(sales)::text FROM revenue"); got != fmt.Sprint(tasks*rounds*shops) {
		t.Errorf("revenue has %s sales, want %d", got, tasks*rounds*shops)
	}
	if got := column(t, c, `SELECT count(*)::text FROM (SELECT day, shop, sum(cents), count(*) FROM sales GROUP BY 1, 2
		EXCEPT SELECT day, shop, cents, sales FROM revenue) x`); got != "0" {
		t.Errorf("%s rows are not what the query says", got)
	}
}

// TestReplaceRefused: what a rollup cannot be is said at the start.
func TestReplaceRefused(t *testing.T) {
	dsn, _ := database(t, revenueDDL)
	for _, tt := range []struct {
		name   string
		change func(*postgres.Config)
		want   string
	}{
		{"no query", func(c *postgres.Config) { c.Query = "" }, "holds only part"},
		{"nobody to follow", func(c *postgres.Config) { c.From = nil }, "from is missing"},
		{"no key", func(c *postgres.Config) { c.Key = nil }, "which rows belong together"},
		{"all of it", func(c *postgres.Config) { c.Query = "SELECT * FROM sales" }, "does not use affected"},
		{"other columns", func(c *postgres.Config) { c.Columns = map[string]string{"day": "day", "cents": "cents"} }, "no column of key"},
		{"a version", func(c *postgres.Config) { c.Version = "at" }, "no meaning in mode replace"},
		{"no such column", func(c *postgres.Config) {
			c.Query = "SELECT day, shop, sum(cents) AS total FROM sales JOIN affected USING (day) GROUP BY 1, 2"
		}, `has no column "total"`},
		{"no key in the result", func(c *postgres.Config) { c.Query = "SELECT shop, cents FROM sales JOIN affected USING (day)" }, `lacks the key column "day"`},
		{"twice", func(c *postgres.Config) {
			c.Query = "SELECT day, shop, cents, cents FROM sales JOIN affected USING (day)"
		}, `two columns "cents"`},
		{"itself", func(c *postgres.Config) {
			c.Query = "SELECT day, shop, cents, sales FROM revenue JOIN affected USING (day)"
		}, "which it fills"},
		{"not SQL", func(c *postgres.Config) { c.Query = "SELEC 1 FROM affected" }, "syntax error"},
		{"two statements", func(c *postgres.Config) { c.Query = "SELECT 1 FROM affected; DROP TABLE sales" }, "syntax error"},
		{"wrong types", func(c *postgres.Config) {
			c.Query = "SELECT day, shop, 'x'::text AS cents, 1 AS sales FROM sales JOIN affected USING (day)"
		}, "is of type bigint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := revenue(dsn)
			tt.change(&cfg)
			s, err := postgres.New("out", cfg)
			if err == nil {
				err = s.Check(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if sink.IsTransient(err) {
				t.Errorf("a start would go on: %v", err)
			}
		})
	}
}

// TestReplaceNoSuchTable: a table that the query lacks is waited for only while another
// sink has one to make.
func TestReplaceNoSuchTable(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, revenueDDL)
	cfg := revenue(dsn)
	cfg.Query = "SELECT day, shop, cents, 1 AS sales FROM saels JOIN affected USING (day)"
	check := func(makes ...string) error {
		t.Helper()
		s, err := postgres.NewWith("out", cfg, postgres.Deps{Makes: makes})
		if err != nil {
			t.Fatal(err)
		}
		return s.Check(t.Context())
	}
	wrong := func(err error) bool {
		return sink.Classify(err) == sink.ClassFatal && strings.Contains(err.Error(), "correct the name in query")
	}
	if err := check(); !sink.IsTransient(err) {
		t.Errorf("nobody knows who makes what: %v", err)
	}
	if err := check("saels"); !sink.IsTransient(err) {
		t.Errorf("another sink makes it: %v", err)
	}
	if err := check("sales"); !wrong(err) {
		t.Errorf("what others make is there: %v", err)
	}
	s, err := postgres.NewWith("out", cfg, postgres.Deps{Makes: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !wrong(err) {
		t.Errorf("nobody makes any: %v", err)
	}
	do(t, c, "CREATE TABLE saels (day date, shop text, cents bigint)")
	if err := check("sales"); err != nil {
		t.Error(err)
	}
}
