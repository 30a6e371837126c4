package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"exactly/record"
	"exactly/sink"
	"exactly/step/cel"
)

// sourceHeader is set by Config.SourceHeaders.
const sourceHeader = "exactly-source"

// byKey is Message.Partition for Kafka's default partitioner.
const byKey = -1

// Router turns records into messages. It is safe for concurrent use.
type Router struct {
	name    string
	cfg     Config
	exprs   exprs
	allowed map[string]bool // of topic_expr; nil: any
	deps    Deps
	vars    sync.Pool // of *cel.Vars: one per goroutine that is in Route
}

var _ sink.Transactional = (*Router)(nil)

// Deps is what the sink is given beside its settings.
type Deps struct {
	Env      *cel.Env // that expressions are compiled in; nil: one without declared fields
	Reserved []string // prefixes of topic names that belong to the pipeline: no record may go there
}

// New makes the sink called name. Its errors name the setting.
func New(name string, c Config, d Deps) (*Router, error) {
	if err := c.validate(d.Reserved); err != nil {
		return nil, fmt.Errorf("sink %s: kafka.%w", name, err)
	}
	x, err := compile(&c, d.Env)
	if err != nil {
		return nil, fmt.Errorf("sink %s: kafka.%w", name, err)
	}
	r := &Router{name: name, cfg: c, exprs: x, deps: d, vars: sync.Pool{New: func() any { return new(cel.Vars) }}}
	if len(c.Topics) > 0 {
		r.allowed = map[string]bool{}
		for _, topic := range c.Topics {
			r.allowed[topic] = true
		}
	}
	return r, nil
}

// Features: a topic takes deletes (tombstones) and would take a record twice.
// Only an expression can refuse a record.
func (r *Router) Features() sink.Features {
	x := r.exprs
	rejects := x.topic != nil || x.key != nil || x.value != nil || x.timestamp != nil || x.headers != nil
	return sink.Features{Deletes: true, Keyless: true, Rejects: rejects}
}

// Check has nothing to look at: whether the topics exist is for the engine,
// which has the connection, to ask.
func (r *Router) Check(context.Context) error { return nil }

// Close does nothing.
func (r *Router) Close() error { return nil }

// Topics lists the topics that are known before the first record; none where
// topic_expr stands alone. The caller owns the slice.
func (r *Router) Topics() []string {
	if r.cfg.Topic != "" {
		return []string{r.cfg.Topic}
	}
	return slices.Clone(r.cfg.Topics)
}

// CreateTopics reports whether missing ones of Topics shall be created.
func (r *Router) CreateTopics() bool { return r.cfg.Create }

// SamePartitions reports whether messages keep the number of their source
// partition, so that each of Topics needs at least as many as the source.
func (r *Router) SamePartitions() bool { return r.cfg.Partition == "same" }

// Route appends the message of a record to dst. Its errors are poison. The
// message shares bytes with the record; neither may be changed.
func (r *Router) Route(dst []sink.Message, rec *record.Record) ([]sink.Message, error) {
	v := r.vars.Get().(*cel.Vars)
	v.Reset(rec)
	m, err := r.message(v, rec)
	v.Reset(nil)
	r.vars.Put(v)
	if err != nil {
		return dst, fmt.Errorf("sink %s: kafka.%w", r.name, err)
	}
	return append(dst, m), nil
}

func (r *Router) message(v *cel.Vars, rec *record.Record) (sink.Message, error) {
	m := sink.Message{
		Topic: r.cfg.Topic, Partition: byKey,
		Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp,
	}
	if r.cfg.Partition == "same" {
		m.Partition = rec.Source.Partition
	}
	if r.exprs.topic != nil {
		var err error
		if m.Topic, err = r.topic(v); err != nil {
			return m, err
		}
	}
	if !rec.Tombstone() { // a tombstone has no fields to compute anything from
		if err := r.compute(&m, v); err != nil {
			return m, err
		}
	}
	var err error
	m.Headers, err = r.headers(v, rec)
	return m, err
}

// topic computes the topic, and refuses what the producer would fail on.
func (r *Router) topic(v *cel.Vars) (string, error) {
	topic, err := r.exprs.topic.x.StringValue(v)
	if err != nil {
		return "", r.exprs.topic.poison(err)
	}
	if r.allowed != nil {
		if !r.allowed[topic] {
			return "", sink.Poison("topic", fmt.Errorf("topic_expr: gives %q, which is not among topics", topic))
		}
		return topic, nil
	}
	if err := checkTopic(topic, r.deps.Reserved); err != nil {
		return "", sink.Poison("topic", fmt.Errorf("topic_expr: %w", err))
	}
	return topic, nil
}

// compute replaces key, value and timestamp where expressions are set.
func (r *Router) compute(m *sink.Message, v *cel.Vars) (err error) {
	if x := r.exprs.key; x != nil {
		if m.Key, err = x.text(v); err != nil {
			return err
		}
	}
	if x := r.exprs.value; x != nil {
		if m.Value, err = x.bytes(v); err != nil {
			return err
		}
	}
	if x := r.exprs.timestamp; x != nil {
		if m.Timestamp, err = x.millis(v); err != nil {
			return err
		}
	}
	return nil
}

// headers are the kept ones, without those that are set, then the set ones by
// name. The record's own slice is passed on where nothing changes.
func (r *Router) headers(v *cel.Vars, rec *record.Record) ([]record.Header, error) {
	var kept []record.Header
	if r.cfg.KeepHeaders {
		kept = rec.Headers
	}
	set := r.exprs.headers
	if rec.Tombstone() {
		set = nil
	}
	if len(set) == 0 && !r.cfg.SourceHeaders {
		return kept, nil
	}
	out := make([]record.Header, 0, len(kept)+len(set)+1)
	for _, h := range kept {
		if !r.sets(h.Key, len(set) > 0) {
			out = append(out, h)
		}
	}
	for _, h := range set {
		value, err := h.expr.text(v)
		if err != nil {
			return nil, err
		}
		if value != nil {
			out = append(out, record.Header{Key: h.name, Value: value})
		}
	}
	if r.cfg.SourceHeaders {
		out = append(out, record.Header{Key: sourceHeader, Value: []byte(rec.Source.String())})
	}
	return out, nil
}

// sets reports whether a header is ours to set.
func (r *Router) sets(name string, computed bool) bool {
	if r.cfg.SourceHeaders && name == sourceHeader {
		return true
	}
	if !computed {
		return false
	}
	_, ok := r.cfg.Headers[name]
	return ok
}
