package broker

import (
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"
)

// metaFormat is the newest format of a meta record that this binary knows.
const metaFormat = 1

// metaKey is the key of the one record that the compacted meta topic holds.
const metaKey = "meta"

// Meta is the identity of a pipeline on a cluster, and what must not change
// within a generation.
type Meta struct {
	Format      int    `json:"format"`
	Incarnation string `json:"incarnation"` // 16 hex digits, random, made once
	Pipeline    string `json:"pipeline"`
	Generation  int32  `json:"generation"` // from 1
	Tasks       int32  `json:"tasks"`
	Guarantee   string `json:"guarantee"`

	Sources []MetaSource `json:"sources"` // in the order of the pipeline file
	Sinks   []MetaSink   `json:"sinks"`

	// Starts are where the generation begins to read, by topic and partition
	// number; partitions beyond begin at 0. nil in the first generation: there
	// source.start says it.
	Starts map[string][]int64 `json:"starts,omitzero"`

	Cluster string    `json:"cluster"` // id of the Kafka cluster; "": it has none
	Created time.Time `json:"created"`
	// CreatedBy is for people: host and file that the pipeline was first started
	// from. No name is built from it and nothing compares it.
	CreatedBy string `json:"created_by,omitzero"`
}

// MetaSource is a source topic and which one of that name it is.
type MetaSource struct {
	Topic string `json:"topic"`
	ID    string `json:"id"` // 32 hex digits; "": the broker has no topic ids
}

// MetaSink is a sink by name and kind.
type MetaSink struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// SourceOf gives the identity of a topic as it is now.
func SourceOf(t TopicInfo) MetaSource {
	if t.ID == [16]byte{} {
		return MetaSource{Topic: t.Name}
	}
	return MetaSource{Topic: t.Name, ID: hex.EncodeToString(t.ID[:])}
}

// NewIncarnation draws an incarnation from random, which is crypto/rand.Reader
// outside of simulations.
func NewIncarnation(random io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("draw an incarnation: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

var (
	incarnationForm = regexp.MustCompile(`^[0-9a-f]{16}$`)
	topicIDForm     = regexp.MustCompile(`^([0-9a-f]{32})?$`)
)

func (m Meta) validate() error {
	switch {
	case !incarnationForm.MatchString(m.Incarnation):
		return fmt.Errorf("incarnation %q is not 16 hex digits", m.Incarnation)
	case !pipelineName.MatchString(m.Pipeline):
		return fmt.Errorf("pipeline %q is no name", m.Pipeline)
	case m.Generation < 1:
		return fmt.Errorf("generation %d is below 1", m.Generation)
	case m.Tasks < 1:
		return fmt.Errorf("tasks %d is below 1", m.Tasks)
	}
	for _, s := range m.Sources {
		if s.Topic == "" || !topicIDForm.MatchString(s.ID) {
			return fmt.Errorf("source %q with id %q", s.Topic, s.ID)
		}
	}
	for _, s := range m.Sinks {
		if s.Name == "" || s.Kind == "" {
			return fmt.Errorf("sink %q of kind %q", s.Name, s.Kind)
		}
	}
	return nil
}

// EncodeMeta gives the value of a meta record.
func EncodeMeta(m Meta) ([]byte, error) {
	m.Format = metaFormat
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("encode the meta record: %w", err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the meta record: %w", err)
	}
	return b, nil
}

// DecodeMeta reads the value of a meta record. A newer format is refused, and
// so is a field that this binary does not know, since it would be lost when the
// record is next written.
func DecodeMeta(b []byte) (Meta, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return Meta{}, unreadable("is damaged", "", err)
	}
	if version.Format != metaFormat {
		return Meta{}, unreadable(fmt.Sprintf("has format %d, this binary knows %d", version.Format, metaFormat),
			"run the newer version of exactly that wrote it", nil)
	}
	var m Meta
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil {
		return Meta{}, unreadable("is damaged", "", err)
	}
	if err := m.validate(); err != nil {
		return Meta{}, unreadable("is damaged", "", err)
	}
	return m, nil
}

func unreadable(cause, remedy string, err error) error {
	return &Problem{Code: CodeMetaUnreadable, Place: "meta record", Cause: cause, Remedy: remedy, Err: err}
}
