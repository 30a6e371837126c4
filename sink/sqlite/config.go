package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"exactly/internal/tables"
)

// Config says which table records go to, and how.
type Config struct {
	Path          string            `yaml:"path" required:"true" doc:"The database file." example:"./payments.db"`
	Table         string            `yaml:"table" required:"true" doc:"The table that gets the records." example:"payment_records"`
	Mode          string            `yaml:"mode" default:"upsert" enum:"upsert|append" doc:"One row per key, or one row per record."`
	Key           []string          `yaml:"key" doc:"The columns that identify a row; they need a UNIQUE or PRIMARY KEY constraint of exactly these columns. Required for upsert." example:"payment_id"`
	Columns       map[string]string `yaml:"columns" expr:"any" doc:"What each column gets, as expressions. Without it every top-level field of the record goes to the column of its name."`
	UnknownFields string            `yaml:"unknown_fields" default:"ignore" enum:"ignore|reject" doc:"What becomes of a record with fields that are no columns: they are left out, or the record is a dead letter. Only without columns."`
	Create        bool              `yaml:"create" default:"false" doc:"Create the file and the table, from schema, where they do not exist."`
	Schema        map[string]string `yaml:"schema" doc:"The columns of the table that create makes, each with its SQL type and constraints." example:"payment_id: TEXT NOT NULL"`
	InsertCount   bool              `yaml:"insert_count" default:"false" doc:"Count in the column insert_count how often each row was written: 1 when it is inserted, one more with each further record of its key. Only for upsert."`
	Version       string            `yaml:"version" expr:"any" doc:"An expression that orders the records of a key: a lower one never overwrites a higher one. Without it the order is that of the source. Only for upsert." example:"updated_at"`
	BusyTimeout   time.Duration     `yaml:"busy_timeout" default:"5s" doc:"How long to wait for another writer of the file before the attempt counts as failed and is repeated."`
	LedgerTable   string            `yaml:"ledger_table" default:"exactly_ledger" doc:"The table of the same file in which the sink keeps how far each task has come; refused records are kept in <ledger_table>_verdicts."`
}

// The modes.
const (
	modeUpsert = "upsert"
	modeAppend = "append"
)

// Columns of the sink's own. The first two are used where the table has them;
// create makes them.
const (
	columnCount = "insert_count"
)

// withDefaults fills in what the zero value leaves open.
func (c Config) withDefaults() Config {
	if c.Mode == "" {
		c.Mode = modeUpsert
	}
	if c.UnknownFields == "" {
		c.UnknownFields = "ignore"
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 5 * time.Second
	}
	if c.LedgerTable == "" {
		c.LedgerTable = "exactly_ledger"
	}
	return c
}

// validate finds what can be found without the database.
func (c Config) validate() error {
	switch {
	case c.Path == "":
		return errors.New("path is missing: name the database file")
	case c.Path == ":memory:" || strings.HasPrefix(c.Path, "file:"):
		return fmt.Errorf("path %q is not the name of a file: a database in memory is gone after a crash, and file: URIs are not taken", c.Path)
	case c.Table == "":
		return errors.New("table is missing: name the table that gets the records")
	case c.Mode != modeUpsert && c.Mode != modeAppend:
		return fmt.Errorf("mode is %q, want upsert or append", c.Mode)

	case c.BusyTimeout < 0:
		return fmt.Errorf("busy_timeout is %v, want 0 or more", c.BusyTimeout)
	case strings.EqualFold(c.Table, c.LedgerTable) || strings.EqualFold(c.Table, c.LedgerTable+"_verdicts"):
		return fmt.Errorf("table %q is the sink's own: choose another table or another ledger_table", c.Table)
	case strings.ContainsRune(c.Path+c.Table+c.LedgerTable, 0):
		return errors.New("path, table and ledger_table must not hold a NUL")
	}
	if err := tables.CheckFields(c.UnknownFields, c.Columns); err != nil {
		return err
	}
	if c.Mode == modeUpsert {
		return c.validateUpsert()
	}
	if c.InsertCount || c.Version != "" {
		return errors.New("insert_count and version have no meaning in mode append, which never writes a row twice")
	}
	return c.validateSchema()
}

func (c Config) validateUpsert() error {
	if err := tables.CheckKey(c.Key, c.Columns); err != nil {
		return err
	}
	return c.validateSchema()
}

func (c Config) validateSchema() error {
	if err := tables.CheckCreate(c.Create, c.Schema); err != nil || !c.Create {
		return err
	}
	for _, k := range c.Key {
		if _, ok := c.Schema[k]; !ok {
			return fmt.Errorf("schema lacks the key column %q", k)
		}
	}
	for col := range c.Columns {
		if _, ok := c.Schema[col]; !ok {
			return fmt.Errorf("schema lacks the column %q, which columns names", col)
		}
	}
	return nil
}
