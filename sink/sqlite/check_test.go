package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exactly/sink"
	"exactly/sink/sqlite"
)

// database makes a file with the given schema and opens it for looking.
func database(t *testing.T, ddl string) (string, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sql.Open("sqlite", "file:"+uri(path)+"?_pragma=busy_timeout(5000)")
	if err == nil {
		t.Cleanup(func() { _ = db.Close() })
		_, err = db.Exec(ddl)
	}
	if err != nil {
		t.Fatalf("make the database: %v", err)
	}
	return path, db
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := sqlite.Config{Path: "x.db", Table: "t", Key: []string{"id"}}
	for name, tt := range map[string]struct {
		change func(c *sqlite.Config)
		want   string
	}{
		"no path":            {func(c *sqlite.Config) { c.Path = "" }, "path is missing"},
		"in memory":          {func(c *sqlite.Config) { c.Path = ":memory:" }, "gone after a crash"},
		"URI":                {func(c *sqlite.Config) { c.Path = "file:x.db" }, "URIs are not taken"},
		"no table":           {func(c *sqlite.Config) { c.Table = "" }, "table is missing"},
		"the ledger's table": {func(c *sqlite.Config) { c.Table = "exactly_ledger_verdicts" }, "the sink's own"},
		"mode":               {func(c *sqlite.Config) { c.Mode = "merge" }, `mode is "merge", want upsert or append`},
		"no key":             {func(c *sqlite.Config) { c.Key = nil }, "key is missing"},
		"key twice":          {func(c *sqlite.Config) { c.Key = []string{"a", "a"} }, `names the column "a" twice`},
		"key not in columns": {func(c *sqlite.Config) { c.Columns = map[string]string{"a": "a"} }, `columns lacks the key column "id"`},
		"unknown fields":     {func(c *sqlite.Config) { c.UnknownFields = "keep" }, "want ignore or reject"},
		"reject with columns": {func(c *sqlite.Config) {
			c.UnknownFields, c.Columns = "reject", map[string]string{"id": "id"}
		}, "no meaning beside columns"},
		"count without keys": {func(c *sqlite.Config) { c.Mode, c.InsertCount = "append", true }, "no meaning in mode append"},
		"schema alone":       {func(c *sqlite.Config) { c.Schema = map[string]string{"id": "TEXT"} }, "no meaning without create"},
		"create alone":       {func(c *sqlite.Config) { c.Create = true }, "needs schema"},
		"schema without key": {func(c *sqlite.Config) { c.Create, c.Schema = true, map[string]string{"a": "TEXT"} }, `schema lacks the key column "id"`},
		"bad expression":     {func(c *sqlite.Config) { c.Columns = map[string]string{"id": "id +"} }, "columns.id:"},
		"bad version":        {func(c *sqlite.Config) { c.Version = "a ==" }, "version:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good
			tt.change(&c)
			_, err := sqlite.New("records", c)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "sink records: ") {
				t.Errorf("got %v, want an error of sink records with %q", err, tt.want)
			}
		})
	}
	if _, err := sqlite.New("records", good); err != nil {
		t.Errorf("the good settings: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ddl  string
		conf sqlite.Config
		want string // "": all right
	}{
		"primary key":       {ddl: "CREATE TABLE t (id TEXT PRIMARY KEY, a)"},
		"integer key":       {ddl: "CREATE TABLE t (id INTEGER PRIMARY KEY, a)"},
		"unique index":      {ddl: "CREATE TABLE t (id TEXT, a); CREATE UNIQUE INDEX u ON t (id)"},
		"without rowid":     {ddl: "CREATE TABLE t (id TEXT PRIMARY KEY, a) WITHOUT ROWID"},
		"other order":       {ddl: "CREATE TABLE t (id TEXT, a, PRIMARY KEY (a, id))", conf: sqlite.Config{Key: []string{"id", "a"}}},
		"append":            {ddl: "CREATE TABLE t (a)", conf: sqlite.Config{Mode: "append"}},
		"no table":          {"CREATE TABLE other (id)", sqlite.Config{}, "table: t does not exist"},
		"view":              {"CREATE VIEW t AS SELECT 1 AS id", sqlite.Config{}, "t is a view"},
		"no constraint":     {"CREATE TABLE t (id TEXT, a)", sqlite.Config{}, `CREATE UNIQUE INDEX … ON "t" ("id")`},
		"partial index":     {"CREATE TABLE t (id TEXT, a); CREATE UNIQUE INDEX u ON t (id) WHERE a > 0", sqlite.Config{}, "no UNIQUE or PRIMARY KEY"},
		"wider constraint":  {"CREATE TABLE t (id TEXT, a, PRIMARY KEY (id, a))", sqlite.Config{}, "of exactly (id)"},
		"key column":        {"CREATE TABLE t (ident TEXT PRIMARY KEY)", sqlite.Config{}, `key: table t has no column "id" that can be written; it has ident`},
		"case of a column":  {"CREATE TABLE t (ID TEXT PRIMARY KEY)", sqlite.Config{}, `did you mean "ID"?`},
		"column":            {"CREATE TABLE t (id TEXT PRIMARY KEY)", sqlite.Config{Columns: map[string]string{"id": "id", "b": "b"}}, `columns: table t has no column "b"`},
		"generated column":  {"CREATE TABLE t (id TEXT PRIMARY KEY, b AS (id))", sqlite.Config{Columns: map[string]string{"id": "id", "b": "b"}}, "that can be written"},
		"no count":          {"CREATE TABLE t (id TEXT PRIMARY KEY)", sqlite.Config{InsertCount: true}, "ADD COLUMN insert_count INTEGER NOT NULL DEFAULT 1"},
		"count":             {ddl: "CREATE TABLE t (id TEXT PRIMARY KEY, insert_count)", conf: sqlite.Config{InsertCount: true}},
		"no version":        {"CREATE TABLE t (id TEXT PRIMARY KEY)", sqlite.Config{Version: "a"}, "ADD COLUMN exactly_version"},
		"version of a name": {ddl: "CREATE TABLE t (id TEXT PRIMARY KEY, a)", conf: sqlite.Config{Version: "a"}},
		"schema":            {"CREATE TABLE t (id TEXT PRIMARY KEY)", sqlite.Config{Create: true, Schema: map[string]string{"id": "TEXT", "b": "TEXT"}}, `schema: table t has no column "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := database(t, tt.ddl)
			c := tt.conf
			c.Path, c.Table = path, "t"
			if c.Key == nil && c.Mode == "" {
				c.Key = []string{"id"}
			}
			err := mustNew(t, c).Check(context.Background())
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			case tt.want != "" && sink.Classify(err) != sink.ClassFatal:
				t.Errorf("%v is classed %v, want fatal", err, sink.Classify(err))
			}
		})
	}
}

func TestCheckOfAbsentFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := sqlite.Config{Path: filepath.Join(dir, "x.db"), Table: "t", Key: []string{"id"}}
	if err := mustNew(t, c).Check(context.Background()); err == nil || !strings.Contains(err.Error(), "set create: true") {
		t.Errorf("an absent file: got %v, want the remedy", err)
	}
	c.Create, c.Schema = true, map[string]string{"id": "TEXT"}
	if err := mustNew(t, c).Check(context.Background()); err != nil {
		t.Errorf("an absent file that may be made: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("Check left %v behind (%v)", left, err)
	}
	c.Path = filepath.Join(dir, "no", "x.db")
	if err := mustNew(t, c).Check(context.Background()); err == nil || !strings.Contains(err.Error(), "path: files cannot be created") {
		t.Errorf("a folder that does not exist: got %v", err)
	}
	c.Path = filepath.Join(dir, "junk.db")
	if err := os.WriteFile(c.Path, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mustNew(t, c).Check(context.Background()); sink.Classify(err) != sink.ClassFatal {
		t.Errorf("a file that is no database: got %v, %v", err, sink.Classify(err))
	}
}

// TestForeignMark holds the error to its remedy.
func TestForeignMark(t *testing.T) {
	t.Parallel()
	path, db := database(t, "CREATE TABLE t (id TEXT PRIMARY KEY)")
	s := mustNew(t, sqlite.Config{Path: path, Table: "t", Key: []string{"id"}})
	mustOpen(t, s, owner(), sink.Pos{})
	other := owner()
	other.Incarnation = "0badcafe0badcafe"
	_, _, err := s.OpenOutbox(context.Background(), other, sink.Pos{})
	if !errors.Is(err, sink.ErrForeignMark) {
		t.Fatalf("got %v, want ErrForeignMark", err)
	}
	_, remedy, ok := strings.Cut(err.Error(), "with ")
	remedy, _, _ = strings.Cut(remedy, ", else")
	if !ok || !strings.HasPrefix(remedy, "DELETE FROM") {
		t.Fatalf("no remedy in %v", err)
	}
	if _, err := db.Exec(remedy); err != nil {
		t.Fatalf("the remedy %q: %v", remedy, err)
	}
	mustOpen(t, s, other, sink.Pos{})
}
