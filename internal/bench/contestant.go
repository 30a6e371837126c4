package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"exactly/sink"
)

// contestant is one way to do the work.
type contestant struct {
	guarantee sink.Guarantee // of the engine; "": the hand-written loop
	interval  time.Duration
	static    bool   // the loop has a static group member id, which its user chose
	mode      string // of a table in PostgreSQL that is written as well, whose rows count; "": none
}

// baseline is the interval at which the guarantees are compared.
const baseline = 100 * time.Millisecond

// quick is the interval for which the latency is wanted.
const quick = 10 * time.Millisecond

func (c contestant) name() string {
	what := string(c.guarantee)
	switch {
	case c.guarantee == "" && c.static:
		what = "loop, static id"
	case c.guarantee == "":
		what = "loop"
	}
	if what += " " + c.interval.String(); c.mode != "" {
		what += ", rows by " + c.mode
	}
	return what
}

// once reports whether a duplicate in its output is an error.
func (c contestant) once() bool { return c.guarantee != sink.AtLeastOnce }

func (o Options) sweep() []contestant {
	var cs []contestant
	for _, i := range o.Intervals {
		cs = append(cs, contestant{guarantee: sink.ExactlyOnce, interval: i})
	}
	return cs
}

func (o Options) throughputContestants() []contestant {
	return append([]contestant{
		{interval: baseline},
		{guarantee: sink.AtLeastOnce, interval: baseline},
	}, o.sweep()...)
}

func (o Options) latencyContestants() []contestant {
	return append([]contestant{
		{interval: quick},
		{interval: baseline},
		{guarantee: sink.AtLeastOnce, interval: baseline},
	}, o.sweep()...)
}

// restartContestants: without a static id, the loop waits for the session
// time-out of the member that died, so it is killed in the first round only.
func (o Options) restartContestants(round int) []contestant {
	var cs []contestant
	if round == 0 && !o.StaticOnly {
		cs = append(cs, contestant{interval: baseline})
	}
	cs = append(cs, contestant{interval: baseline, static: true}, contestant{guarantee: sink.AtLeastOnce, interval: baseline})
	for _, i := range []time.Duration{quick, baseline} {
		if slices.Contains(o.Intervals, i) {
			cs = append(cs, contestant{guarantee: sink.ExactlyOnce, interval: i})
		}
	}
	if o.Postgres != "" && slices.Contains(o.Intervals, baseline) {
		for _, mode := range []string{"upsert", "two_phase"} {
			cs = append(cs, contestant{guarantee: sink.ExactlyOnce, interval: baseline, mode: mode})
		}
	}
	return cs
}

// job is what one process of a contestant works on.
type job struct {
	contestant
	tasks    int    // 0: the default
	id       string // unique: the pipeline's or the group's name
	from, to string // topics
	dir      string // stays from one process to the next
	table    string // "": none
}

// group is the consumer group that holds the job's offsets.
func (j job) group() string {
	if j.guarantee == "" {
		return j.id
	}
	return "exactly." + j.id
}

// pipelineFile is what a user would write, with every setting that is not given
// at its default.
const pipelineFile = `pipeline: {{id}}
guarantee: {{guarantee}}
kafka: { brokers: [{{brokers}}] }
source: { topics: [{{from}}] }
{{tasks}}epoch: { interval: {{interval}} }
steps:
  - where: amount_cents > 0
  - set:
      status: 'amount_cents >= 40000 ? "review" : "ok"'
      fee_cents: amount_cents * 29 / 1000 + 30
      processed_at: epoch.time
sinks:
  enriched: { kafka: { topic: {{to}}, key: payment_id } }
{{rows}}dead_letters: { topic: {{id}}.dlq }
worker: { dir: {{dir}} }
http: { listen: "" }
`

// dsnVariable tells a process where the database is: a pipeline file is kept.
const dsnVariable = "EXACTLY_BENCH_DSN"

// arguments are those of this program for a process of the job.
func (j job) arguments(brokers []string) ([]string, error) {
	if j.guarantee == "" {
		args := []string{
			"bench", "loop", "--brokers", strings.Join(brokers, ","), "--from", j.from, "--to", j.to,
			"--group", j.id, "--interval", j.interval.String(),
		}
		if j.static {
			args = append(args, "--static")
		}
		return args, nil
	}
	quoted := make([]string, len(brokers))
	for i, b := range brokers {
		quoted[i] = strconv.Quote(b)
	}
	tasks := ""
	if j.tasks > 0 {
		tasks = fmt.Sprintf("tasks: %d\n", j.tasks)
	}
	rows := ""
	if j.table != "" {
		rows = fmt.Sprintf("  rows: { postgres: { dsn: \"${%s}\", table: %s, mode: %s, key: [payment_id] } }\n", dsnVariable, strconv.Quote(j.table), j.mode)
	}
	text := strings.NewReplacer(
		"{{id}}", j.id, "{{guarantee}}", string(j.guarantee), "{{brokers}}", strings.Join(quoted, ", "),
		"{{from}}", j.from, "{{to}}", j.to, "{{interval}}", j.interval.String(), "{{dir}}", strconv.Quote(j.dir), "{{tasks}}", tasks, "{{rows}}", rows,
	).Replace(pipelineFile)
	path := filepath.Join(j.dir, "pipeline.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("write the pipeline file: %w", err)
	}
	return []string{"run", path}, nil
}
