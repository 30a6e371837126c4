package broker

import (
	"fmt"
	"regexp"
	"strconv"
)

// maxTopicName is Kafka's limit for the name of a topic, in bytes.
const maxTopicName = 249

var (
	pipelineName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	prefixName   = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)

// Names are the names of one generation of a pipeline in Kafka (protocol.md,
// "Names in Kafka"). One prefixed ACL rule, on Own, covers topics and
// transactional ids; no name is built from a host, a process or a worker.
type Names struct {
	Prefix     string
	Pipeline   string
	Generation int32 // from 1
}

// Lane tells the two producers of a task apart.
type Lane byte

// A carries even epochs, B odd ones.
const (
	LaneA Lane = 'a'
	LaneB Lane = 'b'
)

// LaneOf gives the producer that carries an epoch.
func LaneOf(epoch int64) Lane {
	if epoch%2 == 0 {
		return LaneA
	}
	return LaneB
}

// Own is what every topic and transactional id of the pipeline begins with,
// over all generations. A pipeline's name has no dot, so it is no prefix of
// another's.
func (n Names) Own() string { return n.Prefix + "." + n.Pipeline + "." }

func (n Names) base() string { return n.Own() + "g" + strconv.Itoa(int(n.Generation)) }

// Journal is the topic whose last committed record is the truth about a task.
func (n Names) Journal() string { return n.base() + ".journal" }

// Outbox is the topic of decided records on their way to outbox sinks.
func (n Names) Outbox() string { return n.base() + ".outbox" }

// State is the topic of the changes of keyed state.
func (n Names) State() string { return n.base() + ".state" }

// Meta is the topic of the pipeline's identity, over all generations.
func (n Names) Meta() string { return n.Own() + "meta" }

// MetaTxnID is the transactional id under which Meta is written.
func (n Names) MetaTxnID() string { return n.Own() + "meta" }

// TxnID is the transactional id of one producer of a task.
func (n Names) TxnID(task int32, lane Lane) string {
	return n.base() + ".t" + strconv.Itoa(int(task)) + "." + string(rune(lane))
}

// Group is the consumer group.
func (n Names) Group() string { return n.Prefix + "." + n.Pipeline }

// Validate checks shape and length, also for every later generation.
func (n Names) Validate() error {
	wrong := func(place, cause, remedy string) error {
		return &Problem{Code: CodeName, Place: place, Cause: cause, Remedy: remedy}
	}
	switch {
	case !pipelineName.MatchString(n.Pipeline):
		return wrong("pipeline", fmt.Sprintf("the name %q is not allowed", n.Pipeline),
			"use a to z, 0 to 9 and -, beginning with a letter or digit, 63 characters at most")
	case !prefixName.MatchString(n.Prefix):
		return wrong("kafka.prefix", fmt.Sprintf("the prefix %q is not allowed", n.Prefix),
			"use letters, digits, '.', '_' and '-', as topics of Kafka may have")
	case len(n.Prefix) > 1 && n.Prefix[:2] == "__":
		return wrong("kafka.prefix", "names that begin with __ are Kafka's own", "choose another prefix")
	}
	last := n
	last.Generation = 1<<31 - 1
	if l := len(last.Journal()); l > maxTopicName {
		return wrong("kafka.prefix", fmt.Sprintf("the topic %s has up to %d characters, Kafka allows %d", n.Journal(), l, maxTopicName),
			fmt.Sprintf("shorten the prefix or the pipeline's name by %d", l-maxTopicName))
	}
	return nil
}

// ValidTopic checks the name of a topic that the user gives; place is the
// setting that holds it.
func ValidTopic(place, topic string) error {
	switch {
	case topic == "" || topic == "." || topic == ".." || !prefixName.MatchString(topic):
		return &Problem{
			Code: CodeName, Place: place, Cause: fmt.Sprintf("%q is no name for a topic", topic),
			Remedy: "use letters, digits, '.', '_' and '-'",
		}
	case len(topic) > maxTopicName:
		return &Problem{
			Code: CodeName, Place: place,
			Cause:  fmt.Sprintf("the topic's name has %d characters, Kafka allows %d", len(topic), maxTopicName),
			Remedy: "choose a shorter name",
		}
	}
	return nil
}
