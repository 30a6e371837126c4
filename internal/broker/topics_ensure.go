package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// EnsureTopics makes the topics of the plan be there and right: missing ones of
// ours are created, where kafka.create_topics allows it, with the given
// replication or the one that fits the cluster; then all of ours, also those
// that were there before, are held to what the protocol rests on. Topics of the
// user must exist. Its errors are *Problem, joined where several topics are
// wrong.
//
// Several workers may call it at once.
func (a *Admin) EnsureTopics(ctx context.Context, specs ...TopicSpec) (map[string]TopicInfo, error) {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	infos, missing, _, err := a.lookup(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		if infos, err = a.create(ctx, specs, names, missing); err != nil {
			return nil, err
		}
	}
	if err := a.check(ctx, specs, infos); err != nil {
		return nil, err
	}
	return infos, nil
}

// create creates what is missing and waits until every topic has leaders.
func (a *Admin) create(ctx context.Context, specs []TopicSpec, names, missing []string) (map[string]TopicInfo, error) {
	var todo []TopicSpec
	var users []string
	for _, s := range specs {
		switch {
		case !slices.Contains(missing, s.Name):
		case s.Ours():
			todo = append(todo, s)
		default:
			users = append(users, s.Name)
		}
	}
	if len(users) > 0 { // perhaps just created: describe waits
		if _, err := a.DescribeTopics(ctx, users...); err != nil {
			return nil, err
		}
	}
	if len(todo) > 0 && !a.c.CreateTopics {
		return nil, notCreated(todo, "kafka.create_topics is false", nil)
	}
	if err := a.createTopics(ctx, todo); err != nil {
		return nil, err
	}
	infos, missing, err := a.await(ctx, names, createGrace, TopicInfo.led)
	switch {
	case err != nil:
		return nil, err
	case len(missing) > 0:
		return nil, missingTopics(missing)
	}
	return infos, nil
}

func notCreated(todo []TopicSpec, why string, err error) error {
	var names, commands []string
	for _, s := range todo {
		names = append(names, s.Name)
		commands = append(commands, s.createCommand("BROKER"))
	}
	return &Problem{
		Code: CodeTopicMissing, Place: "topic " + strings.Join(names, ", "),
		Cause: "does not exist and cannot be created: " + why, Err: err,
		Remedy: "create it beforehand: " + strings.Join(commands, "; "),
	}
}

// createTopics sends the requests, again for what passes: a controller that
// moves, a quota, settings that an older broker does not know.
func (a *Admin) createTopics(ctx context.Context, todo []TopicSpec) error {
	if len(todo) == 0 {
		return nil
	}
	brokers, err := a.brokers(ctx)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(createGrace)
	for try := 1; ; try++ {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = int32(dialTimeout.Milliseconds())
		for _, s := range todo {
			req.Topics = append(req.Topics, createRequest(s, len(brokers)))
		}
		resp, err := req.RequestWith(ctx, a.cl)
		if err != nil {
			return explain("create", "topic "+todo[0].Name, err)
		}
		var last error
		if todo, last, err = a.created(todo, resp); err != nil || len(todo) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return explain("create", "topic "+todo[0].Name, last)
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return explain("create", "topic "+todo[0].Name, err)
		}
	}
}

// Replicas gives how many replicas topics get that are created: want, or with 0
// three where there are three brokers, else their number.
func Replicas(want, brokers int) int16 {
	if want > 0 {
		return int16(want) //nolint:gosec // validated
	}
	return int16(max(1, min(3, brokers))) //nolint:gosec // at most 3
}

// minInsync lets one of three replicas be away and none of two, since with two
// every broker's restart would stop the pipeline.
func minInsync(replicas int16) string {
	if replicas >= 3 {
		return "2"
	}
	return "1"
}

func createRequest(s TopicSpec, brokers int) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions = s.Name, s.Partitions
	rt.ReplicationFactor = Replicas(int(s.Replication), brokers)
	conf := merge(s.Config, map[string]string{"min.insync.replicas": minInsync(rt.ReplicationFactor)})
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, kmsg.StringPtr(conf[k])
		rt.Configs = append(rt.Configs, c)
	}
	return rt
}

// created looks at the answers and gives what is to be tried again, with the
// last error of that kind.
func (a *Admin) created(todo []TopicSpec, resp *kmsg.CreateTopicsResponse) (again []TopicSpec, last, err error) {
	answers := map[string]kmsg.CreateTopicsResponseTopic{}
	for _, t := range resp.Topics {
		answers[t.Topic] = t
	}
	var errs []error
	var forbidden []TopicSpec
	for _, s := range todo {
		t, ok := answers[s.Name]
		if !ok {
			errs = append(errs, fmt.Errorf("create topic %s: the broker did not answer for it", s.Name))
			continue
		}
		switch terr := kerr.ErrorForCode(t.ErrorCode); {
		case terr == nil:
			a.c.Log.Info("topic_created", "topic", s.Name, "kind", string(s.Kind), "partitions", s.Partitions)
		case errors.Is(terr, kerr.TopicAlreadyExists): // another worker was first
		case denied(terr):
			forbidden, last = append(forbidden, s), terr
		case errors.Is(terr, kerr.InvalidConfig) && len(s.Newer) > 0:
			again, last = append(again, s.older()), terr
		case kerr.IsRetriable(terr):
			again, last = append(again, s), terr
		default:
			errs = append(errs, refused(s, terr, t.ErrorMessage))
		}
	}
	if len(forbidden) > 0 {
		errs = append(errs, notCreated(forbidden, "the workers' user may not create topics", last))
	}
	return again, last, errors.Join(errs...)
}

// older is the topic without the settings that older brokers do not know.
func (s TopicSpec) older() TopicSpec {
	s.Config = merge(s.Config)
	for _, k := range s.Newer {
		delete(s.Config, k)
	}
	s.Newer = nil
	return s
}

func refused(s TopicSpec, err error, message *string) error {
	p := &Problem{
		Code: CodeTopicCreate, Place: "topic " + s.Name, Cause: "the cluster refuses to create it", Err: err,
		Remedy: "create it beforehand: " + s.createCommand("BROKER"),
	}
	if message != nil && *message != "" {
		p.Cause += " (" + *message + ")"
	}
	if errors.Is(err, kerr.InvalidReplicationFactor) {
		p.Remedy = "set kafka.replication to at most the number of brokers; " + strconv.Itoa(int(s.Replication)) + " was asked for, 0 fits the cluster"
	}
	return p
}
