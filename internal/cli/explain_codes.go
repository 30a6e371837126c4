package cli

import (
	"exactly/internal/broker"
	"exactly/internal/config"
	"exactly/step/cel"
)

// codes lists the explanations of every package whose errors carry codes.
func codes() []config.CodeDoc {
	out := config.Codes()
	out = append(out, kafkaCodes()...)
	return append(out, recordCodes()...)
}

func kafkaCodes() []config.CodeDoc {
	doc := func(code broker.Code, title, text string) config.CodeDoc {
		return config.CodeDoc{Code: string(code), Title: title, Text: text}
	}
	return []config.CodeDoc{
		doc(broker.CodeConfig, "A setting below kafka cannot work", "Settings contradict each other or one is missing; the message names it. `exactly validate FILE` points to the place in the file."),
		doc(broker.CodeName, "A name in Kafka is not allowed", "Topics, transactional ids and the group begin with kafka.prefix and the pipeline's name. Kafka allows letters, digits, dot, underscore and hyphen, 249 in all."),
		doc(broker.CodeTLS, "TLS failed", "The certificates could not be read, or the handshake failed: an authority that is not in kafka.tls.ca_file, a name that is not in the broker's certificate (kafka.tls.server_name), a client certificate that the broker does not know, or a port that does not speak TLS."),
		doc(broker.CodeAuth, "The login failed", "There are no credentials, or the broker refuses them. Check kafka.sasl: mechanism, user and secret. Files with secrets are read again for each connection."),
		doc(broker.CodeACL, "A right is missing", "The login worked, but the user may not do what the pipeline needs. `exactly validate FILE` lists every right, also as commands of kafka-acls."),
		doc(broker.CodeTopicMissing, "A topic does not exist", "Source and output topics are yours and never created, unless the sink says create: true. The pipeline's own are created where kafka.create_topics is true. `exactly validate FILE` lists them all, also as commands of kafka-topics."),
		doc(broker.CodeTopicSettings, "A topic's settings could lose data", "The pipeline's journal, outbox, state and meta topics must keep what was written until the program deletes it: a journal with a time limit would forget what was decided. The message names the setting and its value."),
		doc(broker.CodeTopicPartitions, "A topic has the wrong number of partitions", "Journal, outbox and state have one partition per task. The number of tasks is fixed within a generation; `exactly reset` begins a new one."),
		doc(broker.CodeTopicCreate, "The cluster refuses to create a topic", "Grant the right (see kafka_acl), or create the topics beforehand with the commands that `exactly validate FILE` prints, and set kafka.create_topics: false."),
		doc(broker.CodeTopicRecreated, "A source topic was deleted and made again", "Its offsets mean other records now, so going on could skip or repeat some. `exactly reset` begins a new generation at a start position of your choice."),
		doc(broker.CodeStart, "The start position cannot be resolved", "source.start names a group without committed offsets, or a position that the topics do not have. It counts only where the pipeline has no journal yet."),
		doc(broker.CodeMetaConflict, "Another pipeline of this name, or a changed one", "The cluster holds a pipeline of this name whose fixed settings differ (tasks, source topics). Give this one another name, or, if it is the same one changed, begin a new generation with `exactly reset`."),
		doc(broker.CodeMetaCluster, "The pipeline's record comes from another cluster", "The meta topic was copied here from another cluster. Marks in sinks belong to the original. Delete the copied topics, or use another kafka.prefix."),
		doc(broker.CodeMetaUnreadable, "The pipeline's record cannot be read", "It was written by a newer version of the program, or is damaged. Run the newer version."),
		doc(broker.CodeMetaChanged, "Somebody else changed the pipeline's record", "Two commands worked on one pipeline at the same time. Run yours again."),
		doc(broker.CodeTrim, "A trim beyond the end of the outbox", "The outbox holds less than was decided: the topic was deleted or cut by hand. The pipeline does not go on, since decided records may be missing in a sink."),
		doc(broker.CodeWorkersRun, "Workers are running", "The command needs the pipeline's workers stopped: it ends their generation, or finishes what the dead among them left, which a living worker does by itself. Stop them, wait for the session time-out, and run it again."),
		doc(broker.CodeJournalLost, "The journal is empty although the pipeline has run", "The group has read the source, and the task's journal holds nothing: its topic was deleted or emptied. A start would read the source anew and repeat everything. Stop the workers and use `exactly reset`."),
		doc(broker.CodeOffsetsMoved, "The group's offsets were moved by hand", "The journal says how far the pipeline has come; the group's offsets are for people and tools. To begin elsewhere, use `exactly reset`."),
		doc(broker.CodeOffsetsStuck, "Another transaction holds the group's offsets", "A transaction that has ended is not yet completed by its coordinator, or one of another program is open on the same group. It passes by itself within the transaction time-out; if it does not, look for another program that uses the group."),
	}
}

// recordCodes are those of dead letters that every pipeline may have; sinks
// have some of their own.
func recordCodes() []config.CodeDoc {
	return []config.CodeDoc{
		{Code: cel.CodeNotJSON, Title: "Dead letter: the value is not JSON", Text: "source.format is json, and the value is not strict JSON in UTF-8, or not an object."},
		{Code: cel.CodeDuplicateKey, Title: "Dead letter: a field is there twice", Text: "A JSON object names a field twice, and programs differ in which one they take."},
		{Code: cel.CodeEmptyValue, Title: "Dead letter: the value is empty", Text: "The value has no bytes. (A null value is a tombstone, which is passed on as a delete.)"},
		{Code: cel.CodeWrongType, Title: "Dead letter: a value has the wrong type", Text: "A field has another type than an expression, source.fields or the sink needs."},
		{Code: cel.CodeIntegerRange, Title: "Dead letter: an integer beyond 64 bits", Text: "An expression needs an integer that does not fit into 64 bits. Numbers that no expression touches keep their exact digits."},
		{Code: cel.CodeExpression, Title: "Dead letter: an expression failed", Text: "A field that an expression reads is missing, a division by zero, an overflow: the reason in the dead letter says which. has(field) asks whether a field is there, and value.?field.orValue(0) stands in for a missing one."},
	}
}
