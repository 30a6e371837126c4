package broker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Kind says what a topic is to a pipeline.
type Kind string

// The kinds of topics.
const (
	KindMeta       Kind = "meta"
	KindJournal    Kind = "journal"
	KindOutbox     Kind = "outbox"
	KindState      Kind = "state"
	KindDeadLetter Kind = "dead_letter"
	KindSource     Kind = "source" // the user's: must exist
	KindOutput     Kind = "output" // the user's: must exist
	// KindCreatedOutput is an output that the user wants created where it is
	// missing; an existing one may have any shape.
	KindCreatedOutput Kind = "created_output"
)

// Sizes in bytes.
const (
	// HeaderRoom is what records of ours may add to a source record: headers,
	// coordinates, the reason of a dead letter.
	HeaderRoom = 64 << 10
	// JournalMaxBytes bounds a journal record; pending work is bounded so that
	// it always fits.
	JournalMaxBytes = 4 << 20
	// DefaultMaxBytes is Kafka's max.message.bytes where nothing else is known.
	DefaultMaxBytes = 1048588

	metaMaxBytes = 1 << 20
	segmentBytes = 16 << 20
)

// TopicSpec is a topic that a pipeline needs.
type TopicSpec struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Partitions is the exact number; 0: any number. For dead letters it holds
	// for creation only, an existing topic may have any.
	Partitions int32 `json:"partitions,omitempty"`
	// Replication is that of a topic that is created; 0: fitting the cluster.
	Replication int16 `json:"replication,omitempty"`
	// Config is what the topic is created with, and for topics of ours what
	// existing ones are held to (see EnsureTopics).
	Config map[string]string `json:"config,omitempty"`
	// Newer lists settings of Config that older brokers do not know, without
	// which the topic is created there.
	Newer []string `json:"newer,omitempty"`
}

// Ours reports whether the program may create the topic and cares for its
// settings.
func (s TopicSpec) Ours() bool { return s.Kind != KindSource && s.Kind != KindOutput }

// PlanInput is what a plan follows from. All of it is known without a broker
// but MaxSourceBytes and, when it is the default, Tasks.
type PlanInput struct {
	Names      Names
	Tasks      int32    // partitions of journal, outbox and state; at least 1
	Sources    []string // topics
	Outputs    []string // topics of Kafka sinks that are known beforehand
	Created    []string // those of Outputs that are created where they are missing
	DeadLetter string   // topic; "": <pipeline>.dlq
	State      bool     // the pipeline keeps keyed state
	Start      string   // as in the pipeline file, for the rights on group:NAME

	Replication    int   // see Config
	CreateTopics   bool  // see Config
	MaxSourceBytes int64 // the largest max.message.bytes of the sources; 0: DefaultMaxBytes
}

// Plan is the list of topics and rights that a pipeline needs.
type Plan struct {
	Topics []TopicSpec `json:"topics"`
	ACLs   []ACL       `json:"acls"`
}

// NewPlan makes the plan, or says which name is wrong.
func NewPlan(in PlanInput) (Plan, error) {
	if in.DeadLetter == "" {
		in.DeadLetter = in.Names.Pipeline + ".dlq"
	}
	if err := in.validate(); err != nil {
		return Plan{}, err
	}
	var p Plan
	for _, t := range in.Sources {
		p.Topics = append(p.Topics, TopicSpec{Name: t, Kind: KindSource})
	}
	for _, t := range in.Outputs {
		kind := KindOutput
		if slices.Contains(in.Created, t) {
			kind = KindCreatedOutput
		}
		p.Topics = append(p.Topics, TopicSpec{Name: t, Kind: kind})
	}
	p.Topics = append(p.Topics, in.deadLetter(), in.meta(), in.journal(), in.outbox())
	if in.State {
		p.Topics = append(p.Topics, in.state())
	}
	p.ACLs = in.acls()
	return p, nil
}

func (in PlanInput) validate() error {
	if err := in.Names.Validate(); err != nil {
		return err
	}
	switch {
	case in.Tasks < 1:
		return &Problem{Code: CodeConfig, Place: "tasks", Cause: "is below 1", Remedy: "give at least one task"}
	case in.Names.Generation < 1:
		return fmt.Errorf("plan of pipeline %s: generation %d is below 1", in.Names.Pipeline, in.Names.Generation)
	case in.Replication < 0 || in.Replication > math.MaxInt16:
		return &Problem{Code: CodeConfig, Place: "kafka.replication", Cause: strconv.Itoa(in.Replication) + " is out of range"}
	}
	ours := []string{in.Names.Meta(), in.Names.Journal(), in.Names.Outbox(), in.Names.State()}
	for place, topics := range map[string][]string{
		"source.topics": in.Sources, "sinks": in.Outputs, "dead_letters.topic": {in.DeadLetter},
	} {
		for _, t := range topics {
			if err := ValidTopic(place, t); err != nil {
				return err
			}
			if slices.Contains(ours, t) {
				return &Problem{
					Code: CodeName, Place: place, Cause: t + " is a topic of the pipeline itself",
					Remedy: "choose another topic, or another kafka.prefix",
				}
			}
		}
	}
	return nil
}

// Spec gives the topics of some kinds, in the order of the plan.
func (p Plan) Spec(kinds ...Kind) []TopicSpec {
	var out []TopicSpec
	for _, t := range p.Topics {
		if slices.Contains(kinds, t.Kind) {
			out = append(out, t)
		}
	}
	return out
}

// forever keeps everything until the program itself deletes it.
var forever = map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}

// safe is for topics whose acknowledged records must not be lost.
var safe = map[string]string{"unclean.leader.election.enable": "false"}

// anyTime takes records with every timestamp: they carry that of their source
// record, which the source's broker has let pass. Kafka knows these settings
// since 3.6 (KIP-937) and refuses, by default since 4.0, an hour in the future.
var anyTime = map[string]string{
	"message.timestamp.before.max.ms": strconv.FormatInt(math.MaxInt64, 10),
	"message.timestamp.after.max.ms":  strconv.FormatInt(math.MaxInt64, 10),
}

func merge(ms ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range ms {
		maps.Copy(out, m)
	}
	return out
}

// sized gives the two settings that go together: a batch must fit a segment.
func sized(maxBytes int64) map[string]string {
	return map[string]string{
		"max.message.bytes": strconv.FormatInt(maxBytes, 10),
		"segment.bytes":     strconv.FormatInt(min(max(segmentBytes, 2*maxBytes), math.MaxInt32), 10),
	}
}

// compacted keeps the last record of each key, soon compacted, so that a
// takeover reads little.
var compacted = map[string]string{
	"cleanup.policy":            "compact",
	"min.cleanable.dirty.ratio": "0.01",
	"segment.ms":                "600000",
	"delete.retention.ms":       "300000",
}

func (in PlanInput) replication() int16 { return int16(in.Replication) } //nolint:gosec // validated

func (in PlanInput) recordBytes() int64 {
	return min(max(in.MaxSourceBytes, DefaultMaxBytes)+HeaderRoom, math.MaxInt32)
}

func (in PlanInput) meta() TopicSpec {
	return TopicSpec{
		Name: in.Names.Meta(), Kind: KindMeta, Partitions: 1, Replication: in.replication(),
		Config: merge(compacted, forever, safe, sized(metaMaxBytes)),
	}
}

func (in PlanInput) journal() TopicSpec {
	return TopicSpec{
		Name: in.Names.Journal(), Kind: KindJournal, Partitions: in.Tasks, Replication: in.replication(),
		Config: merge(compacted, forever, safe, sized(JournalMaxBytes)),
	}
}

func (in PlanInput) outbox() TopicSpec {
	return TopicSpec{
		Name: in.Names.Outbox(), Kind: KindOutbox, Partitions: in.Tasks, Replication: in.replication(),
		Config: merge(map[string]string{"cleanup.policy": "delete", "segment.ms": "600000"},
			forever, safe, anyTime, sized(in.recordBytes())),
		Newer: slices.Sorted(maps.Keys(anyTime)),
	}
}

// state tombstones live for a day: a local store that is older than half of
// that is rebuilt.
func (in PlanInput) state() TopicSpec {
	return TopicSpec{
		Name: in.Names.State(), Kind: KindState, Partitions: in.Tasks, Replication: in.replication(),
		Config: merge(map[string]string{
			"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "delete.retention.ms": "86400000",
		}, forever, safe, anyTime, sized(in.recordBytes())),
		Newer: slices.Sorted(maps.Keys(anyTime)),
	}
}

// deadLetter keeps records until somebody has dealt with them.
func (in PlanInput) deadLetter() TopicSpec {
	return TopicSpec{
		Name: in.DeadLetter, Kind: KindDeadLetter, Partitions: in.Tasks, Replication: in.replication(),
		Config: merge(map[string]string{"cleanup.policy": "delete"}, forever, anyTime, sized(in.recordBytes())),
		Newer:  slices.Sorted(maps.Keys(anyTime)),
	}
}
