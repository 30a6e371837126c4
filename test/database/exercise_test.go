//go:build services

package database

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"exactly/internal/exercise"
	"exactly/internal/services"
	"exactly/test/rig"
)

// demo runs the classic exercise as a user does.
func demo(t *testing.T, c *services.KafkaCluster, dsn string, more ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd, out, errs := demoCommand(t, c, dsn, more...)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func demoCommand(t *testing.T, c *services.KafkaCluster, dsn string, more ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	args := append([]string{"demo", "--brokers", strings.Join(c.Bootstrap(), ","), "--postgres", dsn, "--seed", "7"}, more...)
	cmd = exec.CommandContext(t.Context(), services.Exactly(t, false), args...)
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), stdout, stderr
	return cmd, stdout, stderr
}

// TestExercise: the classic exercise as a user runs it, with the topics and tables
// that people know; and that it does not take over what an earlier run left.
func TestExercise(t *testing.T) {
	c := services.Kafka(t, three)
	server := services.Postgres(t, true)
	dsn := server.DSN(server.Database(t))
	code, out, errs := demo(t, c, dsn)
	t.Logf("%s%s", errs, out)
	if code != 0 || !strings.Contains(out, "RIGHT: 1000 payments") {
		t.Fatalf("exit code %d", code)
	}
	if !strings.Contains(out, " 0.000\n") {
		t.Error("duplicate_percent is not printed as PostgreSQL gives it, with 3 digits")
	}
	infos, err := c.Admin(t).ListTopics(t.Context(), exercise.Raw, exercise.Enriched)
	rig.Check(t, err)
	configs, err := c.Admin(t).DescribeTopicConfigs(t.Context(), exercise.Raw, exercise.Enriched)
	rig.Check(t, err)
	for _, d := range infos.Sorted() {
		if d.Err != nil || len(d.Partitions) != exercise.Partitions || d.Partitions.NumReplicas() != 3 {
			t.Errorf("topic %s: %v, %d partitions, replication %d; want 4 and 3", d.Topic, d.Err, len(d.Partitions), d.Partitions.NumReplicas())
		}
	}
	for _, r := range configs {
		for _, cfg := range r.Configs {
			if cfg.Key == "min.insync.replicas" && cfg.MaybeValue() != "2" {
				t.Errorf("topic %s: min.insync.replicas %s, want 2", r.Name, cfg.MaybeValue())
			}
		}
	}
	if code, _, errs := demo(t, c, dsn); code != 3 || !strings.Contains(errs, "--fresh") {
		t.Errorf("a second run: exit code %d, want 3 and the remedy: %s", code, errs)
	}
	code, out, errs = demo(t, c, dsn, "--fresh", "--payments", "400", "--json")
	var res exercise.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil || code != 0 || !res.Right {
		t.Fatalf("a fresh run: exit code %d, %v\n%s%s", code, err, errs, out)
	}
	if res.KilledAt < 200 || res.KilledAt > 300 || len(res.Queries) != 3 || res.Queries[0].Rows[0][0] != "400" || len(res.Queries[1].Rows) != 20 {
		t.Errorf("got %+v", res)
	}
}

// ground is a cluster and databases for runs of the exercise.
type ground struct {
	*testing.T
	c      *services.KafkaCluster
	adm    *kadm.Client
	server *services.PostgresServer
}

// TestExerciseLeavesAlone: nothing that a run of the demo did not provably make itself is
// removed or taken over, nothing is made by a run that refuses, and no refusal advises
// what would be refused.
func TestExerciseLeavesAlone(t *testing.T) {
	c := services.Kafka(t, services.Options{Own: true}) // the names are fixed
	g := &ground{t, c, c.Admin(t), services.Postgres(t, true)}
	g.run("a table of the user", func(g *ground) {
		dsn := g.database("CREATE TABLE payment_records (id bigint)")
		g.refused(dsn, "payment_records")
	})
	g.run("marks of another pipeline", func(g *ground) {
		dsn := g.database(ledger + "; INSERT INTO exactly_ledger VALUES ('payments', 'records', 1, 0, 'feed', 1, 1, 0)")
		g.refused(dsn, "exactly_ledger", "'feed'")
	})
	g.run("topics of the user", func(g *ground) {
		g.create(exercise.Enriched, "payments.dlq")
		g.refused(g.database(""), exercise.Enriched, "payments.dlq")
		g.remove(exercise.Enriched, "payments.dlq")
	})
	g.run("topics made again", func(g *ground) {
		dsn := g.database(ledger + "; INSERT INTO exactly_ledger VALUES ('payments', 'mine', 1, 0, 'feed', 1, 1, 0)")
		g.right(dsn)
		g.refused(g.database(""), exercise.Raw, exercise.Enriched, "exactly.payments.g1.journal")
		g.remove(exercise.Raw)
		g.create(exercise.Raw, "exactly.payments.mine")
		g.refused(dsn, exercise.Raw, "exactly.payments.mine")
		g.remove(exercise.Raw, "exactly.payments.mine")
		g.right(dsn, "--fresh")
		if n := g.query(dsn, "SELECT count(*) FROM exactly_ledger WHERE sink = 'mine'"); n != "1" {
			g.Errorf("%s marks of a sink that the demo does not have, want 1", n)
		}
	})
	g.run("a run that was interrupted", func(g *ground) {
		g.remove(slices.Collect(maps.Keys(g.topics()))...) // nothing proves them to another database
		dsn := g.database("")
		g.interrupted(dsn)
		g.right(dsn, "--fresh")
	})
	g.run("a run that was killed with its worker", func(g *ground) {
		g.remove(slices.Collect(maps.Keys(g.topics()))...)
		dsn := g.database("")
		g.killed(dsn)
		g.right(dsn, "--fresh")
	})
}

const ledger = `CREATE TABLE exactly_ledger (
	pipeline text NOT NULL, sink text NOT NULL, generation integer NOT NULL, task integer NOT NULL,
	incarnation text NOT NULL, attempt bigint NOT NULL, epoch bigint NOT NULL, "index" bigint NOT NULL,
	PRIMARY KEY (pipeline, sink, generation, task))`

func (g *ground) run(name string, f func(g *ground)) {
	g.Run(name, func(t *testing.T) { f(&ground{t, g.c, g.adm, g.server}) })
}

// refused wants demo to refuse with --fresh as without, and to change nothing.
func (g *ground) refused(dsn string, names ...string) {
	g.Helper()
	const tables = "SELECT string_agg(oid || ' ' || relname, ', ' ORDER BY oid) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
	topics, relations := g.topics(), g.query(dsn, tables)
	for _, more := range [][]string{nil, {"--fresh"}} {
		code, _, errs := demo(g.T, g.c, dsn, more...)
		if code != 3 || strings.Contains(errs, "--fresh") {
			g.Errorf("demo %v: exit code %d, want 3 and no advice to use --fresh: %s", more, code, errs)
		}
		for _, name := range names {
			if !strings.Contains(errs, name) {
				g.Errorf("demo %v does not name %s: %s", more, name, errs)
			}
		}
		if now := g.topics(); !maps.Equal(now, topics) {
			g.Errorf("demo %v: there are the topics %v, there were %v", more, now, topics)
		}
		if now := g.query(dsn, tables); now != relations {
			g.Errorf("demo %v: there are the tables %s, there were %s", more, now, relations)
		}
	}
}

// right wants a run to succeed.
func (g *ground) right(dsn string, more ...string) {
	g.Helper()
	if code, out, errs := demo(g.T, g.c, dsn, append(more, "--payments", "300")...); code != 0 {
		g.Fatalf("demo %v: exit code %d\n%s%s", more, code, errs, out)
	}
}

// interrupted ends a run once the engine has its topics.
func (g *ground) interrupted(dsn string) {
	g.Helper()
	cmd, _, errs := demoCommand(g.T, g.c, dsn)
	rig.Check(g.T, cmd.Start())
	rig.Await(g.T, "the topics of the engine", func(context.Context) (string, bool) {
		topics := g.topics()
		return fmt.Sprint(topics), topics["exactly.payments.g1.journal"] != kadm.TopicID{} && topics["exactly.payments.g1.outbox"] != kadm.TopicID{}
	})
	rig.Check(g.T, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil {
		g.Errorf("the run was right before it was interrupted: %s", errs)
	}
}

// killed ends a run that has noted what its worker made, and could do nothing more.
func (g *ground) killed(dsn string) {
	g.Helper()
	cmd, _, _ := demoCommand(g.T, g.c, dsn)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its worker is in the group
	rig.Check(g.T, cmd.Start())
	rig.Await(g.T, "the note of the pipeline", func(context.Context) (string, bool) {
		text := g.query(dsn, "SELECT obj_description(to_regclass('payment_records'), 'pg_class')")
		return text, strings.Contains(text, "incarnation")
	})
	rig.Check(g.T, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	_ = cmd.Wait() // "signal: killed"
}

func (g *ground) topics() map[string]kadm.TopicID {
	g.Helper()
	all, err := g.adm.ListTopics(g.Context())
	rig.Check(g.T, err)
	ids := map[string]kadm.TopicID{}
	for _, d := range all {
		ids[d.Topic] = d.ID
	}
	return ids
}

func (g *ground) create(names ...string) {
	g.Helper()
	made, err := g.adm.CreateTopics(g.Context(), 1, 1, nil, names...)
	rig.Check(g.T, errors.Join(err, made.Error()))
	rig.Await(g.T, "new topics", func(context.Context) (string, bool) { // brokers learn of them a moment later
		there := g.topics()
		return fmt.Sprint(there), !slices.ContainsFunc(names, func(name string) bool { return there[name] == kadm.TopicID{} })
	})
}

func (g *ground) remove(names ...string) {
	g.Helper()
	gone, err := g.adm.DeleteTopics(g.Context(), names...)
	rig.Check(g.T, errors.Join(err, gone.Error()))
	rig.Await(g.T, "removal of topics", func(context.Context) (string, bool) {
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return g.topics()[name] == kadm.TopicID{} })
		return fmt.Sprint(left), len(left) == 0
	})
}

// database makes one, and fills it.
func (g *ground) database(sql string) (dsn string) {
	g.Helper()
	dsn = g.server.DSN(g.server.Database(g.T))
	c := g.connect(dsn)
	_, err := c.Exec(g.Context(), sql)
	rig.Check(g.T, errors.Join(err, c.Close(g.Context())))
	return dsn
}

// query gives one value, as text.
func (g *ground) query(dsn, sql string) (text string) {
	g.Helper()
	c := g.connect(dsn)
	err := c.QueryRow(g.Context(), "SELECT coalesce(("+sql+")::text, '')").Scan(&text)
	rig.Check(g.T, errors.Join(err, c.Close(g.Context())))
	return text
}

func (g *ground) connect(dsn string) *pgx.Conn {
	g.Helper()
	c, err := pgx.Connect(g.Context(), dsn)
	rig.Check(g.T, err)
	return c
}
