//go:build services

package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"exactly/sink"
	"exactly/sink/postgres"
	"exactly/step/cel"
)

// fittingValues are values of each declared type, as JSON: those that a column is most
// likely to take.
var fittingValues = map[string][]string{
	"bool":    {`true`, `false`},
	"int":     {`1`, `0`, `120000`, `20260131`, `-9223372036854775808`, `null`},
	"uint":    {`1`, `0`, `18446744073709551615`},
	"decimal": {`1`, `1.5`, `20260131`, `12345678901234567890123456789012`},
	"time":    {`"2026-01-31T12:00:00Z"`, `"2026-01-31T12:00:00.123456+02:00"`},
	"list":    {`[]`, `[1]`, `[1,2]`, `["a"]`, `[[1,2],[3,4]]`, `[true]`, `["2026-01-31"]`, `["12:00"]`, `["1 day"]`, `["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]`},
	"map":     {`{}`, `{"a":1}`},
	"string":  {`"1"`, `"true"`, `"2026-01-31"`, `"12:00"`, `"1 day"`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"{}"`, `"[1,2]"`, `"fine"`, `"(1,2)"`, `"10.0.0.1"`, `"101"`},
	"bytes":   {`"1234"`, `"true"`, `"6ba7b8109dad11d180b400c04fd430c8"`, `""`},
}

// fittingColumns are types of columns, with the declared types that no value of could
// ever be taken of.
var fittingColumns = map[string]string{
	"smallint": "bool time list map", "integer": "bool time list map", "bigint": "bool time list map",
	"numeric": "bool time list map", "numeric(10,2)": "bool time list map", "positive": "bool time list map",
	"real": "bool time list map", "double precision": "bool time list map",
	"boolean":     "time list map",
	"uuid":        "bool int uint time list map",
	"timestamptz": "bool", "timestamp(3)": "bool", "date": "bool",
	"time": "bool", "timetz": "bool", "interval": "bool time",
	"integer[]": "bool int uint decimal time", "text[]": "bool int uint decimal time", "jsonb[]": "bool int uint decimal time", "ints": "bool int uint decimal time",
	"text": "", "varchar(40)": "", "char(40)": "", "json": "", "jsonb": "", "bytea": "",
	"mood": "", "int4range": "", "point": "", "inet": "", "bit varying": "", "money": "", "int2vector": "",
}

// TestExpressionsFit: an expression of a type that its column can never take is refused
// at the start, and no other: each refusal is compared with what the server makes of
// values of that type.
func TestExpressionsFit(t *testing.T) {
	t.Parallel()
	kinds := slices.Sorted(maps.Keys(fittingColumns))
	ddl := "CREATE TYPE mood AS ENUM ('fine', 'true'); CREATE DOMAIN positive AS numeric CHECK (VALUE >= 0); CREATE DOMAIN ints AS int[]; CREATE TABLE t (id int"
	for i, k := range kinds {
		ddl += fmt.Sprintf(", c%d %s", i, k)
	}
	dsn, _ := database(t, ddl+")")
	var records []string
	var of [][2]string // what record i has: column type, declared type
	for i, k := range kinds {
		for _, typ := range slices.Sorted(maps.Keys(fittingValues)) {
			for _, v := range fittingValues[typ] {
				if v == "null" {
					continue // goes everywhere
				}
				records, of = append(records, fmt.Sprintf(`{"id":1,"c%d":%s}`, i, v)), append(of, [2]string{k, typ})
			}
		}
	}
	takes := map[[2]string]int{}
	for _, o := range of {
		takes[o]++
	}
	plain := postgres.Config{DSN: dsn, Table: "t", Mode: "append"}
	for _, v := range apply(t, open(t, plain, owner()), records) {
		takes[of[v.Pos.Index-1]]--
	}
	fields := map[string]cel.Type{}
	for typ := range fittingValues {
		fields["a_"+typ] = cel.Type(typ)
	}
	env, err := cel.NewEnv(cel.Options{Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range kinds {
		for typ := range fittingValues {
			refused := slices.Contains(strings.Fields(fittingColumns[k]), typ)
			if n := takes[[2]string{k, typ}]; refused && n > 0 {
				t.Errorf("%s takes %d values of %s, which is refused", k, n, typ)
			}
			cfg := plain
			cfg.Columns = map[string]string{fmt.Sprint("c", i): "a_" + typ}
			wantFit(t, cfg, env, refused, fmt.Sprintf("column c%d", i), typ)
			if strings.Contains(k, "(") || strings.HasPrefix(k, "interval") {
				continue // as a parameter or a literal cast it is the same type, or ambiguous
			}
			st := postgres.Config{DSN: dsn, Mode: "statement", Table: "", Statement: fmt.Sprintf("UPDATE t SET c%d = $1", i), Args: []string{"a_" + typ}}
			wantFit(t, st, env, refused, "args[0]", typ)
		}
	}
}

func wantFit(t *testing.T, cfg postgres.Config, env *cel.Env, refused bool, place, typ string) {
	t.Helper()
	s, err := postgres.NewWith("out", cfg, postgres.Deps{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Check(t.Context())
	switch {
	case !refused && err != nil:
		t.Errorf("%v %v: %v", cfg.Columns, cfg.Statement, err)
	case refused && (sink.Classify(err) != sink.ClassFatal || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), " "+typ+",")):
		t.Errorf("%v %v: got %v, want a refusal that names %s and %s", cfg.Columns, cfg.Statement, err, place, typ)
	}
}

// TestExpressionsKnown: what an expression gives may be known without declared fields,
// in each of several tables, and for the version.
func TestExpressionsKnown(t *testing.T) {
	t.Parallel()
	dsn, _ := database(t, "CREATE TABLE t (id int PRIMARY KEY, v timestamptz, exactly_version uuid); CREATE TABLE u (n uuid)")
	for name, tt := range map[string]struct {
		with func(*postgres.Config)
		want string
	}{
		"computed": {func(c *postgres.Config) { c.Columns = map[string]string{"id": "id", "v": "a == b"} }, "columns.v"},
		"version":  {func(c *postgres.Config) { c.Version = "size(items)" }, "version"},
		"each": {func(c *postgres.Config) {
			c.Table, c.Key = "", nil
			c.Tables = []postgres.Table{{Table: "t", Key: []string{"id"}}, {Table: "u", Each: "items", Columns: map[string]string{"n": "each.index"}}}
		}, "tables[1]: columns.n"},
	} {
		cfg := keyed(dsn, "id")
		tt.with(&cfg)
		wantRefused(t, name, cfg, tt.want)
	}
}
