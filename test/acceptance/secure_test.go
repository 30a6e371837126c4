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
	"exactly/test/rig"
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
			rig.Check(t, os.WriteFile(password, []byte(u.Password+"\n"), 0o600))
			return c.Bootstrap(), fmt.Sprintf("%s  sasl: { mechanism: SCRAM-SHA-512, username: %s, password_file: %q }\n", tls(u), u.Name, password)
		}},
		{"certificate, topics given", false, func(_ *testing.T, u services.User) ([]string, string) {
			return c.BootstrapTLS(), tls(u)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := rig.New(t, c, rig.Shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
			u := c.User(t, p.Name)
			p.Brokers, p.Connection = tt.login(t, u)
			p.Connection += fmt.Sprintf("  create_topics: %t\n", tt.create)
			p.Write()
			admin := c.User(t, "admin")
			p.Auditor = &rig.Connection{Brokers: c.BootstrapTLS(), Lines: tls(admin)}
			plan := plan(p)
			wantRefused(p)
			allow(t, c, u.Name, plan.ACLs)
			if !tt.create {
				create(p, plan.Topics)
			}
			rig.Storm{
				Payments: rig.Sized(t, int64(3_000), 100_000), Rate: rig.Sized(t, 300.0, 1000),
				Kills: rig.Sized(t, 3, 50), Zombies: 1, Workers: 2,
			}.Over(p)
		})
	}
}

// tls are the lines of a client certificate, under kafka:.
func tls(u services.User) string {
	return fmt.Sprintf("  tls: { enabled: true, ca_file: %q, cert_file: %q, key_file: %q }\n", u.CAFile, u.CertFile, u.KeyFile)
}

// plan is what `exactly validate` says that the pipeline needs.
func plan(p *rig.Pipeline) broker.Plan {
	p.T.Helper()
	code, out, errs := p.Command("validate", p.File, "--json")
	var v struct{ Plan broker.Plan }
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil {
		p.T.Fatalf("validate: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return v.Plan
}

// wantRefused starts a worker that has no rights.
func wantRefused(p *rig.Pipeline) {
	p.T.Helper()
	w := p.Run(0)
	code := w.Exit()
	if code != 3 || !strings.Contains(w.Last(), "ACL") {
		p.T.Errorf("without any right: exit code %d, %s", code, w.Last())
	}
}

// create makes the pipeline's own topics as the plan has them.
func create(p *rig.Pipeline, topics []broker.TopicSpec) {
	p.T.Helper()
	for _, s := range topics {
		if !s.Ours() {
			continue
		}
		conf := map[string]*string{}
		for k, v := range s.Config {
			conf[k] = &v
		}
		_, err := p.Admin.CreateTopic(p.T.Context(), s.Partitions, -1, conf, s.Name)
		rig.Check(p.T, err)
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
