package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"exactly/internal/tables"
)

// Config says which table records go to, and how.
type Config struct {
	DSN              string            `yaml:"dsn" required:"true" secret:"true" doc:"Where the database is: a postgres:// URL or keyword=value pairs, as libpq takes them, TLS by sslmode and sslrootcert. Several hosts are tried in order; target_session_attrs=read-write finds the primary." example:"${PG_DSN}"`
	PasswordFile     string            `yaml:"password_file" doc:"File with the password, read at each connection."`
	Table            string            `yaml:"table" doc:"The table that gets the records, with its schema if that is not the first of the search path. Required, but for statement." example:"public.payment_records"`
	Mode             string            `yaml:"mode" default:"upsert" enum:"upsert|append|statement|two_phase" doc:"One row per key, one row per record, a statement of yours for each record, or any of these (key, no key, statement) in transactions that are prepared before the decision, so that rows do not pass through the outbox."`
	Key              []string          `yaml:"key" doc:"The columns that identify a row; they need a UNIQUE or PRIMARY KEY constraint of exactly these columns. Required for upsert; with two_phase it makes the difference between upsert and append." example:"payment_id"`
	Columns          map[string]string `yaml:"columns" expr:"any" doc:"What each column gets, as expressions. Without it every top-level field of the record goes to the column of its name."`
	UnknownFields    string            `yaml:"unknown_fields" default:"ignore" enum:"ignore|reject" doc:"What becomes of a record with fields that are no columns: they are left out, or the record is a dead letter. Only without columns."`
	Create           bool              `yaml:"create" default:"false" doc:"Create the table, from schema, where it does not exist."`
	Schema           map[string]string `yaml:"schema" doc:"The columns of the table that create makes, each with its SQL type and constraints." example:"payment_id: uuid NOT NULL"`
	Version          string            `yaml:"version" expr:"any" doc:"An expression that orders the records of a key: a lower one never overwrites a higher one. Without it the order is that of the source. Only for upsert." example:"updated_at"`
	Audit            Audit             `yaml:"audit" doc:"Columns that the sink fills by itself. Each is named here or not written."`
	Statement        string            `yaml:"statement" doc:"What mode statement executes once for each record, with parameters $1, $2, …." example:"UPDATE balance SET cents = cents + $1 WHERE account = $2"`
	Args             []string          `yaml:"args" expr:"any" doc:"The parameters of statement, as expressions." example:"amount_cents"`
	LedgerTable      string            `yaml:"ledger_table" default:"exactly_ledger" doc:"The table in which the sink keeps how far each task has come, in the schema of table unless it names one; refused records are kept in <ledger_table>_verdicts."`
	AllowReplay      bool              `yaml:"allow_replay" default:"false" doc:"Take a further generation also where a table of mode upsert has neither version nor exactly_order, so that a replay may overwrite newer rows by older ones."`
	StatementTimeout time.Duration     `yaml:"statement_timeout" default:"30s" min:"100ms" doc:"How long one statement may take before the attempt counts as failed and is repeated. A session that is left in a transaction for as long is ended by the server, so that a frozen worker cannot hold locks for ever."`
	ConnectTimeout   time.Duration     `yaml:"connect_timeout" default:"5s" min:"10ms" doc:"How long to wait for a connection."`
}

// Audit names columns that the sink fills.
type Audit struct {
	RunID       string `yaml:"run_id" doc:"uuid or text: one UUID for each pipeline, generation, task and attempt." example:"pipeline_run_id"`
	Epoch       string `yaml:"epoch" doc:"bigint: the epoch that decided the record." example:"checkpoint_id"`
	Topic       string `yaml:"topic" doc:"text: the source topic." example:"source_topic"`
	Partition   string `yaml:"partition" doc:"integer: the source partition." example:"source_partition"`
	Offset      string `yaml:"offset" doc:"bigint: the source offset." example:"source_offset"`
	ProcessedAt string `yaml:"processed_at" doc:"timestamptz: when the row was first written." example:"loaded_at"`
	UpdatedAt   string `yaml:"updated_at" doc:"timestamptz: when the row was last changed." example:"updated_at"`
	InsertCount string `yaml:"insert_count" doc:"integer: how often the row was written, 1 when it is inserted, one more with each further record of its key. Only for upsert." example:"insert_count"`
}

// The modes.
const (
	modeUpsert    = "upsert"
	modeAppend    = "append"
	modeStatement = "statement"
	modeTwoPhase  = "two_phase"
)

// Rows is how rows are written: upsert, append or statement, also for two_phase.
func (c Config) Rows() string {
	switch {
	case c.Mode == "":
		return modeUpsert
	case c.Mode != modeTwoPhase:
		return c.Mode
	case c.Statement != "":
		return modeStatement
	case len(c.Key) > 0:
		return modeUpsert
	}
	return modeAppend
}

// withDefaults fills in what the zero value leaves open.
func (c Config) withDefaults() Config {
	c.Mode = c.Rows()
	if c.UnknownFields == "" {
		c.UnknownFields = "ignore"
	}
	if c.LedgerTable == "" {
		c.LedgerTable = "exactly_ledger"
	}
	if c.StatementTimeout == 0 {
		c.StatementTimeout = 30 * time.Second
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	return c
}

// validate finds what can be found without the database.
func (c Config) validate() error {
	switch {
	case c.DSN == "":
		return errors.New("dsn is missing: say where the database is, as postgres://user@host/database")
	case c.StatementTimeout < 0 || c.ConnectTimeout < 0:
		return errors.New("statement_timeout and connect_timeout must not be negative")
	case strings.ContainsRune(c.Table+c.LedgerTable+c.Statement, 0):
		return errors.New("table, ledger_table and statement must not hold a NUL")
	case c.Mode == modeStatement:
		return c.validateStatement()
	case c.Mode != modeUpsert && c.Mode != modeAppend:
		return fmt.Errorf("mode is %q, want upsert, append, statement or two_phase", c.Mode)
	case c.Table == "":
		return errors.New("table is missing: name the table that gets the records")
	case c.Statement != "" || len(c.Args) > 0:
		return errors.New("statement and args have no meaning without mode: statement")
	}
	if err := tables.CheckFields(c.UnknownFields, c.Columns); err != nil {
		return err
	}
	for _, name := range []string{c.Table, c.LedgerTable} {
		if _, err := parseName(name); err != nil {
			return err
		}
	}
	if c.Mode == modeAppend {
		if c.Audit.InsertCount != "" || c.Version != "" {
			return errors.New("audit.insert_count and version have no meaning in mode append, which never writes a row twice")
		}
		return c.validateColumns()
	}
	return c.validateUpsert()
}

func (c Config) validateStatement() error {
	switch {
	case strings.TrimSpace(c.Statement) == "":
		return errors.New("statement is missing: mode statement needs what to execute for each record")
	case c.Table != "" || len(c.Key) > 0 || len(c.Columns) > 0 || c.Create || len(c.Schema) > 0 || c.Version != "" || c.Audit != (Audit{}):
		return errors.New("table, key, columns, create, schema, version and audit have no meaning in mode statement: the statement says it all")
	}
	_, err := parseName(c.LedgerTable)
	return err
}

func (c Config) validateUpsert() error {
	if err := tables.CheckKey(c.Key, c.Columns); err != nil {
		return err
	}
	return c.validateColumns()
}

func (c Config) validateColumns() error {
	seen := map[string]string{}
	for _, o := range c.Audit.named() {
		if other := seen[o.column]; other != "" {
			return fmt.Errorf("audit.%s and audit.%s both name the column %q", other, o.setting, o.column)
		}
		seen[o.column] = o.setting
		if _, ok := c.Columns[o.column]; ok || slices.Contains(c.Key, o.column) {
			return fmt.Errorf("audit.%s names the column %q, which key or columns fill already", o.setting, o.column)
		}
	}
	if err := tables.CheckCreate(c.Create, c.Schema); err != nil || !c.Create {
		return err
	}
	need := slices.Clone(c.Key)
	for col := range c.Columns {
		need = append(need, col)
	}
	slices.Sort(need)
	for _, col := range need {
		if _, ok := c.Schema[col]; !ok {
			return fmt.Errorf("schema lacks the column %q, which key or columns name", col)
		}
	}
	return nil
}

// ownColumn is one that the sink fills.
type ownColumn struct {
	setting, column string
	define          string // for create
}

// named lists the audit columns that are asked for.
func (a Audit) named() []ownColumn {
	all := []ownColumn{
		{"run_id", a.RunID, "uuid"},
		{"epoch", a.Epoch, "bigint"},
		{"topic", a.Topic, "text"},
		{"partition", a.Partition, "integer"},
		{"offset", a.Offset, "bigint"},
		{"processed_at", a.ProcessedAt, "timestamptz"},
		{"updated_at", a.UpdatedAt, "timestamptz"},
		{"insert_count", a.InsertCount, "integer NOT NULL DEFAULT 1"},
	}
	return slices.DeleteFunc(all, func(o ownColumn) bool { return o.column == "" })
}
