package postgres

import (
	"slices"
	"time"
)

// Config says which table records go to, and how.
type Config struct {
	DSN              string            `yaml:"dsn" required:"true" secret:"true" doc:"Where the database is: a postgres:// URL or keyword=value pairs, as libpq takes them, TLS by sslmode and sslrootcert, a client certificate by sslcert and sslkey; these files are read at each connection. Several hosts are tried in order; target_session_attrs=read-write finds the primary." example:"${PG_DSN}"`
	PasswordFile     string            `yaml:"password_file" doc:"File with the password, read at each connection."`
	Table            string            `yaml:"table" doc:"The table that gets the records, with its schema if that is not the first of the search path. Required, but for statement and tables." example:"public.payment_records"`
	Mode             string            `yaml:"mode" default:"upsert" enum:"upsert|append|statement|two_phase|replace" doc:"One row per key, one row per record, a statement of yours for each record, or any of these (key, no key, statement) in transactions that are prepared before the decision, so that rows do not pass through the outbox; or, for rollups, all rows of a key made anew by a query over what other sinks have written."`
	Key              []string          `yaml:"key" doc:"The columns that identify a row; they need a UNIQUE or PRIMARY KEY constraint of exactly these columns. Required for upsert; with two_phase it makes the difference between upsert and append. With replace, the columns that all rows of a part share, such as the day." example:"payment_id"`
	Columns          map[string]string `yaml:"columns" expr:"any" doc:"What each column gets, as expressions. Without it every top-level field of the record goes to the column of its name. With replace, what the key's columns get: the part of the table that the record changes."`
	Tables           []Table           `yaml:"tables" doc:"Several tables that get rows of each record, in one transaction: all rows of a record, or none. Instead of table and what belongs to it; a table with a key is written as by upsert, one without as by append."`
	UnknownFields    string            `yaml:"unknown_fields" default:"ignore" enum:"ignore|reject" doc:"What becomes of a record with fields that are no columns: they are left out, or the record is a dead letter. Only without columns."`
	Create           bool              `yaml:"create" default:"false" doc:"Create the table, from schema, where it does not exist."`
	Schema           map[string]string `yaml:"schema" doc:"The columns of the table that create makes, each with its SQL type and constraints." example:"payment_id: uuid NOT NULL"`
	Version          string            `yaml:"version" expr:"any" doc:"An expression that orders the records of a key: a lower one never overwrites a higher one. Without it the order is that of the source. Only for upsert." example:"updated_at"`
	Audit            Audit             `yaml:"audit" doc:"Columns that the sink fills by itself. Each is named here or not written."`
	Statement        string            `yaml:"statement" doc:"What mode statement executes once for each record, with parameters $1, $2, …." example:"UPDATE balance SET cents = cents + $1 WHERE account = $2"`
	Args             []string          `yaml:"args" expr:"any" doc:"The parameters of statement, as expressions." example:"amount_cents"`
	Query            string            `yaml:"query" doc:"What mode replace fills the table with: a query whose result has the columns of the table. It reads the keys that have changed from affected, which has the columns of key." example:"SELECT day, sum(cents) AS cents FROM payments JOIN affected USING (day) GROUP BY day"`
	From             []string          `yaml:"from" doc:"The sinks that fill what query reads. The query runs once they have written the same records." example:"[records]"`
	LedgerTable      string            `yaml:"ledger_table" default:"exactly_ledger" doc:"The table in which the sink keeps how far each task has come, in the schema of table unless it names one; refused records are kept in <ledger_table>_verdicts."`
	AllowReplay      bool              `yaml:"allow_replay" default:"false" doc:"Take a further generation also where a table of mode upsert has neither version nor exactly_order, so that a replay may overwrite newer rows by older ones."`
	StatementTimeout time.Duration     `yaml:"statement_timeout" default:"30s" min:"100ms" doc:"How long one statement may take before the attempt counts as failed and is repeated. A session that is left in a transaction for as long is ended by the server, so that a frozen worker cannot hold locks for ever."`
	ConnectTimeout   time.Duration     `yaml:"connect_timeout" default:"5s" min:"10ms" doc:"How long to wait for a connection; with several hosts in dsn, for each."`
}

// Table is one of several tables that a record goes to.
type Table struct {
	Table         string            `yaml:"table" required:"true" doc:"The table, with its schema if that is not the first of the search path." example:"order_lines"`
	Each          string            `yaml:"each" expr:"list" doc:"A list in the record: the table gets a row for each element, which expressions know as each.item, and its place, from 0, as each.index." example:"lines"`
	Parent        []string          `yaml:"parent" doc:"With each: the columns that the Kafka key names, so that a delete removes all rows of the record. Without it the sink takes no deletes." example:"order_id"`
	Key           []string          `yaml:"key" doc:"The columns that identify a row, as key of the sink. Without it each row is a new one." example:"[order_id, line]"`
	Columns       map[string]string `yaml:"columns" expr:"any" doc:"What each column gets, as expressions. Without it the fields of the record, or of the element, go to the columns of their names."`
	UnknownFields string            `yaml:"unknown_fields" default:"ignore" enum:"ignore|reject" doc:"As unknown_fields of the sink."`
	Schema        map[string]string `yaml:"schema" doc:"The columns of the table that create makes, as schema of the sink."`
	Version       string            `yaml:"version" expr:"any" doc:"As version of the sink."`
	Audit         Audit             `yaml:"audit" doc:"As audit of the sink."`
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
	modeReplace   = "replace"
)

// Rows is how rows are written: upsert, append, statement or replace, also for
// two_phase. With several tables it is upsert, and each has its own way.
func (c Config) Rows() string {
	switch {
	case c.Mode == "" || len(c.Tables) > 0 && c.Mode == modeTwoPhase:
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
	c.Tables = slices.Clone(c.Tables)
	for i := range c.Tables {
		if c.Tables[i].UnknownFields == "" {
			c.Tables[i].UnknownFields = "ignore"
		}
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

// specs are the tables that records go to: those of tables, or the one that the
// settings of the sink describe; none in mode statement.
func (c Config) specs() []Table {
	switch {
	case len(c.Tables) > 0:
		return c.Tables
	case c.Mode == modeStatement:
		return nil
	}
	return []Table{{
		Table: c.Table, Key: c.Key, Columns: c.Columns, UnknownFields: c.UnknownFields, Schema: c.Schema, Version: c.Version, Audit: c.Audit,
	}}
}

// Makes are the tables that create makes, as they are named; none without it.
func (c Config) Makes() (names []string) {
	if c.Create {
		for _, t := range c.specs() {
			names = append(names, t.Table)
		}
	}
	return names
}

// rows is how the rows of one table are written.
func (c Config) rows(t Table) string {
	switch {
	case len(c.Tables) == 0:
		return c.Mode
	case len(t.Key) > 0:
		return modeUpsert
	}
	return modeAppend
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
