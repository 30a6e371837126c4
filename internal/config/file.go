package config

import (
	"time"

	"exactly/sink"
	"exactly/step"
)

// File is a whole pipeline file with every default filled in. What a setting
// means stands in its doc tag, as everywhere in this package; zero values are
// explained there.
type File struct {
	Pipeline    string         `yaml:"pipeline" required:"true" pattern:"[a-z0-9][a-z0-9-]{0,62}" example:"payments" doc:"Name of the pipeline: lower-case letters, digits and -, at most 63. It is part of every topic, transactional id and mark; renaming makes a new pipeline."`
	Guarantee   sink.Guarantee `yaml:"guarantee" default:"exactly_once" enum:"exactly_once|at_least_once" why:"the safe one" doc:"What every sink is promised. at_least_once switches the protocol off and is meant as a control."`
	Kafka       Kafka          `yaml:"kafka" doc:"The cluster that holds the source, the outputs and the pipeline's own topics."`
	Source      Source         `yaml:"source" doc:"What is read."`
	Tasks       int            `yaml:"tasks" default:"0" min:"0" max:"1024" why:"one for each source partition, at most 4, and fewer where epochs are short: the brokers pay for tasks divided by epoch.interval" doc:"Units of parallelism; task s of S owns the partitions p with p mod S = s. 0: the number of partitions, at most 4 and at most one per 25 ms of epoch.interval. Fixed within a generation."`
	Epoch       Epoch          `yaml:"epoch" doc:"When an epoch (a checkpoint, a commit interval) ends."`
	Restart     Restart        `yaml:"restart" doc:"What happens when a task fails."`
	Steps       []Step         `yaml:"steps" one_of:"true" doc:"What is done to each record, in order. Each entry has exactly one of the settings below."`
	Sinks       []Sink         `yaml:"sinks" required:"true" example:"{ out: { kafka: { topic: payments.enriched } } }" doc:"Where records go, by a name of your choice. Each has exactly one kind and optionally where."`
	DeadLetters DeadLetters    `yaml:"dead_letters" doc:"Where records go that can never be processed."`
	Outbox      Outbox         `yaml:"outbox" doc:"Limits of what waits for slow sinks."`
	Memory      Memory         `yaml:"memory" doc:"Byte budgets of a worker."`
	Worker      Worker         `yaml:"worker" doc:"The worker process itself."`
	HTTP        HTTP           `yaml:"http" doc:"Health and metrics endpoint."`
	Audit       Audit          `yaml:"audit" doc:"How exactly audit tells records apart."`

	// Name is the file's name as it was given.
	Name string `yaml:"-"`
	// Warnings are things that work and are probably not meant.
	Warnings []*Error `yaml:"-"`

	origins map[string]origin
	derived []Value
	kinds   map[string]*block
	tree    tree
	program *step.Program
}

// Kafka says how to reach the cluster and how things are named there.
type Kafka struct {
	Brokers           []string      `yaml:"brokers" required:"true" example:"[\"localhost:9092\"]" doc:"Addresses host:port to begin with."`
	Prefix            string        `yaml:"prefix" default:"exactly" pattern:"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}" why:"one ACL rule covers everything" doc:"First part of every name that the pipeline owns in Kafka: topics, transactional ids, the group."`
	Replication       int           `yaml:"replication" default:"0" min:"0" max:"32" why:"3 where there are 3 brokers, else their number" doc:"Replication factor of the pipeline's own topics. 0: 3 where there are 3 brokers, else the number of brokers."`
	CreateTopics      bool          `yaml:"create_topics" default:"true" why:"most clusters allow it; exactly validate prints what to create where they do not" doc:"Create the pipeline's own topics where they are missing. Source and output topics are never created."`
	TLS               TLS           `yaml:"tls" doc:"Encryption, and the client's certificate."`
	SASL              SASL          `yaml:"sasl" doc:"Authentication by name and password, or by token."`
	SessionTimeout    time.Duration `yaml:"session_timeout" default:"6s" min:"100ms" max:"30m" why:"the least that brokers allow unless told otherwise" doc:"How long a silent worker keeps its tasks."`
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval" default:"0s" why:"a thirtieth of session_timeout, at most 1s" doc:"How often a worker tells that it lives. 0: a thirtieth of session_timeout, at most 1s."`
}

// TLS is the encryption of connections to brokers. Files are re-read when they
// change.
type TLS struct {
	Enabled            bool   `yaml:"enabled" default:"false" why:"as Kafka itself" doc:"Connect by TLS."`
	CAFile             string `yaml:"ca_file" example:"/etc/exactly/ca.pem" doc:"PEM file with the authorities that sign the brokers' certificates. Empty: the system's."`
	CertFile           string `yaml:"cert_file" doc:"PEM file with the client's certificate (mutual TLS)."`
	KeyFile            string `yaml:"key_file" doc:"PEM file with the key of cert_file."`
	ServerName         string `yaml:"server_name" doc:"Name expected in the brokers' certificates. Empty: the name in the address."`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" default:"false" why:"the safe one" doc:"Accept any certificate: for trials only."`
}

// SASL is the authentication at brokers. Files are re-read when they change.
type SASL struct {
	Mechanism    string `yaml:"mechanism" enum:"PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER" doc:"Empty: no authentication."`
	Username     string `yaml:"username" doc:"For PLAIN and SCRAM."`
	Password     string `yaml:"password" secret:"true" example:"${KAFKA_PASSWORD}" doc:"For PLAIN and SCRAM. Take it from the environment, or use password_file."`
	PasswordFile string `yaml:"password_file" example:"/run/secrets/kafka" doc:"File that holds the password; re-read when it changes."`
	Token        string `yaml:"token" secret:"true" doc:"For OAUTHBEARER: a fixed token."`
	TokenFile    string `yaml:"token_file" doc:"For OAUTHBEARER: file that holds the token; re-read when it changes."`
	OAuth        *OAuth `yaml:"oauth" doc:"For OAUTHBEARER: fetch tokens by the client credentials grant (RFC 6749, section 4.4)."`
}

// Enabled reports whether brokers ask for authentication.
func (s SASL) Enabled() bool { return s.Mechanism != "" }

// OAuth fetches tokens from an authorisation server.
type OAuth struct {
	TokenURL         string `yaml:"token_url" required:"true" example:"https://login.example.com/oauth2/token" doc:"Token endpoint."`
	ClientID         string `yaml:"client_id" required:"true" example:"exactly" doc:"Client id."`
	ClientSecret     string `yaml:"client_secret" secret:"true" doc:"Client secret. Take it from the environment, or use client_secret_file."`
	ClientSecretFile string `yaml:"client_secret_file" doc:"File that holds the client secret; re-read when it changes."`
	Scope            string `yaml:"scope" doc:"Scope to ask for."`
}

// Source is what is read, and from where on.
type Source struct {
	Topics []string          `yaml:"topics" required:"true" example:"[payments.raw]" doc:"Topics to read, all partitions of each."`
	Format string            `yaml:"format" default:"json" enum:"json|raw" why:"the most common" doc:"json: values are JSON objects. raw: values pass through unread; expressions see key, headers, source and epoch only."`
	Start  string            `yaml:"start" default:"earliest" example:"2026-01-31T00:00:00Z" why:"nothing is left out" doc:"Where a new pipeline begins: earliest, latest, a time (RFC 3339), or group:NAME to take over the committed offsets of a consumer group (group:NAME,earliest: partitions without one begin at their start). Not looked at once the pipeline has a journal."`
	Fields map[string]string `yaml:"fields" enum:"int|uint|decimal|string|bool|bytes|time|any|list|map" example:"{ amount_cents: int, merchant_id: string }" doc:"Types of the fields of a JSON value. With it, expressions are type-checked at the start and undeclared fields are errors."`
}

// Epoch bounds an epoch.
type Epoch struct {
	Interval   time.Duration `yaml:"interval" default:"100ms" min:"1ms" max:"10m" why:"no throughput is lost at 100ms against at_least_once; smaller gives lower latency and costs the brokers more" doc:"An epoch ends this long after it began."`
	MinPause   time.Duration `yaml:"min_pause" default:"0s" max:"10m" why:"epochs follow each other at once" doc:"Least time between the end of one decision and the next barrier."`
	Timeout    time.Duration `yaml:"timeout" default:"120s" min:"1s" max:"15m" why:"room for a sink that prepares slowly" doc:"An epoch that is not decided this long after its barrier fails the task. The time-out of the Kafka transaction follows from it."`
	MaxRecords int           `yaml:"max_records" default:"20000" min:"1" max:"10000000" why:"bounds what is replayed after a crash" doc:"An epoch ends with this many source records."`
	MaxBytes   int64         `yaml:"max_bytes" default:"8MiB" unit:"bytes" min:"1KiB" max:"1GiB" why:"half of memory.epoch, since two epochs are open at once" doc:"An epoch ends with this many bytes of records, read and written, with what they cost in memory."`
}

// Restart is the policy for a task that fails.
type Restart struct {
	Max        int           `yaml:"max" default:"5" min:"0" max:"1000000" why:"a fault that outlives five tries needs a person" doc:"So many restarts in a row; then the process stops with exit code 1."`
	Delay      time.Duration `yaml:"delay" default:"1s" min:"1ms" max:"1h" why:"most faults are short" doc:"Pause before the first restart; doubled for each that follows."`
	MaxDelay   time.Duration `yaml:"max_delay" default:"30s" min:"1ms" max:"1h" why:"bounds the doubling" doc:"Longest pause."`
	ResetAfter time.Duration `yaml:"reset_after" default:"10m" min:"1s" max:"30d" why:"a new fault gets all its tries" doc:"A task that ran this long without failing has all its restarts again."`
}

// Step is one entry of steps: exactly one of its settings is given.
type Step struct {
	Where   string   `yaml:"where" expr:"bool" example:"amount_cents > 0" doc:"Keeps the records for which it is true."`
	Drop    string   `yaml:"drop" expr:"bool" example:"status == \"test\"" doc:"Drops the records for which it is true."`
	Set     []Assign `yaml:"set" expr:"any" example:"{ fee_cents: amount_cents * 29 / 1000 + 30 }" doc:"Sets fields, each by an expression over the record as it came into the step."`
	Unset   []string `yaml:"unset" example:"[internal_note]" doc:"Removes fields."`
	FlatMap string   `yaml:"flat_map" expr:"list" example:"items" doc:"Each element (a map) of the list becomes a record of its own; the outer record is not kept."`
}

// Assign sets one field by an expression.
type Assign struct{ Field, Expr string }

// Sink is one entry of sinks.
type Sink struct {
	Name  string // given by the user
	Kind  string // e.g. "kafka"
	Where string // condition on the decided record; "": all records
	// Settings points to a filled Config struct of the kind, of the type that
	// the table of kinds holds.
	Settings any
	// Line and Column are where the file names the sink.
	Line, Column int
}

// DeadLetters is the topic of records that can never be processed.
type DeadLetters struct {
	Topic    string `yaml:"topic" example:"payments.dlq" why:"<pipeline>.dlq" doc:"Topic for them. Default: <pipeline>.dlq."`
	Oversize string `yaml:"oversize" default:"pieces" enum:"pieces|pointer" why:"nothing is lost when the source's retention ends" doc:"A dead letter larger than the topic takes: its bytes in pieces, or only a pointer to its place in the source."`
}

// Outbox limits what waits in the outbox for slow sinks.
type Outbox struct {
	MaxBytes int64         `yaml:"max_bytes" default:"0" unit:"bytes" why:"Kafka's disk is the limit" doc:"Bytes per task. 0: no limit."`
	MaxAge   time.Duration `yaml:"max_age" default:"0s" why:"a sink may lag as long as it must" doc:"Age of the oldest record that a sink has not taken. 0: no limit."`
	Policy   string        `yaml:"policy" default:"pause" enum:"pause|stop" why:"nothing is lost, and it goes on by itself" doc:"At a limit: pause reading the source, or stop the task."`
}

// Memory is the budgets of a worker in bytes.
type Memory struct {
	Fetch    int64 `yaml:"fetch" default:"8MiB" unit:"bytes" min:"64KiB" max:"16GiB" why:"seconds of reading ahead" doc:"Fetched records that wait to be processed, per task."`
	Epoch    int64 `yaml:"epoch" default:"16MiB" unit:"bytes" min:"64KiB" max:"16GiB" why:"two epochs of epoch.max_bytes" doc:"Records of open epochs, per task."`
	Handover int64 `yaml:"handover" default:"8MiB" unit:"bytes" min:"64KiB" max:"16GiB" why:"beyond it sinks read the outbox again" doc:"Decided records that wait for sinks, per task."`
}

// Worker is about the process.
type Worker struct {
	Dir string `yaml:"dir" default:"./.exactly" why:"beside where it runs" doc:"Directory for the worker's own small files: its member id and locks."`
}

// HTTP is the endpoint for health and metrics.
type HTTP struct {
	Listen    string `yaml:"listen" default:"127.0.0.1:0" why:"reachable from this machine only, at a free port that the log names" doc:"Address host:port; port 0: any free one. Empty: off."`
	Token     string `yaml:"token" secret:"true" doc:"Bearer token that callers must show; needed beyond this machine."`
	TokenFile string `yaml:"token_file" doc:"File that holds the token; re-read when it changes."`
}

// Audit says how records are told apart.
type Audit struct {
	ID string `yaml:"id" expr:"any" example:"payment_id" doc:"Expression that identifies a record in every sink. Default: each sink's own key."`
}
