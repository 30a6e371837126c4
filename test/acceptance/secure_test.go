//go:build services

package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"exactly/internal/broker"
	"exactly/internal/services"
)

var secure = services.Options{Nodes: 3, Secure: true, Own: true}

// TestKillsWithPlannedRightsOnly: over SASL_SSL with SCRAM, and with a client
// certificate alone, by a user who has the rights that `exactly validate`
// prints and no other; with topics that the program makes, and with topics that
// were made from the same plan.
func TestKillsWithPlannedRightsOnly(t *testing.T) {
	c := services.Kafka(t, secure)
	for _, tt := range []struct {
		name   string
		create bool
		login  func(t *testing.T, u services.User) (brokers []string, lines string)
	}{
		{"SCRAM, topics created", true, func(t *testing.T, u services.User) ([]string, string) {
			password := filepath.Join(t.TempDir(), "password")
			check(t, os.WriteFile(password, []byte(u.Password+"\n"), 0o600))
			return c.Bootstrap(), fmt.Sprintf("%s  sasl: { mechanism: SCRAM-SHA-512, username: %s, password_file: %q }\n", tls(u), u.Name, password)
		}},
		{"certificate, topics given", false, func(_ *testing.T, u services.User) ([]string, string) {
			return c.BootstrapTLS(), tls(u)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPipeline(t, c, shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
			u := c.User(t, p.Name)
			p.Brokers, p.Connection = tt.login(t, u)
			p.Connection += fmt.Sprintf("  create_topics: %t\n", tt.create)
			p.write()
			admin := c.User(t, "admin")
			p.auditor = &connection{c.BootstrapTLS(), tls(admin)}
			plan := p.plan()
			p.wantRefused()
			allow(t, c, u.Name, plan.ACLs)
			if !tt.create {
				p.create(plan.Topics)
			}
			storm{
				payments: sized(t, int64(3_000), 100_000), rate: sized(t, 300.0, 1000),
				kills: sized(t, 3, 50), zombies: 1, workers: 2,
			}.over(p)
		})
	}
}

// tls are the lines of a client certificate, under kafka:.
func tls(u services.User) string {
	return fmt.Sprintf("  tls: { enabled: true, ca_file: %q, cert_file: %q, key_file: %q }\n", u.CAFile, u.CertFile, u.KeyFile)
}

// plan is what `exactly validate` says that the pipeline needs.
func (p *pipeline) plan() broker.Plan {
	p.t.Helper()
	code, out, errs := p.command("validate", p.file, "--json")
	var v struct{ Plan broker.Plan }
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil {
		p.t.Fatalf("validate: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return v.Plan
}

// wantRefused starts a worker that has no rights.
func (p *pipeline) wantRefused() {
	p.t.Helper()
	w := p.start(0)
	code := w.exit()
	if code != 3 || !strings.Contains(w.last(), "ACL") {
		p.t.Errorf("without any right: exit code %d, %s", code, w.last())
	}
}

// create makes the pipeline's own topics as the plan has them.
func (p *pipeline) create(topics []broker.TopicSpec) {
	p.t.Helper()
	for _, s := range topics {
		if !s.Ours() {
			continue
		}
		conf := map[string]*string{}
		for k, v := range s.Config {
			conf[k] = &v
		}
		_, err := p.adm.CreateTopic(p.t.Context(), s.Partitions, -1, conf, s.Name)
		check(p.t, err)
	}
}

// operations are the names in a plan.
var operations = map[string]kadm.ACLOperation{
	"Read": kadm.OpRead, "Write": kadm.OpWrite, "Create": kadm.OpCreate, "Delete": kadm.OpDelete,
	"Describe": kadm.OpDescribe, "DescribeConfigs": kadm.OpDescribeConfigs,
}

// allow grants what the plan lists, without what it calls optional.
func allow(t *testing.T, c *services.KafkaCluster, user string, acls []broker.ACL) {
	t.Helper()
	for _, a := range acls {
		if a.Optional {
			continue
		}
		b := kadm.NewACLs().Allow("User:" + user).AllowHosts("*")
		switch a.Resource {
		case "topic":
			b.Topics(a.Name)
		case "group":
			b.Groups(a.Name)
		case "transactional_id":
			b.TransactionalIDs(a.Name)
		default:
			t.Fatalf("a right on %s is not optional", a.Resource)
		}
		pattern := map[string]kadm.ACLPattern{"literal": kadm.ACLPatternLiteral, "prefixed": kadm.ACLPatternPrefixed}[a.Pattern]
		var ops []kadm.ACLOperation
		for _, name := range a.Operations {
			op, ok := operations[name]
			if !ok {
				t.Fatalf("the plan names operation %s", name)
			}
			ops = append(ops, op)
		}
		c.Allow(t, b.Operations(ops...).ResourcePatternType(pattern))
	}
}
