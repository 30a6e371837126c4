package config

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"exactly/internal/broker"
)

var sinkName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func (l *loader) checkSinkList(f *File) {
	if n := l.nodes["sinks"]; n != nil && n.kind == mapNode && len(n.pairs) == 0 {
		l.fail(codeSink, n.pos, "sinks", "the pipeline has no sink", "add one, for example out: { kafka: { topic: payments.enriched } }")
	}
}

// topicUse is a topic that the file names, and where.
type topicUse struct{ topic, path string }

// checkTopics finds topics that cannot exist, and loops.
func (l *loader) checkTopics(f *File) {
	seen := map[string]bool{}
	var sources []string
	for i, t := range f.Source.Topics {
		path := l.itemPath("source.topics", i)
		if !l.validTopic(t, path) {
			continue
		}
		if seen[t] {
			l.fail(codeDuplicate, l.at(path), path, "the topic "+t+" is given twice", "keep one of them")
		}
		seen[t] = true
		sources = append(sources, t)
		if own := f.Broker().Names(1).Own(); l.clean("pipeline", "kafka.prefix") && strings.HasPrefix(t, own) {
			l.fail(codeLoop, l.at(path), path, "the topic "+t+" is one of the pipeline's own", "names that begin with "+own+" belong to the pipeline; read another topic")
		}
	}
	outputs := f.outputs()
	for _, out := range outputs {
		if l.validTopic(out.topic, out.path) && slices.Contains(sources, out.topic) {
			l.fail(codeLoop, l.at(out.path), out.path, "the pipeline would read what it writes: "+out.topic+" is a source topic too", "write to another topic")
		}
	}
	dead := topicUse{f.DeadLetters.Topic, "dead_letters.topic"}
	if dead.topic == "" || !l.clean(dead.path) || !l.validTopic(dead.topic, dead.path) {
		return
	}
	if slices.Contains(sources, dead.topic) {
		l.fail(codeLoop, l.at(dead.path), dead.path, "the pipeline would read its own dead letters: "+dead.topic+" is a source topic too", "choose another topic for them")
	}
	for _, out := range outputs {
		if out.topic == dead.topic {
			l.fail(codeLoop, l.at(out.path), out.path, "the topic "+out.topic+" is that of the dead letters too", "give dead letters a topic of their own")
		}
	}
}

// itemPath gives the path of an entry of a list, or of the list where it is one
// value.
func (l tree) itemPath(path string, i int) string {
	if at := path + "[" + strconv.Itoa(i) + "]"; l.given(at) {
		return at
	}
	return path
}

func (l *loader) validTopic(topic, path string) bool {
	if !l.clean(path) {
		return false
	}
	for _, p := range problems(broker.ValidTopic(path, topic)) {
		l.fail(codeName, l.at(path), path, problemCause(p), p.Remedy)
		return false
	}
	return true
}

// outputs lists the topics of Kafka sinks that are known before the first
// record: what their settings topic and topics name.
func (f *File) outputs() []topicUse {
	var out []topicUse
	for _, s := range f.Sinks {
		if s.Kind != "kafka" || f.kinds[s.Kind] == nil {
			continue
		}
		c := reflect.ValueOf(s.Settings).Elem()
		path := "sinks." + s.Name + "." + s.Kind
		if t := f.kinds[s.Kind].find("topic"); t != nil && t.kind == kindText && t.expr == "" {
			if topic := c.Field(t.index).String(); topic != "" {
				out = append(out, topicUse{topic, path + ".topic"})
			}
		}
		if t := f.kinds[s.Kind].find("topics"); t != nil && t.kind == kindTexts {
			for i := range c.Field(t.index).Len() {
				out = append(out, topicUse{c.Field(t.index).Index(i).String(), f.tree.itemPath(path+".topics", i)})
			}
		}
	}
	return out
}

// Outputs lists the topics of the Kafka sinks that are known before the first
// record, sorted, each once.
func (f *File) Outputs() []string {
	var out []string
	for _, t := range f.outputs() {
		out = append(out, t.topic)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkSteps refuses steps that need fields where records have none.
func (l *loader) checkSteps(f *File) {
	if f.Source.Format != "raw" {
		return
	}
	if len(f.Source.Fields) > 0 {
		l.fail(codeStep, l.at("source.fields"), "source.fields", "records of format raw have no fields", "remove fields, or set source.format: json")
	}
	for i, s := range f.Steps {
		path := "steps[" + strconv.Itoa(i) + "]"
		for _, name := range s.needsFields() {
			l.fail(codeStep, l.at(path+"."+name), path+"."+name, "records of format raw have no fields", "remove the step, or set source.format: json")
		}
	}
}

func (s Step) needsFields() []string {
	var out []string
	if len(s.Set) > 0 {
		out = append(out, "set")
	}
	if len(s.Unset) > 0 {
		out = append(out, "unset")
	}
	if s.FlatMap != "" {
		out = append(out, "flat_map")
	}
	return out
}

// exclusiveSecrets refuses a secret that is given as a value and as a file.
func (l *loader) exclusiveSecrets(b *block, n *node, path string) {
	for _, s := range b.settings {
		file := s.name + "_file"
		if s.secret && n.get(s.name) != nil && n.get(file) != nil {
			at := join(path, file)
			l.fail(codeSecret, l.at(at), at, "both "+s.name+" and "+file+" are given", "keep one; a file is read again when it changes")
		}
	}
}
