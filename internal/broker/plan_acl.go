package broker

import (
	"slices"
)

// ACL is one right that the workers' user needs. The names of operations and
// kinds are those of kafka-acls.
type ACL struct {
	Resource   string   `json:"resource"` // topic, group, transactional_id or cluster
	Name       string   `json:"name"`
	Pattern    string   `json:"pattern"` // literal or prefixed
	Operations []string `json:"operations"`
	Optional   bool     `json:"optional,omitempty"` // it works without, with what Why says
	Why        string   `json:"why"`
}

// acls lists the least rights. Where Kafka lets one operation imply another
// (Read and Write imply Describe), both are listed, since other brokers differ.
// IdempotentWrite on the cluster is not needed: transactional producers need
// Write on their id only, and others since 2.8 (KIP-679) Write on any topic.
func (in PlanInput) acls() []ACL {
	var out []ACL
	topic := func(name, pattern, why string, ops ...string) {
		slices.Sort(ops)
		for i := range out {
			if out[i].Resource == "topic" && out[i].Name == name && out[i].Pattern == pattern {
				ops = append(ops, out[i].Operations...)
				slices.Sort(ops)
				out[i].Operations = slices.Compact(ops)
				out[i].Why += "; " + why
				return
			}
		}
		out = append(out, ACL{Resource: "topic", Name: name, Pattern: pattern, Operations: ops, Why: why})
	}
	for _, t := range in.Sources {
		topic(t, "literal", "source: fetch, list and commit offsets, learn the record size", "Read", "Describe", "DescribeConfigs")
	}
	for _, t := range in.Outputs {
		ops := []string{"Write", "Describe", "DescribeConfigs"}
		if slices.Contains(in.Created, t) {
			ops = append(ops, "Create")
		}
		topic(t, "literal", "output", ops...)
	}
	dead := []string{"Write", "Describe", "DescribeConfigs"}
	own := []string{"Read", "Write", "Describe", "DescribeConfigs", "Delete"}
	if in.CreateTopics {
		dead, own = append(dead, "Create"), append(own, "Create")
	}
	topic(in.DeadLetter, "literal", "dead letters", dead...)
	topic(in.Names.Own(), "prefixed", "the pipeline's own topics; Delete is for DeleteRecords, which trims the outbox", own...)
	out = append(out,
		ACL{
			Resource: "transactional_id", Name: in.Names.Own(), Pattern: "prefixed",
			Operations: []string{"Describe", "Write"}, Why: "transactions of the tasks and of the meta record",
		},
		ACL{
			Resource: "group", Name: in.Names.Group(), Pattern: "literal",
			Operations: []string{"Describe", "Read"}, Why: "membership and source offsets",
		})
	if s, err := ParseStart(in.Start); err == nil && s.Group != "" && s.Group != in.Names.Group() {
		out = append(out, ACL{
			Resource: "group", Name: s.Group, Pattern: "literal",
			Operations: []string{"Describe"}, Why: "start offsets are taken over from this group, once",
		})
	}
	if in.CreateTopics {
		out = append(out, ACL{
			Resource: "topic", Name: in.Names.Own(), Pattern: "prefixed", Operations: []string{"AlterConfigs"}, Optional: true,
			Why: "raises max.message.bytes of the outbox when the source's was raised; without it the start prints the command",
		})
	}
	return append(out, ACL{
		Resource: "cluster", Name: "kafka-cluster", Pattern: "literal", Operations: []string{"DescribeConfigs"}, Optional: true,
		Why: "checks the transaction time-out against the broker's maximum before the start; without it the broker refuses later",
	})
}
