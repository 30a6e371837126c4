package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// CompareMeta holds what the pipeline file wants against what the cluster has
// of the pipeline of that name. Added sinks are allowed and named: they start
// at the current end, and UpdateMeta keeps them. Anything else is a *Problem
// that names the first pipeline and each setting that differs: another pipeline
// of the same name would fence this one for ever, and so would this one, when
// changed, mix its generations.
//
// want.Tasks 0 and an empty want.Guarantee mean: as it is.
func CompareMeta(have, want Meta) (added []string, err error) {
	if have.Cluster != "" && want.Cluster != "" && have.Cluster != want.Cluster {
		return nil, &Problem{
			Code: CodeMetaCluster, Place: "pipeline " + have.Pipeline,
			Cause: fmt.Sprintf("its meta record was written on cluster %s, this is cluster %s: the topics were copied or restored, and offsets, transactions and the marks in the sinks do not hold here",
				have.Cluster, want.Cluster),
			Remedy: "give the pipeline another name or kafka.prefix on this cluster, or delete its copied topics (" + have.Pipeline + ".*)",
		}
	}
	if recreated := recreatedSources(have, want); len(recreated) > 0 {
		return nil, &Problem{
			Code: CodeTopicRecreated, Place: "source topic " + strings.Join(recreated, ", "),
			Cause:  "was deleted and made again since the pipeline " + have.describe() + " read it: its offsets mean other records now",
			Remedy: "if the new topic is to be read from a start position of its own, run `exactly reset`",
		}
	}
	diffs := differences(have, want)
	for _, s := range want.Sinks {
		if !slices.ContainsFunc(have.Sinks, func(h MetaSink) bool { return h.Name == s.Name }) {
			added = append(added, s.Name)
		}
	}
	if len(diffs) == 0 {
		return added, nil
	}
	return nil, &Problem{
		Code: CodeMetaConflict, Place: "pipeline " + have.Pipeline,
		Cause: "the cluster already has " + have.describe() + ", and this one differs: " + strings.Join(diffs, "; "),
		Remedy: "if this is another pipeline, give it another name or kafka.prefix; if it is the same one and you mean the change, " +
			"stop its workers and run `exactly reset`, which begins a new generation; else undo the change",
	}
}

// describe names a pipeline so that people find it.
func (m Meta) describe() string {
	s := fmt.Sprintf("%s (incarnation %s, generation %d, made %s", m.Pipeline, m.Incarnation, m.Generation,
		m.Created.UTC().Format(time.RFC3339))
	if m.CreatedBy != "" {
		s += " by " + m.CreatedBy
	}
	return s + ")"
}

func recreatedSources(have, want Meta) []string {
	var out []string
	for _, h := range have.Sources {
		for _, w := range want.Sources {
			if h.Topic == w.Topic && h.ID != "" && w.ID != "" && h.ID != w.ID {
				out = append(out, fmt.Sprintf("%s (id %s, now %s)", h.Topic, h.ID, w.ID))
			}
		}
	}
	return out
}

func differences(have, want Meta) []string {
	var out []string
	if want.Tasks != 0 && want.Tasks != have.Tasks {
		out = append(out, fmt.Sprintf("tasks is %d there and %d here", have.Tasks, want.Tasks))
	}
	if want.Guarantee != "" && want.Guarantee != have.Guarantee {
		out = append(out, fmt.Sprintf("guarantee is %s there and %s here", have.Guarantee, want.Guarantee))
	}
	if h, w := have.topics(), want.topics(); !slices.Equal(h, w) {
		out = append(out, fmt.Sprintf("source.topics is %v there and %v here", h, w))
	}
	for _, h := range have.Sinks {
		i := slices.IndexFunc(want.Sinks, func(w MetaSink) bool { return w.Name == h.Name })
		switch {
		case i < 0:
			out = append(out, fmt.Sprintf("sink %s (%s) is missing here, and its cursor would hold up the trimming of the outbox", h.Name, h.Kind))
		case want.Sinks[i].Kind != h.Kind:
			out = append(out, fmt.Sprintf("sink %s is %s there and %s here", h.Name, h.Kind, want.Sinks[i].Kind))
		}
	}
	return out
}

// topics are the source topics, sorted: their order means nothing.
func (m Meta) topics() []string {
	var out []string
	for _, s := range m.Sources {
		out = append(out, s.Topic)
	}
	slices.Sort(out)
	return out
}

// equal compares all that is stored.
func (m Meta) equal(o Meta) bool {
	return m.Incarnation == o.Incarnation && m.Pipeline == o.Pipeline && m.Generation == o.Generation &&
		m.Tasks == o.Tasks && m.Guarantee == o.Guarantee && slices.Equal(m.Sources, o.Sources) &&
		slices.Equal(m.Sinks, o.Sinks) &&
		maps.EqualFunc(m.Starts, o.Starts, slices.Equal) && m.Cluster == o.Cluster && m.Created.Equal(o.Created) && m.CreatedBy == o.CreatedBy
}
