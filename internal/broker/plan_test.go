package broker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	in := PlanInput{
		Names: Names{"exactly", "payments", 2}, Tasks: 4, Sources: []string{"payments.raw"},
		Outputs: []string{"payments.enriched"}, State: true, CreateTopics: true, Start: "group:old-app",
		MaxSourceBytes: 20 << 20,
	}
	p, err := NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{
		"exactly.payments.meta": {"cleanup.policy": "compact", "retention.ms": "-1"},
		"exactly.payments.g2.journal": {
			"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1", "min.cleanable.dirty.ratio": "0.01",
			"delete.retention.ms": "300000", "max.message.bytes": "4194304", "segment.bytes": "16777216",
		},
		"exactly.payments.g2.outbox": {
			"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
			"max.message.bytes": "21037056", "segment.bytes": "42074112",
		},
		"exactly.payments.g2.state": {"cleanup.policy": "compact", "delete.retention.ms": "86400000", "max.message.bytes": "21037056"},
		"payments.dlq":              {"cleanup.policy": "delete", "max.message.bytes": "21037056"},
		"payments.raw":              nil,
		"payments.enriched":         nil,
	}
	if len(p.Topics) != len(want) {
		t.Errorf("got %d topics, want %d", len(p.Topics), len(want))
	}
	for _, topic := range p.Topics {
		conf, ok := want[topic.Name]
		if !ok {
			t.Errorf("topic %s is not wanted", topic.Name)
		}
		for k, v := range conf {
			if topic.Config[k] != v {
				t.Errorf("%s: %s is %q, want %q", topic.Name, k, topic.Config[k], v)
			}
		}
	}
	checkPlanForms(t, p)
}

func checkPlanForms(t *testing.T, p Plan) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Plan
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Text() != p.Text() {
		t.Error("the JSON form does not give the same plan")
	}
	for _, part := range []string{
		"exactly.payments.g2.outbox", "4 partitions", "must exist", "retention.ms=-1",
		"transactional_id", "Create,Delete,Describe,DescribeConfigs,Read,Write", "old-app",
	} {
		if !strings.Contains(p.Text(), part) {
			t.Errorf("text lacks %q:\n%s", part, p.Text())
		}
	}
	commands := strings.Join(p.Commands("b:9092", "User:payments"), "\n")
	for _, part := range []string{
		"kafka-topics --bootstrap-server b:9092 --create --if-not-exists --topic exactly.payments.g2.journal --partitions 4 --config cleanup.policy=compact",
		"kafka-acls --bootstrap-server b:9092 --add --allow-principal User:payments --operation Describe --operation Write --transactional-id exactly.payments. --resource-pattern-type prefixed",
		"--group old-app", "--cluster",
	} {
		if !strings.Contains(commands, part) {
			t.Errorf("commands lack %q:\n%s", part, commands)
		}
	}
	if strings.Contains(commands, "--create --if-not-exists --topic payments.raw") {
		t.Error("commands create a topic of the user")
	}
}

func TestPlanRights(t *testing.T) {
	t.Parallel()
	// A source that is written to as well has both rights in one entry; without
	// create_topics nobody needs Create.
	p, err := NewPlan(PlanInput{
		Names: Names{"exactly", "payments", 1}, Tasks: 1, Sources: []string{"loop"}, Outputs: []string{"loop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range p.ACLs {
		if slices.Contains(a.Operations, "Create") || slices.Contains(a.Operations, "AlterConfigs") {
			t.Errorf("asks for %v on %s", a.Operations, a.Name)
		}
		if a.Name == "loop" {
			n++
			if want := []string{"Describe", "DescribeConfigs", "Read", "Write"}; !slices.Equal(a.Operations, want) {
				t.Errorf("loop: got %v, want %v", a.Operations, want)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d entries for the topic, want 1", n)
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	good := PlanInput{Names: Names{"exactly", "payments", 1}, Tasks: 1, Sources: []string{"in"}}
	for name, tc := range map[string]struct {
		change func(*PlanInput)
		code   Code
		part   string
	}{
		"tasks":        {func(in *PlanInput) { in.Tasks = 0 }, CodeConfig, "tasks"},
		"replication":  {func(in *PlanInput) { in.Replication = 1 << 20 }, CodeConfig, "kafka.replication"},
		"pipeline":     {func(in *PlanInput) { in.Names.Pipeline = "?" }, CodeName, "pipeline"},
		"source":       {func(in *PlanInput) { in.Sources = []string{"a b"} }, CodeName, "source.topics"},
		"dead letter":  {func(in *PlanInput) { in.DeadLetter = strings.Repeat("x", 250) }, CodeName, "dead_letters.topic"},
		"own as input": {func(in *PlanInput) { in.Sources = []string{"exactly.payments.g1.outbox"} }, CodeName, "of the pipeline itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := good
			tc.change(&in)
			_, err := NewPlan(in)
			problem(t, err, tc.code, tc.part)
		})
	}
	bad := good
	bad.Names.Generation = 0
	if _, err := NewPlan(bad); err == nil {
		t.Error("generation 0 is taken")
	}
}

// TestPlanCreatesOutputs: an output that is created where it is missing needs
// the right, and is not said to have to exist.
func TestPlanCreatesOutputs(t *testing.T) {
	t.Parallel()
	p, err := NewPlan(PlanInput{
		Names: Names{"exactly", "payments", 1}, Tasks: 1, Sources: []string{"in"}, Outputs: []string{"made", "there"}, Created: []string{"made"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range p.ACLs {
		if want := a.Name == "made"; (a.Name == "made" || a.Name == "there") && slices.Contains(a.Operations, "Create") != want {
			t.Errorf("rights on %s: %v", a.Name, a.Operations)
		}
	}
	for _, line := range strings.Split(p.Text(), "\n") {
		if strings.HasPrefix(line, "  made ") && strings.Contains(line, "must exist") {
			t.Errorf("plan says %q", line)
		}
	}
}
