package broker

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeTopics(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(6, "payments.raw"), kfake.SeedTopics(1, "other"), kfake.AllowAutoTopicCreation())
	a := newAdmin(t, c)
	got, err := a.DescribeTopics(soon(t), "payments.raw", "other", "other")
	if err != nil {
		t.Fatal(err)
	}
	raw := got["payments.raw"]
	if raw.Partitions != 6 || got["other"].Partitions != 1 || raw.Replication != 3 {
		t.Errorf("got %+v", got)
	}
	if raw.ID == [16]byte{} || raw.ID == got["other"].ID {
		t.Errorf("ids %x and %x", raw.ID, got["other"].ID)
	}
	if !raw.led() {
		t.Errorf("leaders %v", raw.Leaders)
	}
	_, err = a.DescribeTopics(soon(t), "payments.raw", "payments.rwa")
	problem(t, err, CodeTopicMissing, "topic payments.rwa:", "kafka-topics --create --topic payments.rwa")
	if got, _, _, err := a.lookup(soon(t), []string{"payments.rwa"}); err != nil || len(got) != 0 {
		t.Errorf("asking for a topic created it: %v, %v", got, err)
	}
}

func TestDescribeTopicsWaits(t *testing.T) {
	t.Parallel()
	cl, c := fake(t, kfake.SeedTopics(2, "new"))
	// A broker that does not know the new topic yet, then one without a leader.
	cl.ControlKey(int16(kmsg.Metadata), unknownTopic("new", kerr.UnknownTopicOrPartition, 3))
	a := newAdmin(t, c)
	got, err := a.DescribeTopics(soon(t), "new")
	if err != nil || got["new"].Partitions != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// unknownTopic answers the first n requests that ask for the topic with an error.
func unknownTopic(topic string, code *kerr.Error, n int) func(kmsg.Request) (kmsg.Response, error, bool) {
	var mu sync.Mutex
	return func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		req := kreq.(*kmsg.MetadataRequest)
		if n == 0 || len(req.Topics) != 1 || req.Topics[0].Topic == nil || *req.Topics[0].Topic != topic {
			return nil, nil, false
		}
		n--
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic, rt.ErrorCode = kmsg.StringPtr(topic), code.Code
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	}
}

func TestEnsureTopicsCreates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		brokers, replication int
		replicas             int
		insync               string
	}{
		"three brokers": {3, 0, 3, "2"}, "five brokers": {5, 0, 3, "2"}, "two brokers": {2, 0, 2, "1"},
		"one broker": {1, 0, 1, "1"}, "by hand": {3, 1, 1, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := fakeOf(t, tc.brokers, kfake.SeedTopics(6, "payments.raw", "payments.enriched"))
			a := newAdmin(t, c)
			p := plan(t, a, func(in *PlanInput) { in.State, in.Replication = true, tc.replication })
			got, err := a.EnsureTopics(soon(t), p.Topics...)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Topics {
				info := got[s.Name]
				if s.Ours() && (info.Partitions != s.Partitions || info.Replication != tc.replicas || !info.led()) {
					t.Errorf("%s: got %+v, want %d partitions, %d replicas", s.Name, info, s.Partitions, tc.replicas)
				}
			}
			confs, err := a.topicConfigs(soon(t), slices.Collect(maps.Keys(got)))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Topics {
				for k, v := range s.Config {
					if confs[s.Name][k] != v {
						t.Errorf("%s: %s is %q, want %q", s.Name, k, confs[s.Name][k], v)
					}
				}
				if got := confs[s.Name]["min.insync.replicas"]; s.Ours() && got != tc.insync {
					t.Errorf("%s: min.insync.replicas %s, want %s", s.Name, got, tc.insync)
				}
			}
			again, err := a.EnsureTopics(soon(t), p.Topics...)
			if err != nil {
				t.Fatal(err)
			}
			if again[a.Names(1).Journal()].ID != got[a.Names(1).Journal()].ID {
				t.Error("the second time made another topic")
			}
		})
	}
}

func TestEnsureTopicsAtOnce(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(6, "payments.raw", "payments.enriched"))
	var wg sync.WaitGroup
	ids := make([][16]byte, 4)
	for i := range ids {
		a := newAdmin(t, c)
		p := plan(t, a)
		wg.Go(func() {
			got, err := a.EnsureTopics(soon(t), p.Topics...)
			if err != nil {
				t.Error(err)
			}
			ids[i] = got[a.Names(1).Journal()].ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == [16]byte{} {
			t.Errorf("ids differ: %x", ids)
		}
	}
}

func TestEnsureTopicsMissing(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(6, "payments.raw"))
	c.CreateTopics = false
	a := newAdmin(t, c)
	p := plan(t, a)
	_, err := a.EnsureTopics(soon(t), p.Topics...)
	problem(t, err, CodeTopicMissing, "topic payments.enriched", "does not exist on this cluster")
	_, err = a.EnsureTopics(soon(t), p.Spec(KindMeta, KindJournal, KindSource)...)
	problem(t, err, CodeTopicMissing, "exactly.payments.meta, exactly.payments.g1.journal", "kafka.create_topics is false",
		"kafka-topics --bootstrap-server BROKER --create --if-not-exists --topic exactly.payments.g1.journal --partitions 4")
}

// TestEnsureTopicsOlder: a broker that refuses settings it does not know gets
// the topic without them.
func TestEnsureTopicsOlder(t *testing.T) {
	t.Parallel()
	cl, c := fake(t)
	cl.ControlKey(int16(kmsg.CreateTopics), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		req := kreq.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := false
		for _, rt := range req.Topics {
			st := kmsg.NewCreateTopicsResponseTopic()
			st.Topic, st.ErrorCode = rt.Topic, kerr.RequestTimedOut.Code // retriable
			for _, conf := range rt.Configs {
				if conf.Name == "message.timestamp.after.max.ms" {
					st.ErrorCode, refused = kerr.InvalidConfig.Code, true
				}
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, refused
	})
	a := newAdmin(t, c)
	spec := plan(t, a).Spec(KindOutbox)
	before := maps.Clone(spec[0].Config)
	got, err := a.EnsureTopics(soon(t), spec...)
	if err != nil || got[spec[0].Name].Partitions != 4 {
		t.Errorf("got %+v, %v", got, err)
	}
	if !maps.Equal(spec[0].Config, before) {
		t.Error("the caller's spec was changed")
	}
}

func TestEnsureTopicsRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   *kerr.Error
		code  Code
		parts []string
	}{
		"forbidden":   {kerr.TopicAuthorizationFailed, CodeTopicMissing, []string{"may not create topics", "kafka-topics"}},
		"policy":      {kerr.PolicyViolation, CodeTopicCreate, []string{"the cluster refuses", "create it beforehand"}},
		"replication": {kerr.InvalidReplicationFactor, CodeTopicCreate, []string{"kafka.replication"}},
		"quota":       {kerr.ThrottlingQuotaExceeded, "", nil}, // passes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, c := fake(t)
			a := newAdmin(t, c)
			p := plan(t, a)
			cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: a.Names(1).Journal(), Err: tc.err, Count: 1})
			_, err := a.EnsureTopics(soon(t), p.Spec(KindJournal, KindOutbox)...)
			if tc.code == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			problem(t, err, tc.code, append(tc.parts, a.Names(1).Journal())...)
		})
	}
}

func TestEnsureTopicsChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind       Kind
		partitions int32
		change     map[string]string
		code       Code
		parts      []string
	}{
		"as planned":        {KindJournal, 4, nil, "", nil},
		"journal retention": {KindJournal, 4, map[string]string{"retention.ms": "604800000"}, CodeTopicSettings, []string{`retention.ms is "604800000", must be "-1"`, "kafka-configs", "--add-config retention.ms=-1"}},
		"journal delete":    {KindJournal, 4, map[string]string{"cleanup.policy": "delete"}, CodeTopicSettings, []string{"cleanup.policy=compact"}},
		"journal both":      {KindJournal, 4, map[string]string{"cleanup.policy": "compact,delete"}, CodeTopicSettings, []string{`"compact,delete"`}},
		"journal bytes":     {KindJournal, 4, map[string]string{"retention.bytes": "1000"}, CodeTopicSettings, []string{"retention.bytes"}},
		"journal unclean":   {KindJournal, 4, map[string]string{"unclean.leader.election.enable": "true"}, CodeTopicSettings, []string{"unclean"}},
		"journal few":       {KindJournal, 3, nil, CodeTopicPartitions, []string{"has 3 partitions", "exactly 4", "tasks: 3"}},
		"journal many":      {KindJournal, 5, nil, CodeTopicPartitions, []string{"has 5 partitions"}},
		"meta two":          {KindMeta, 2, nil, CodeTopicPartitions, []string{"has 2 partitions"}},
		"meta delete":       {KindMeta, 1, map[string]string{"cleanup.policy": "delete"}, CodeTopicSettings, []string{"compact"}},
		"state delete":      {KindState, 4, map[string]string{"cleanup.policy": "delete"}, CodeTopicSettings, []string{"compact"}},
		"outbox retention":  {KindOutbox, 4, map[string]string{"retention.ms": "1000"}, CodeTopicSettings, []string{"a sink that lags would lose records"}},
		"outbox bytes":      {KindOutbox, 4, map[string]string{"retention.bytes": "1000"}, CodeTopicSettings, []string{"retention.bytes"}},
		"outbox compact":    {KindOutbox, 4, map[string]string{"cleanup.policy": "compact"}, CodeTopicSettings, []string{"delete"}},
		"dead letters":      {KindDeadLetter, 9, map[string]string{"retention.ms": "1000"}, "", nil},
		"dead compact":      {KindDeadLetter, 9, map[string]string{"cleanup.policy": "compact"}, CodeTopicSettings, []string{"dead letters with one key"}},
		"two at once":       {KindJournal, 4, map[string]string{"cleanup.policy": "delete", "retention.ms": "1"}, CodeTopicSettings, []string{"cleanup.policy=compact,retention.ms=-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := fake(t)
			a := newAdmin(t, c)
			spec := plan(t, a, func(in *PlanInput) { in.State = true }).Spec(tc.kind)[0]
			makeTopic(t, a, spec, tc.partitions, tc.change)
			_, err := a.EnsureTopics(soon(t), spec)
			if tc.code == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			problem(t, err, tc.code, append(tc.parts, "topic "+spec.Name)...)
		})
	}
}

// makeTopic makes a topic as a person would, with other settings than planned.
func makeTopic(t *testing.T, a *Admin, s TopicSpec, partitions int32, change map[string]string) {
	t.Helper()
	conf := map[string]*string{}
	for k, v := range merge(s.Config, change) {
		conf[k] = &v
	}
	if _, err := kadm.NewClient(a.cl).CreateTopic(soon(t), partitions, 3, conf, s.Name); err != nil {
		t.Fatal(err)
	}
}

// TestEnsureTopicsSizes: the outbox follows the source when its limit is
// raised, by itself where it may, else with the command.
func TestEnsureTopicsSizes(t *testing.T) {
	t.Parallel()
	cl, c := fake(t)
	a := newAdmin(t, c)
	small := plan(t, a).Spec(KindOutbox)
	large := plan(t, a, func(in *PlanInput) { in.MaxSourceBytes = 30 << 20 }).Spec(KindOutbox)
	if _, err := a.EnsureTopics(soon(t), small...); err != nil {
		t.Fatal(err)
	}
	fault := cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.IncrementalAlterConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	_, err := a.EnsureTopics(soon(t), large...)
	problem(t, err, CodeTopicSettings, "max.message.bytes=31522816", "kafka-configs")
	fault.Remove()
	if _, err := a.EnsureTopics(soon(t), large...); err != nil {
		t.Fatal(err)
	}
	l := NewLimits(a)
	if err := l.Load(soon(t), large[0].Name); err != nil {
		t.Fatal(err)
	}
	if got := l.Topic(large[0].Name); got != 30<<20+HeaderRoom {
		t.Errorf("got %d", got)
	}
	if _, err := a.EnsureTopics(soon(t), small...); err != nil {
		t.Errorf("a larger one than needed is refused: %v", err)
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(2, "outbox"))
	a := newAdmin(t, c)
	for i := range 10 {
		write(t, a, &kgo.Record{Topic: "outbox", Partition: 1, Value: []byte(strconv.Itoa(i))})
	}
	for _, offset := range []int64{4, 4, 2, 0, 10} { // again, and back, are no errors
		if err := a.Trim(soon(t), "outbox", 1, offset); err != nil {
			t.Fatalf("trim to %d: %v", offset, err)
		}
	}
	start, end, err := a.bounds(soon(t), "outbox", 1)
	if err != nil || start != 10 || end != 10 {
		t.Errorf("got %d to %d, %v, want 10 to 10", start, end, err)
	}
	if start, end, err := a.bounds(soon(t), "outbox", 0); err != nil || start != 0 || end != 0 {
		t.Errorf("the other partition: got %d to %d, %v", start, end, err)
	}
	problem(t, a.Trim(soon(t), "outbox", 1, 11), CodeTrim, "outbox-1", "offset 11", "10 to 10")
}
