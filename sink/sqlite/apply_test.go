package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"exactly/record"
	"exactly/sink"
	"exactly/sink/sqlite"
)

// at makes entries of one epoch; a value of "" is a tombstone, key and value
// are parted by "=>" where the Kafka key matters.
func at(epoch int64, values ...string) []sink.Entry {
	es := make([]sink.Entry, len(values))
	for i, v := range values {
		es[i].Pos = sink.Pos{Epoch: epoch, Index: int64(i)}
		key, value, ok := strings.Cut(v, "=>")
		if !ok {
			key, value = "", v
		}
		es[i].Record = record.Record{Key: []byte(key), Value: []byte(value)}
		if value == "" {
			es[i].Value = nil
		}
	}
	return es
}

// feed applies entries behind prev and gives the verdicts as "index code".
func feed(t *testing.T, task sink.OutboxTask, prev sink.Pos, es []sink.Entry) (sink.Pos, []string) {
	t.Helper()
	through := es[len(es)-1].Pos
	res, err := task.Apply(context.Background(), sink.Batch{Prev: prev, Through: through, Confirmed: prev, Records: es})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if res.Through != through {
		t.Errorf("applied through %s, want %s", res.Through, through)
	}
	codes := []string{}
	for _, v := range res.Verdicts {
		codes = append(codes, fmt.Sprint(v.Pos.Index, " ", v.Code))
	}
	return res.Through, codes
}

// dump gives the rows of a query as typed literals.
func dump(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rows.Next() {
		vals := make([]any, len(cols))
		ptrs := make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(vals))
		for i, v := range vals {
			parts[i] = fmt.Sprintf("%v", v)
		}
		out = append(out, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestRows shows what becomes of records of every sort.
func TestRows(t *testing.T) {
	t.Parallel()
	const quoted = `SELECT typeof(v), quote(v) FROM t ORDER BY id`
	for name, tt := range map[string]struct {
		ddl      string
		conf     sqlite.Config
		records  []string
		query    string
		rows     []string
		verdicts []string
	}{
		"numbers in an untyped column": {
			ddl: "CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
			records: []string{
				`{"id":1,"v":9007199254740993}`, `{"id":2,"v":-9223372036854775808}`, `{"id":3,"v":18446744073709551615}`,
				`{"id":4,"v":0.1000000000000000055511151231257827}`, `{"id":5,"v":1e3}`, `{"id":6,"v":1e999}`, `{"id":7,"v":-0}`,
			},
			query: quoted,
			rows: []string{
				"integer|9007199254740993", "integer|-9223372036854775808", "text|'18446744073709551615'",
				"text|'0.1000000000000000055511151231257827'", "text|'1e3'", "text|'1e999'", "integer|0",
			},
		},
		"numbers in a NUMERIC column": {
			ddl: "CREATE TABLE t (id INTEGER PRIMARY KEY, v DECIMAL(20,2))",
			records: []string{
				`{"id":1,"v":9007199254740993}`, `{"id":2,"v":12.34}`, `{"id":3,"v":9223372036854775808}`, `{"id":4,"v":1e999}`, `{"id":5,"v":"007"}`,
			},
			query: quoted, rows: []string{"integer|9007199254740993", "real|12.34", "integer|7"},
			verdicts: []string{"2 integer_range", "3 integer_range"},
		},
		"fractions in an INTEGER column": {
			ddl: "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)",
			records: []string{
				`{"id":1,"v":1e18}`, `{"id":2,"v":9007199254740993.5}`, `{"id":3,"v":12.5}`, `{"id":4,"v":1e-400}`, `{"id":5,"v":9007199254740993.0}`,
			},
			query: quoted, rows: []string{"integer|1000000000000000000", "real|12.5"},
			verdicts: []string{"1 integer_range", "3 integer_range", "4 integer_range"},
		},
		"numbers in a TEXT column": {
			ddl:     "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)",
			records: []string{`{"id":1,"v":9223372036854775808}`, `{"id":2,"v":12.340}`, `{"id":3,"v":7}`, `{"id":4,"v":true}`},
			query:   quoted, rows: []string{"text|'9223372036854775808'", "text|'12.340'", "text|'7'", "text|'1'"},
		},
		"everything else": {
			ddl: "CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
			records: []string{
				`{"id":1,"v":"a\u0000\"\u00e9\ud83d\ude00"}`, `{"id":2,"v":true}`, `{"id":3,"v":false}`, `{"id":4,"v":null}`,
				`{"id":5,"v":{ "a": [1, 2.50] }}`, `{"id":6,"v":[]}`, `{"id":7,"v":"2026-01-02T03:04:05Z"}`, `{"id":8,"v":""}`,
			},
			query: `SELECT typeof(v), hex(v) FROM t WHERE id = 1 UNION ALL SELECT typeof(v), quote(v) FROM t WHERE id > 1`,
			rows: []string{
				"text|610022C3A9F09F9880", "integer|1", "integer|0", "null|NULL", `text|'{ "a": [1, 2.50] }'`, "text|'[]'",
				"text|'2026-01-02T03:04:05Z'", "text|''",
			},
		},
		"records that are none": {
			ddl:     "CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
			records: []string{`k=>nonsense`, `[1]`, `{"id":1,"id":2}`, `{"v":1}`, `{"id":null}`, `{}`, `{"id":7}`, `{"id":"x"}`},
			query:   "SELECT id FROM t", rows: []string{"7"},
			verdicts: []string{"0 not_json", "1 wrong_type", "2 duplicate_key", "3 key_missing", "4 key_missing", "5 no_columns", "7 constraint"},
		},
		"unknown fields ignored": {
			ddl: "CREATE TABLE t (id PRIMARY KEY)", records: []string{`{"id":1,"x":1}`}, query: "SELECT id FROM t", rows: []string{"1"},
		},
		"unknown fields rejected": {
			ddl: "CREATE TABLE t (id PRIMARY KEY)", conf: sqlite.Config{UnknownFields: "reject"},
			records: []string{`{"id":1,"x":1}`, `{"id":2}`}, query: "SELECT id FROM t", rows: []string{"2"}, verdicts: []string{"0 unknown_field"},
		},
		"a field that is absent leaves its column": {
			ddl:     "CREATE TABLE t (id PRIMARY KEY, a DEFAULT 'd', b)",
			records: []string{`{"id":1,"b":1}`, `{"id":1,"a":2}`, `{"id":2,"a":null,"b":3}`, `{"id":2,"b":4}`},
			query:   "SELECT id, quote(a), b FROM t ORDER BY id", rows: []string{"1|2|1", "2|NULL|4"},
		},
		"expressions": {
			ddl: "CREATE TABLE t (id PRIMARY KEY, sum, big, raw, none)",
			conf: sqlite.Config{Columns: map[string]string{
				"id": "string(a) + \"-\" + key", "sum": "a + 1", "big": "decimal(\"0.10\") + b", "raw": "b\"\\x00\\x01\"", "none": "value.?c",
			}},
			records: []string{`k=>{"a":9007199254740993,"b":0.2}`, `k=>{"b":1}`, `k=>{"a":"x","b":1}`},
			query:   "SELECT id, sum, big, hex(raw), quote(none) FROM t", rows: []string{"9007199254740993-k|9007199254740994|0.30|0001|NULL"},
			verdicts: []string{"1 expression", "2 wrong_type"},
		},
		"constraints": {
			ddl:     "CREATE TABLE t (id TEXT PRIMARY KEY, a TEXT NOT NULL, b INTEGER CHECK (b < 10), c UNIQUE)",
			records: []string{`{"id":"1","a":"x","c":1}`, `{"id":"2"}`, `{"id":"3","a":"x","b":10}`, `{"id":"4","a":"x","c":1}`, `{"id":"5","a":"x","b":9,"c":5}`, `{"id":"1","a":"x","c":5}`},
			query:   "SELECT id, c FROM t ORDER BY id", rows: []string{"1|1", "5|5"},
			verdicts: []string{"1 constraint", "2 constraint", "3 constraint", "5 constraint"},
		},
		"strict types": {
			ddl:     "CREATE TABLE t (id TEXT PRIMARY KEY, a INTEGER) STRICT",
			records: []string{`{"id":"1","a":1}`, `{"id":"2","a":"x"}`, `{"id":"3","a":1.5}`, `{"id":"4","a":2.0}`},
			query:   "SELECT id, a FROM t ORDER BY id", rows: []string{"1|1", "4|2"}, verdicts: []string{"1 constraint", "2 constraint"},
		},
		"constraints that would replace or ignore": {
			ddl:     "CREATE TABLE t (id PRIMARY KEY, c UNIQUE ON CONFLICT REPLACE, d UNIQUE ON CONFLICT IGNORE, e NOT NULL ON CONFLICT ROLLBACK)",
			records: []string{`{"id":1,"c":1,"d":1,"e":1}`, `{"id":2,"c":1,"e":1}`, `{"id":3,"d":1,"e":1}`, `{"id":4}`, `{"id":5,"e":1}`},
			query:   "SELECT id FROM t ORDER BY id", rows: []string{"1", "5"},
			verdicts: []string{"1 constraint", "2 constraint", "3 constraint"},
		},
		"triggers that refuse": {
			ddl: `CREATE TABLE t (id PRIMARY KEY, a);
				CREATE TRIGGER abort BEFORE INSERT ON t WHEN NEW.a = 1 BEGIN SELECT RAISE(ABORT, 'no ones'); END;
				CREATE TRIGGER rollback BEFORE INSERT ON t WHEN NEW.a = 2 BEGIN SELECT RAISE(ROLLBACK, 'no twos'); END;
				CREATE TRIGGER keep BEFORE DELETE ON t WHEN OLD.a = 3 BEGIN SELECT RAISE(ROLLBACK, 'threes stay'); END;`,
			records: []string{`{"id":1,"a":0}`, `{"id":2,"a":1}`, `{"id":3,"a":2}`, `{"id":4,"a":3}`, `{"id":5,"a":2}`, `4=>`, `{"id":6,"a":4}`},
			query:   "SELECT id FROM t ORDER BY id", rows: []string{"1", "4", "6"},
			verdicts: []string{"1 constraint", "2 constraint", "4 constraint", "5 constraint"},
		},
		"deletes by number":       {"CREATE TABLE t (id INTEGER PRIMARY KEY)", sqlite.Config{}, []string{`{"id":12}`, `{"id":13}`, `12=>`}, "SELECT id FROM t", []string{"13"}, nil},
		"deletes by text":         {"CREATE TABLE t (id TEXT PRIMARY KEY)", sqlite.Config{}, []string{`{"id":"12"}`, `{"id":"x"}`, `{"id":"y"}`, `12=>`, `"x"=>`}, "SELECT id FROM t", []string{"y"}, nil},
		"deletes by either":       {"CREATE TABLE t (id PRIMARY KEY)", sqlite.Config{}, []string{`{"id":12}`, `{"id":"13"}`, `{"id":14}`, `12=>`, `13=>`}, "SELECT id FROM t", []string{"14"}, nil},
		"deletes by object":       {"CREATE TABLE t (id TEXT PRIMARY KEY)", sqlite.Config{}, []string{`{"id":"x"}`, `{"id":"y"}`, `{"a":1,"id":"x"}=>`}, "SELECT id FROM t", []string{"y"}, nil},
		"deletes of two columns":  {"CREATE TABLE t (a, b, PRIMARY KEY (a, b))", sqlite.Config{Key: []string{"a", "b"}}, []string{`{"a":1,"b":"x"}`, `{"a":2,"b":"x"}`, `{"a":3,"b":"x"}`, `{"b":"x","a":1}=>`, `[2,"x"]=>`, `x=>`, `[3]=>`}, "SELECT a FROM t", []string{"3"}, []string{"5 key_missing", "6 key_missing"}},
		"deletes without a key":   {"CREATE TABLE t (id PRIMARY KEY)", sqlite.Config{}, []string{`{"id":1}`, `=>`}, "SELECT id FROM t", []string{"1"}, []string{"1 key_missing"}},
		"append keeps every one":  {"CREATE TABLE t (id, a)", sqlite.Config{Mode: "append"}, []string{`{"id":1}`, `{"id":1}`, `{"id":1,"a":2}`}, "SELECT id, quote(a) FROM t", []string{"1|NULL", "1|NULL", "1|2"}, nil},
		"append refuses doubles":  {"CREATE TABLE t (id UNIQUE)", sqlite.Config{Mode: "append"}, []string{`{"id":1}`, `{"id":1}`}, "SELECT id FROM t", []string{"1"}, []string{"1 constraint"}},
		"names that need quoting": {`CREATE TABLE t ("or""der" PRIMARY KEY, "select ;")`, sqlite.Config{Key: []string{`or"der`}}, []string{`{"or\"der":1,"select ;":2}`, `1=>`, `{"or\"der":3,"select ;":4}`}, "SELECT * FROM t", []string{"3|4"}, nil},
		"counted": {
			ddl: "CREATE TABLE t (id PRIMARY KEY, a, insert_count)", conf: sqlite.Config{InsertCount: true},
			records: []string{`{"id":1,"a":1,"insert_count":99}`, `{"id":1,"a":1}`, `{"id":1,"a":2}`, `{"id":2}`},
			query:   "SELECT id, a, insert_count FROM t ORDER BY id", rows: []string{"1|2|3", "2|<nil>|1"},
		},
		"version": {
			ddl: "CREATE TABLE t (id PRIMARY KEY, a, v)", conf: sqlite.Config{Version: "v"},
			records: []string{`{"id":1,"a":1,"v":5}`, `{"id":1,"a":2,"v":4}`, `{"id":2,"a":1,"v":1}`, `{"id":2,"a":2,"v":1}`, `{"id":2,"v":null}`, `{"id":2}`},
			query:   "SELECT id, a, v FROM t ORDER BY id", rows: []string{"1|1|5", "2|2|1"}, verdicts: []string{"4 version_missing", "5 expression"},
		},
		"version, counted": {
			ddl:     "CREATE TABLE t (id PRIMARY KEY, a, insert_count, exactly_version)",
			conf:    sqlite.Config{Version: "source.offset + a", InsertCount: true},
			records: []string{`{"id":1,"a":5}`, `{"id":1,"a":4}`, `{"id":1,"a":6}`},
			query:   "SELECT id, a, insert_count, exactly_version FROM t", rows: []string{"1|6|3|6"},
		},
		"only key columns": {"CREATE TABLE t (id PRIMARY KEY)", sqlite.Config{}, []string{`{"id":1}`, `{"id":1}`}, "SELECT id FROM t", []string{"1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, db := database(t, tt.ddl)
			c := tt.conf
			c.Path, c.Table = path, "t"
			if c.Key == nil && c.Mode == "" {
				c.Key = []string{"id"}
			}
			s := mustNew(t, c)
			if err := s.Check(context.Background()); err != nil {
				t.Fatalf("check: %v", err)
			}
			_, verdicts := feed(t, mustOpen(t, s, owner(), sink.Pos{}), sink.Pos{}, at(1, tt.records...))
			same(t, "rows", dump(t, db, tt.query), tt.rows)
			same(t, "verdicts", verdicts, tt.verdicts)
		})
	}
}

// TestUnchangedRows: a row that stays as it is is not written, so its triggers
// are quiet; one that changes only in what its collation overlooks is.
func TestUnchangedRows(t *testing.T) {
	t.Parallel()
	path, db := database(t, `CREATE TABLE t (id PRIMARY KEY, a TEXT COLLATE NOCASE); CREATE TABLE log (a);
		CREATE TRIGGER seen AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (NEW.a); END`)
	task := mustOpen(t, mustNew(t, sqlite.Config{Path: path, Table: "t", Key: []string{"id"}}), owner(), sink.Pos{})
	feed(t, task, sink.Pos{}, at(1, `{"id":1,"a":"x"}`, `{"id":1,"a":"x"}`, `{"id":1,"a":null}`, `{"id":1,"a":null}`, `{"id":1,"a":"y"}`, `{"id":1,"a":"Y"}`))
	same(t, "updates", dump(t, db, "SELECT quote(a) FROM log"), []string{"NULL", "'y'", "'Y'"})
}

// TestShapes: records that each fill other columns share what they can, and the
// number of kept statements is bounded.
func TestShapes(t *testing.T) {
	t.Parallel()
	cols := make([]string, 40)
	for i := range cols {
		cols[i] = fmt.Sprintf("c%d", i)
	}
	path, db := database(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, "+strings.Join(cols, ", ")+")")
	task := mustOpen(t, mustNew(t, sqlite.Config{Path: path, Table: "t", Key: []string{"id"}}), owner(), sink.Pos{})
	var values, want []string
	for i := range 400 {
		values = append(values, fmt.Sprintf(`{"id":%d,"c%d":%d,"c%d":0}`, i%200, i%40, i, (i/40+i+1)%40))
	}
	for i := range 200 {
		want = append(want, fmt.Sprintf("%d|%d", i, i+200))
	}
	feed(t, task, sink.Pos{}, at(1, values...))
	query := "SELECT id, max(" + strings.Join(cols, ",") + ") FROM t ORDER BY id"
	query = strings.ReplaceAll(query, ",c", ",0),coalesce(c")
	query = strings.Replace(query, "max(c0", "max(coalesce(c0", 1)
	query = strings.Replace(query, "c39)", "c39,0))", 1)
	same(t, "rows", dump(t, db, query), want)
}
