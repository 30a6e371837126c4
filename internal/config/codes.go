package config

// The codes of what can be wrong with a pipeline file.
const (
	codeRead       = "config_read"
	codeSyntax     = "config_syntax"
	codeTab        = "config_tab"
	codeEncoding   = "config_encoding"
	codeShape      = "config_shape"
	codeDuplicate  = "config_duplicate"
	codeUnknown    = "config_unknown"
	codeType       = "config_type"
	codeEmpty      = "config_empty"
	codeRequired   = "config_required"
	codeEnum       = "config_enum"
	codeRange      = "config_range"
	codeUnit       = "config_unit"
	codeName       = "config_name"
	codeVariable   = "config_variable"
	codeFile       = "config_file"
	codeSink       = "config_sink"
	codeStep       = "config_step"
	codeExpression = "config_expression"
	codeLoop       = "config_loop"
	codeStart      = "config_start"
	codeEpoch      = "config_epoch"
	codeKafka      = "config_kafka"
	codeSecret     = "config_secret"
	codePlaintext  = "config_plaintext"
	codeInsecure   = "config_insecure"
	codeListen     = "config_listen"
	codeCluster    = "config_cluster"
	codeMemory     = "config_memory"
	codeSettings   = "config_settings"
)

// CodeDoc is the longer text to a code, as `exactly explain CODE` prints it.
type CodeDoc struct {
	Code  string
	Title string
	Text  string // paragraphs of plain text
}

// Codes lists every code that errors and warnings of this package carry.
func Codes() []CodeDoc {
	return []CodeDoc{
		{codeRead, "The pipeline file cannot be read", "The path does not exist, is a directory, or this user may not read it. Nothing was started."},
		{codeSyntax, "The file is not YAML", "The file cannot be read as YAML at the place named. Common causes: a value that holds a colon and a space and is not quoted; a bracket or quote that is never closed; settings of one level that begin in different columns; YAML tags (!!str), which are not used here."},
		{codeTab, "A tab indents the file", "YAML allows spaces only for indentation. Use two spaces per level; most editors can convert tabs."},
		{codeEncoding, "The file is not UTF-8 text", "A pipeline file is UTF-8 text, with or without a byte order mark, with Unix or Windows line ends."},
		{codeShape, "The file is not one mapping", "A pipeline file is exactly one YAML document that is a mapping of settings: one pipeline per file. `exactly init` writes a file to begin with."},
		{codeDuplicate, "A setting is given twice", "YAML leaves it open which of two equal names wins, so both are refused. Keep the one that you mean. The same holds for two sinks of one name."},
		{codeUnknown, "There is no such setting", "Unknown settings are refused at every level, since a misspelt one would silently leave a default in place. The message suggests the nearest right name and lists what there is. Settings of your own, for YAML anchors, may stand at the top level under names that begin with x-."},
		{codeType, "A value has the wrong type", "The setting takes another type than what the file, or the environment variable in it, gives. Whole numbers are digits only; true and false are the only truth values; numbers in quotes are text."},
		{codeEmpty, "A setting has no value", "A name with nothing behind it is refused, since it may be forgotten or indented wrongly. Remove the line to take the default."},
		{codeRequired, "A required setting is missing", "There is no safe default for it. `exactly schema --docs` prints all settings."},
		{codeEnum, "The value is none of those allowed", "The setting takes one of a few words; the message lists them."},
		{codeRange, "The value is out of range", "The message names the smallest and the largest value."},
		{codeUnit, "A time span or size cannot be read", "Time spans are numbers with units ns, us, ms, s, m, h, d or w, also combined: 100ms, 1h30m, 7d. Sizes are numbers with units KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024), or plain bytes. A time span without a unit is refused, 0 excepted, since programs differ in what they take it for."},
		{codeName, "A name is not allowed", "Names of pipelines, sinks and topics become parts of names in Kafka, in sinks and in files, so their characters and length are limited. The message says how."},
		{codeVariable, "A variable cannot be replaced", "${NAME} stands for the environment variable NAME, which must be set; ${NAME:-default} takes the default where it is not set or empty; ${file:/path} is the text of a file without the line end. $${ is a literal ${. Replacement happens inside single values after the file is read as YAML, so a variable cannot add settings."},
		{codeFile, "A file that the pipeline file includes cannot be read", "${file:/path} is read once, when the pipeline file is. For credentials that change, use the setting that ends in _file: those files are read again."},
		{codeSink, "A sink does not have exactly one kind", "Each entry under sinks has a name of your choice and below it exactly one kind (kafka, postgres, …) with its settings, and optionally where. To write to two systems, give two sinks."},
		{codeStep, "A step cannot work", "Each entry under steps does one thing: where, drop, set, unset or flat_map. Steps run in the order of the file; within one set all expressions see the record as it came in. Records of format raw have no fields to set."},
		{codeExpression, "An expression cannot work", "Expressions are CEL. They see the fields of the record, key, headers, source (topic, partition, offset, timestamp) and epoch (number, attempt, time). They are compiled when the file is read, and type-checked as far as source.fields declares types. The message points to the place inside the expression."},
		{codeLoop, "A pipeline would read what it writes", "An output or the dead letters go to a topic that the pipeline reads (or both to the same topic). Every record would make another one, for ever."},
		{codeStart, "The start position cannot be read", "source.start is earliest, latest, a time as in 2026-01-31T00:00:00Z (RFC 3339), or group:NAME, which takes over the committed offsets of a consumer group. It counts only where the pipeline has no journal yet."},
		{codeEpoch, "The times of an epoch do not fit together", "The time-out of the Kafka transaction is 2 x (epoch.interval + epoch.min_pause) + epoch.timeout, at least 10s: two epochs are open at once, and the second waits for the first. Brokers refuse more than transaction.max.timeout.ms, 15 minutes unless changed. epoch.timeout must be longer than epoch.interval."},
		{codeKafka, "The connection to Kafka is not described right", "A setting below kafka contradicts another or lacks one: TLS needs certificate and key together; PLAIN and SCRAM need a user and one of password and password_file; OAUTHBEARER needs one of token, token_file and oauth; the heartbeat must fit into the session time-out."},
		{codeSecret, "A secret is given in two ways", "A secret is a value or a file (the setting that ends in _file), not both: it would be unclear which one holds after a change."},
		{codePlaintext, "Warning: a secret stands in the file", "Pipeline files are kept in version control and sent around. Take the secret from the environment with ${NAME}, or from a file, which is read again when it changes."},
		{codeInsecure, "Warning: credentials or data are not protected", "Certificates are not checked, or credentials travel without encryption. Anybody on the way can read or change what is sent."},
		{codeListen, "The address for health and metrics cannot be used", "http.listen is host:port. Beyond this machine (anything but 127.0.0.1, ::1 and localhost) a token is needed, since metrics name topics and sinks. An empty value switches the endpoint off."},
		{codeCluster, "Source and sink are on different clusters", "Source offsets and output records are decided by one Kafka transaction, and a transaction cannot span clusters. For now a Kafka sink writes to the cluster of the source. Mirror the source topic to the other cluster and run the pipeline there."},
		{codeMemory, "The byte budgets do not fit together", "An epoch may take epoch.max_bytes, and must fit into memory.epoch."},
		{codeSettings, "The settings of a sink do not fit together", "The sink refuses its settings; the message is its own."},
	}
}

// Explain gives the text to a code; ok is false if there is none.
func Explain(code string) (doc CodeDoc, ok bool) {
	for _, d := range Codes() {
		if d.Code == code {
			return d, true
		}
	}
	return CodeDoc{}, false
}
