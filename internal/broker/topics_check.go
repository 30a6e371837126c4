package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// check holds the topics of ours to what the protocol rests on.
func (a *Admin) check(ctx context.Context, specs []TopicSpec, infos map[string]TopicInfo) error {
	var ours []string
	for _, s := range specs {
		if s.Ours() {
			ours = append(ours, s.Name)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	confs, err := a.topicConfigs(ctx, ours)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range specs {
		if !s.Ours() {
			continue
		}
		if err := s.checkPartitions(infos[s.Name]); err != nil {
			errs = append(errs, err)
			continue
		}
		wrong := s.wrong(confs[s.Name])
		if a.c.CreateTopics && onlySizes(wrong) {
			wrong = a.raise(ctx, s, wrong)
		}
		if len(wrong) > 0 {
			errs = append(errs, wrongSettings(s, wrong))
		}
		a.warn(s, infos[s.Name], confs[s.Name])
	}
	return errors.Join(errs...)
}

func (s TopicSpec) checkPartitions(info TopicInfo) error {
	if s.Kind == KindDeadLetter || s.Kind == KindCreatedOutput || s.Partitions == 0 || info.Partitions == s.Partitions {
		return nil
	}
	return &Problem{
		Code: CodeTopicPartitions, Place: "topic " + s.Name,
		Cause: fmt.Sprintf("has %d partitions, the pipeline needs exactly %d (one per task)", info.Partitions, s.Partitions),
		Remedy: fmt.Sprintf("set tasks: %d, or, if the topic was made for this pipeline by mistake and is empty, delete it and make it again with %d partitions",
			info.Partitions, s.Partitions),
	}
}

// setting is one that a topic has wrong.
type setting struct{ key, have, want, why string }

// wrong compares the settings of a topic of ours with what they must be. Ones
// that the broker does not report are taken to be right.
func (s TopicSpec) wrong(conf map[string]string) []setting {
	var out []setting
	must := func(key, want, why string) {
		if have, ok := conf[key]; ok && have != want {
			out = append(out, setting{key, have, want, why})
		}
	}
	least := func(key, why string) {
		want, _ := strconv.ParseInt(s.Config[key], 10, 64)
		have, err := strconv.ParseInt(conf[key], 10, 64)
		if err == nil && have < want {
			out = append(out, setting{key, conf[key], s.Config[key], why})
		}
	}
	switch s.Kind {
	case KindJournal, KindMeta, KindState:
		must("cleanup.policy", "compact", "what the pipeline rests on would be deleted by time")
		must("retention.ms", "-1", "it would be deleted by time as soon as the policy has delete")
		must("retention.bytes", "-1", "it would be deleted by size as soon as the policy has delete")
		must("unclean.leader.election.enable", "false", "acknowledged records could be lost")
	case KindOutbox:
		must("cleanup.policy", "delete", "compaction would remove records that no sink has seen")
		must("retention.ms", "-1", "a sink that lags would lose records")
		must("retention.bytes", "-1", "a sink that lags would lose records")
		must("unclean.leader.election.enable", "false", "acknowledged records could be lost")
	case KindDeadLetter:
		if strings.Contains(conf["cleanup.policy"], "compact") {
			must("cleanup.policy", "delete", "dead letters with one key would replace each other, ones without a key be refused")
		}
	}
	least("max.message.bytes", "records of the source's size would not fit")
	least("segment.bytes", "a batch of the largest size would not fit into a segment")
	return out
}

func onlySizes(ws []setting) bool {
	for _, w := range ws {
		if w.key != "max.message.bytes" && w.key != "segment.bytes" {
			return false
		}
	}
	return len(ws) > 0
}

func wrongSettings(s TopicSpec, ws []setting) error {
	var causes, adds []string
	for _, w := range ws {
		causes = append(causes, fmt.Sprintf("%s is %q, must be %q (%s)", w.key, w.have, w.want, w.why))
		adds = append(adds, w.key+"="+w.want)
	}
	return &Problem{
		Code: CodeTopicSettings, Place: "topic " + s.Name, Cause: strings.Join(causes, "; "),
		Remedy: "run kafka-configs --bootstrap-server BROKER --alter --entity-type topics --entity-name " + s.Name +
			" --add-config " + strings.Join(adds, ","),
	}
}

// warn tells of a topic that works but survives less than it could.
func (a *Admin) warn(s TopicSpec, info TopicInfo, conf map[string]string) {
	if n, err := strconv.Atoi(conf["min.insync.replicas"]); err == nil && info.Replication >= 3 && n < 2 && s.Kind != KindDeadLetter {
		a.c.Log.Warn("topic_min_insync_low", "topic", s.Name, "replication", info.Replication, "min_insync_replicas", n,
			"remedy", "set min.insync.replicas=2, or the loss of one broker can lose acknowledged records")
	}
}

// Compacted tells which of the topics are compacted, so that offsets are missing
// in them at any place. Without the right to ask all count as compacted, with a
// warning: what rests on it is a check that finds gaps.
func (a *Admin) Compacted(ctx context.Context, topics ...string) (map[string]bool, error) {
	out := make(map[string]bool, len(topics))
	if len(topics) == 0 {
		return out, nil
	}
	confs, err := a.topicConfigs(ctx, topics)
	switch {
	case CodeOf(err) == CodeACL:
		a.c.Log.Warn("topic_policy_unknown", "topics", topics, "assumed", "compact", "err", err)
	case err != nil:
		return nil, err
	}
	for _, t := range topics {
		out[t] = err != nil || strings.Contains(confs[t]["cleanup.policy"], "compact")
	}
	return out, nil
}

// topicConfigs gives the effective settings of each topic.
func (a *Admin) topicConfigs(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	for try := 1; ; try++ {
		out, err := a.topicConfigsOnce(ctx, topics)
		if err == nil || try > 8 || !(errors.Is(err, kerr.UnknownTopicOrPartition) || kerr.IsRetriable(errors.Unwrap(err))) {
			return out, err
		}
		if err := pause(ctx, backoff(try)); err != nil { // the broker asked may not know a new topic yet
			return nil, explain("read the settings of", "topics "+strings.Join(topics, ", "), err)
		}
	}
}

func (a *Admin) topicConfigsOnce(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return nil, explain("read the settings of", "topics "+strings.Join(topics, ", "), err)
	}
	out := make(map[string]map[string]string, len(topics))
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, explain("read the settings of", "topic "+r.ResourceName, err)
		}
		conf := make(map[string]string, len(r.Configs))
		for _, c := range r.Configs {
			if c.Value != nil {
				conf[c.Name] = *c.Value
			}
		}
		out[r.ResourceName] = conf
	}
	return out, nil
}

// raise sets sizes that are too small, and gives what is still wrong.
func (a *Admin) raise(ctx context.Context, s TopicSpec, ws []setting) []setting {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, s.Name
	for _, w := range ws {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = w.key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(w.want)
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil {
		for _, r := range resp.Resources {
			err = kerr.ErrorForCode(r.ErrorCode)
		}
	}
	if err != nil {
		a.c.Log.Warn("topic_raise_failed", "topic", s.Name, "err", err)
		return ws
	}
	for _, w := range ws {
		a.c.Log.Info("topic_raised", "topic", s.Name, "setting", w.key, "from", w.have, "to", w.want)
	}
	return nil
}
