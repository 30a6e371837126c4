package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Text gives the plan for people: the topics, then the ACLs.
func (p Plan) Text() string {
	var b strings.Builder
	b.WriteString("Topics\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, t := range p.Topics {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", t.Name, t.Kind, t.partitions(), t.replicas())
	}
	w.Flush()
	for _, t := range p.Topics {
		if len(t.Config) > 0 {
			fmt.Fprintf(&b, "\n  %s\n", t.Name)
			for _, k := range slices.Sorted(maps.Keys(t.Config)) {
				fmt.Fprintf(&b, "    %s=%s\n", k, t.Config[k])
			}
		}
	}
	b.WriteString("\nACLs for the user that the workers log in as\n")
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, a := range p.ACLs {
		why := a.Why
		if a.Optional {
			why = "optional: " + why
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", a.Resource, a.Name, a.Pattern, strings.Join(a.Operations, ","), why)
	}
	w.Flush()
	return b.String()
}

func (s TopicSpec) partitions() string {
	switch {
	case !s.Ours():
		return "must exist"
	case s.Partitions == 0:
		return "as many partitions as the source"
	case s.Partitions == 1:
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", s.Partitions)
}

func (s TopicSpec) replicas() string {
	switch {
	case !s.Ours():
		return ""
	case s.Replication == 0:
		return "3 replicas where there are 3 brokers"
	case s.Replication == 1:
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", s.Replication)
}

// Commands gives the plan as commands of Kafka's own tools, for a cluster where
// the program may not create topics: bootstrap is host:port, principal as in
// "User:payments".
func (p Plan) Commands(bootstrap, principal string) []string {
	var out []string
	for _, t := range p.Topics {
		if t.Ours() && t.Partitions > 0 {
			out = append(out, t.createCommand(bootstrap))
		}
	}
	for _, a := range p.ACLs {
		out = append(out, a.command(bootstrap, principal))
	}
	return out
}

func (s TopicSpec) createCommand(bootstrap string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-topics --bootstrap-server %s --create --if-not-exists --topic %s --partitions %d", bootstrap, s.Name, s.Partitions)
	conf := merge(s.Config)
	if s.Replication > 0 {
		fmt.Fprintf(&b, " --replication-factor %d", s.Replication)
		conf["min.insync.replicas"] = minInsync(s.Replication)
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		fmt.Fprintf(&b, " --config %s=%s", k, conf[k])
	}
	return b.String()
}

func (a ACL) command(bootstrap, principal string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-acls --bootstrap-server %s --add --allow-principal %s", bootstrap, principal)
	for _, op := range a.Operations {
		b.WriteString(" --operation " + op)
	}
	switch a.Resource {
	case "cluster":
		b.WriteString(" --cluster")
	case "transactional_id":
		b.WriteString(" --transactional-id " + a.Name)
	default:
		b.WriteString(" --" + a.Resource + " " + a.Name)
	}
	if a.Pattern == "prefixed" {
		b.WriteString(" --resource-pattern-type prefixed")
	}
	return b.String()
}
