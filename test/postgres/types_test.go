//go:build services

package postgres

import (
	"strings"
	"testing"

	"exactly/sink"
	"exactly/sink/postgres"
)

// TestDomainArrays: elements of a domain are what the type below is.
func TestDomainArrays(t *testing.T) {
	t.Parallel()
	dsn, c := database(t, `CREATE DOMAIN m0 AS numeric(10,2); CREATE DOMAIN m AS m0; CREATE DOMAIN j AS jsonb; CREATE TABLE t (id int PRIMARY KEY, l m[], js j[])`)
	vs := apply(t, open(t, keyed(dsn, "id"), owner()), []string{
		`{"id":1,"l":[1.005]}`, `{"id":2,"l":["1.005"]}`, `{"id":3,"js":["a"],"l":[1.05]}`, `{"id":4,"js":[[1]]}`,
	})
	if got := refused(vs); got != "1/1 value, 1/2 value" {
		t.Errorf("refused %q", got)
	}
	if got := column(t, c, "SELECT concat_ws(' ', l, js) FROM t ORDER BY id"); got != `{1.05} {"\"a\""} | {[1]}` {
		t.Errorf("got %s", got)
	}
}

// TestTombstonesRounded: a tombstone names the row that its key became, and no row that
// the key could not have become.
func TestTombstonesRounded(t *testing.T) {
	for kind, tt := range map[string]struct{ key, other string }{
		"timestamptz(3)": {"2026-01-01T00:00:00.1234Z", "2026-01-01T00:00:00.2Z"},
		"varchar(3)":     {"ab  ", "abcd"},
		"interval(0)":    {"1.4 s", "3 s"},
		"short":          {"ab  ", "abcd"},
		"char(3)":        {"ab   ", "abcd"},
		"numeric(10,2)":  {"1.0100", "1.011"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dsn, c := database(t, "CREATE DOMAIN short AS varchar(3); CREATE TABLE t (id "+kind+" PRIMARY KEY)")
			task := open(t, keyed(dsn, "id"), owner())
			last := batch(1, `{"id":"`+tt.key+`"}`)
			applied(t, task, last)
			for i, key := range []string{tt.other, tt.key} {
				next := behind(last, "")
				next.Records[0].Record.Key = []byte(key)
				if res, err := task.Apply(t.Context(), next); err != nil || i == 1 && len(res.Verdicts) > 0 {
					t.Fatal(res, err)
				}
				last = next
				if n, want := column(t, c, "SELECT count(*)::text FROM t"), []string{"1", "0"}[i]; n != want {
					t.Errorf("%s rows behind the tombstone of %q, want %s", n, key, want)
				}
			}
		})
	}
}

// TestVersionRounds: a column that rounds takes an older record for as new as the row.
func TestVersionRounds(t *testing.T) {
	t.Parallel()
	for kind, ok := range map[string]bool{
		"timestamptz(0)": false, "timestamp(3)": false, "time(2)": false, "interval(0)": false, "interval day": false, "seconds": false,
		"timestamptz": true, "timestamptz(6)": true, "interval": true, "numeric(10,2)": true, "bigint": true,
	} {
		dsn, _ := database(t, "CREATE DOMAIN seconds AS timestamptz(0); CREATE TABLE t (id int PRIMARY KEY, at "+kind+")")
		cfg := keyed(dsn, "id")
		cfg.Version = "at"
		s, err := postgres.New("out", cfg)
		if err == nil {
			err = s.Check(t.Context())
		}
		if ok != (err == nil) || !ok && (sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), "rounds")) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
