package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"exactly/internal/tables"
)

// longestName is what PostgreSQL keeps of a name, in bytes (NAMEDATALEN).
const longestName = 63

// validate finds what can be found without the database.
func (c Config) validate() error {
	switch {
	case c.DSN == "":
		return errors.New("dsn is missing: say where the database is, as postgres://user@host/database")
	case c.StatementTimeout < 0 || c.ConnectTimeout < 0:
		return errors.New("statement_timeout and connect_timeout must not be negative")
	case strings.ContainsRune(c.Table+c.LedgerTable+c.Statement+c.Query, 0):
		return errors.New("table, ledger_table, statement and query must not hold a NUL")
	}
	if name, err := parseName(c.LedgerTable); err != nil {
		return fmt.Errorf("ledger_table: %w", err)
	} else if most := longestName - len("_verdicts"); len(name.table) > most {
		return fmt.Errorf("ledger_table: the name has %d bytes, and tables beside it have it with _verdicts and _epochs behind, which the server would cut off: give it one of at most %d bytes", len(name.table), most)
	}
	if c.Mode != modeReplace && (c.Query != "" || len(c.From) > 0) {
		return errors.New("query and from have no meaning without mode: replace")
	}
	switch {
	case c.Mode == modeStatement:
		return c.validateStatement()
	case c.Mode != modeUpsert && c.Mode != modeAppend && c.Mode != modeReplace:
		return fmt.Errorf("mode is %q, want upsert, append, statement, two_phase or replace", c.Mode)
	case c.Statement != "" || len(c.Args) > 0:
		return errors.New("statement and args have no meaning without mode: statement")
	case len(c.Tables) > 0:
		return c.validateTables()
	case c.Table == "":
		return errors.New("table is missing: name the table that gets the records")
	case c.Mode == modeReplace:
		return c.validateReplace()
	}
	return c.validateTable(c.specs()[0])
}

// validateTables looks at several tables.
func (c Config) validateTables() error {
	if c.Table != "" || len(c.Key) > 0 || len(c.Columns) > 0 || len(c.Schema) > 0 || c.Version != "" || c.Audit != (Audit{}) || c.UnknownFields != "ignore" {
		return errors.New("table, key, columns, unknown_fields, schema, version and audit have no meaning beside tables: each table has its own")
	}
	if c.Mode != modeUpsert {
		return fmt.Errorf("mode: %s has no meaning beside tables: each table with a key is written as by upsert, one without as by append; leave mode out, or set two_phase", c.Mode)
	}
	seen := map[string]int{}
	for i, t := range c.Tables {
		if t.Table == "" {
			return fmt.Errorf("tables[%d]: table is missing: name the table that gets the rows", i)
		}
		if other, twice := seen[t.Table]; twice {
			return fmt.Errorf("tables[%d] and tables[%d] are both %s: rows of one record would have no order", other, i, t.Table)
		}
		seen[t.Table] = i
		err := c.validateTable(t)
		if err == nil {
			err = t.validateEach()
		}
		if err != nil {
			return fmt.Errorf("tables[%d]: %w", i, err)
		}
	}
	return nil
}

func (t Table) validateEach() error {
	switch {
	case strings.ContainsRune(t.Table, 0):
		return errors.New("table must not hold a NUL")
	case t.Each == "" && len(t.Parent) > 0:
		return errors.New("parent has no meaning without each: a delete removes the row that key names")
	case len(t.Parent) > 0 && len(t.Key) == 0:
		return errors.New("parent has no meaning without key: a table that is only appended to knows no deletes")
	}
	return nil
}

// validateTable looks at one table.
func (c Config) validateTable(t Table) error {
	if err := tables.CheckFields(t.UnknownFields, t.Columns); err != nil {
		return err
	}
	if _, err := parseName(t.Table); err != nil {
		return err
	}
	if c.rows(t) == modeUpsert {
		if err := tables.CheckKey(t.Key, t.Columns); err != nil {
			return err
		}
	} else if t.Audit.InsertCount != "" || t.Version != "" {
		return errors.New("audit.insert_count and version have no meaning in mode append, which never writes a row twice")
	}
	return c.validateColumns(t)
}

// firstWord is behind blanks, comments and brackets.
var firstWord = regexp.MustCompile(`(?s)^(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)`)

// verb is what a statement begins with.
func verb(sql string) string {
	if m := firstWord.FindStringSubmatch(sql); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

func (c Config) validateStatement() error {
	switch {
	case strings.TrimSpace(c.Statement) == "":
		return errors.New("statement is missing: mode statement needs what to execute for each record")
	case !slices.Contains([]string{"insert", "update", "delete", "merge", "select", "with", "call"}, verb(c.Statement)):
		return errors.New("statement must begin with INSERT, UPDATE, DELETE, MERGE, SELECT, WITH or CALL: it is executed within the sink's own transaction, which others would end, or which takes no others")
	case c.Table != "" || len(c.Tables) > 0 || len(c.Key) > 0 || len(c.Columns) > 0 || c.Create || len(c.Schema) > 0 || c.Version != "" || c.Audit != (Audit{}):
		return errors.New("table, tables, key, columns, create, schema, version and audit have no meaning in mode statement: the statement says it all")
	}
	return nil
}

// usesAffected finds the name of what a query reads its keys from.
var usesAffected = regexp.MustCompile(`(?i)\baffected\b`)

func (c Config) validateReplace() error {
	const why = "mode replace makes all rows of a key anew, and an epoch holds only part of the records of a day"
	switch {
	case strings.TrimSpace(c.Query) == "":
		return errors.New("query is missing: " + why + "; give the query that reads them from the table that another sink fills, and name that sink in from")
	case len(c.From) == 0:
		return errors.New("from is missing: name the sinks that fill what query reads, so that it runs once they have written the same records")
	case len(c.Key) == 0:
		return errors.New("key is missing: " + why + "; name the columns that say which rows belong together, such as the day")
	case !usesAffected.MatchString(c.Query):
		return errors.New("query does not use affected, and would read all there is for each epoch: join it with affected, which has the columns of key and a row for each key that has changed")
	case c.Version != "" || c.Audit.InsertCount != "" || c.Audit.ProcessedAt != "" || c.Audit.Topic != "" || c.Audit.Partition != "" || c.Audit.Offset != "":
		return errors.New("version and audit (but for run_id, epoch and updated_at) have no meaning in mode replace: its rows are not of single records")
	}
	for col := range c.Columns {
		if !slices.Contains(c.Key, col) {
			return fmt.Errorf("columns names %q, which is no column of key: in mode replace the other columns come from query", col)
		}
	}
	if err := tables.CheckKey(c.Key, c.Columns); err != nil {
		return err
	}
	if c.UnknownFields != "ignore" {
		return errors.New("unknown_fields has no meaning in mode replace, which takes the columns of key only")
	}
	if _, err := parseName(c.Table); err != nil {
		return err
	}
	return c.validateColumns(c.specs()[0])
}

func (c Config) validateColumns(t Table) error {
	seen := map[string]string{}
	for _, o := range t.Audit.named() {
		if other := seen[o.column]; other != "" {
			return fmt.Errorf("audit.%s and audit.%s both name the column %q", other, o.setting, o.column)
		}
		seen[o.column] = o.setting
		if _, ok := t.Columns[o.column]; ok || slices.Contains(t.Key, o.column) {
			return fmt.Errorf("audit.%s names the column %q, which key or columns fill already", o.setting, o.column)
		}
	}
	if err := tables.CheckCreate(c.Create, t.Schema); err != nil || !c.Create {
		return err
	}
	need := slices.Concat(t.Key, t.Parent)
	for col := range t.Columns {
		need = append(need, col)
	}
	slices.Sort(need)
	for _, col := range need {
		if _, ok := t.Schema[col]; !ok {
			return fmt.Errorf("schema lacks the column %q, which key, parent or columns name", col)
		}
	}
	return nil
}
