package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config is what a pipeline file says under `kafka:` of a sink. Exactly one of
// Topic and TopicExpr is set.
type Config struct {
	Topic         string            `yaml:"topic" example:"payments.enriched" doc:"Topic that every record goes to; this or topic_expr is required."`
	TopicExpr     string            `yaml:"topic_expr" expr:"string" example:"\"payments.\" + status" doc:"Topic per record."`
	Topics        []string          `yaml:"topics" doc:"All topics that topic_expr may give; another one makes the record a dead letter. They are checked at the start and listed with the ACLs."`
	Key           string            `yaml:"key" expr:"any" example:"payment_id" doc:"Key of the message (string or bytes; null for none); by default the record's key is kept. Tombstones always keep theirs."`
	Value         string            `yaml:"value" expr:"any" doc:"Value of the message: a string or bytes as they are, anything else as JSON; by default the record's value, byte for byte."`
	Headers       map[string]string `yaml:"headers" expr:"any" doc:"Headers to set (string or bytes; null leaves one out), in place of kept ones of the same name; not computed for tombstones."`
	KeepHeaders   bool              `yaml:"keep_headers" default:"true" doc:"Pass the record's headers on."`
	SourceHeaders bool              `yaml:"source_headers" doc:"Add the header exactly-source: topic-partition@offset of the source record."`
	Timestamp     string            `yaml:"timestamp" expr:"any" example:"event_time" doc:"Timestamp of the message (a time, or Unix milliseconds); by default the record's is kept."`
	Partition     string            `yaml:"partition" default:"by_key" enum:"by_key|same" doc:"Partition: by the hash of the key, as Kafka's own clients do it, or the number of the source partition."`
	Create        bool              `yaml:"create" doc:"Create missing topics at the start; with partition: same with as many partitions as the source."`
}

// validate looks at what can be told without expressions.
func (c *Config) validate(reserved []string) error {
	switch {
	case c.Topic == "" && c.TopicExpr == "":
		return errors.New("topic: is required (or topic_expr)")
	case c.Topic != "" && c.TopicExpr != "":
		return errors.New("topic_expr: topic is set as well; keep one of them")
	case c.Topic != "" && len(c.Topics) > 0:
		return errors.New("topics: lists what topic_expr may give, but there is no topic_expr")
	case c.Create && c.Topic == "" && len(c.Topics) == 0:
		return errors.New("create: with topic_expr, list in topics what to create")
	case c.Partition != "" && c.Partition != "by_key" && c.Partition != "same":
		return fmt.Errorf("partition: %q is neither by_key nor same", c.Partition)
	}
	if c.Topic != "" {
		if err := checkTopic(c.Topic, reserved); err != nil {
			return fmt.Errorf("topic: %w", err)
		}
	}
	for _, topic := range c.Topics {
		if err := checkTopic(topic, reserved); err != nil {
			return fmt.Errorf("topics: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch {
		case name == "":
			return errors.New("headers: a name is empty")
		case name == sourceHeader && c.SourceHeaders:
			return fmt.Errorf("headers.%s: is set by source_headers; leave one of them out", name)
		}
	}
	return nil
}

// checkTopic applies Kafka's rule for names (org.apache.kafka.common.internals.Topic),
// and keeps records out of the cluster's and the pipeline's own topics.
func checkTopic(name string, reserved []string) error {
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%q cannot be the name of a topic", name)
	case len(name) > 249:
		return fmt.Errorf("a name of %d characters is too long for a topic (249)", len(name))
	case strings.Trim(name, legal) != "":
		return fmt.Errorf("%q cannot be the name of a topic: letters, digits, dot, underscore and hyphen are allowed", name)
	case strings.HasPrefix(name, "__"):
		return fmt.Errorf("%q belongs to the cluster itself", name)
	}
	for _, prefix := range reserved {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("%q belongs to the pipeline itself (names with %q)", name, prefix)
		}
	}
	return nil
}
