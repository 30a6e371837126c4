//go:build services

package acceptance

import (
	"strings"
	"testing"

	"exactly/internal/services"
)

// TestRefusedStarts: what would lose or double records stops the start, with
// the cause and what to do.
func TestRefusedStarts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(p *pipeline) // the pipeline has run, and is stopped
		code   int
		want   []string
		remedy func(p *pipeline) // as the refusal says
	}{
		{
			"source topic deleted and made again", (*pipeline).recreate, 3,
			[]string{"was deleted and made again", "exactly reset"},
			func(p *pipeline) { p.reset("--to", "earliest") },
		},
		{
			"same name, other tasks", func(p *pipeline) { p.Tasks = 3; p.write() }, 3,
			[]string{"tasks", "2 there and 3 here", "made 20", " by "},
			func(p *pipeline) { p.reset() },
		},
		{
			"same name, other source", func(p *pipeline) { p.Raw = p.c.Topic(p.t, "other", 4, nil); p.write() }, 3,
			[]string{"source.topics", "exactly reset"},
			func(p *pipeline) { p.reset("--to", "earliest") },
		},
		{
			"offsets moved by hand", func(p *pipeline) { p.moveOffset(-3) }, 3,
			[]string{"the committed offset is", "exactly reset --to", "or move it back"},
			func(p *pipeline) { p.moveOffset(3) },
		},
		{
			"offsets moved by hand, reset", func(p *pipeline) { p.moveOffset(-3) }, 3,
			[]string{"exactly reset --to"},
			func(p *pipeline) { p.reset() },
		},
		{
			"journal with finite retention", func(p *pipeline) { p.setTopic(p.journal(), "retention.ms", "604800000") }, 3,
			[]string{"retention.ms", "604800000", "kafka-configs", ".g1.journal"},
			func(p *pipeline) { p.setTopic(p.journal(), "retention.ms", "-1") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPipeline(t, services.Kafka(t, one), shape{Sinks: []string{"enriched"}, Tasks: 2})
			ids := p.batch(0, 50)
			w := p.start(0)
			p.wantOutput(ids)
			p.stop(w)
			tt.before(p)
			p.refused(tt.code, tt.want...)
			tt.remedy(p)
			w = p.start(0)
			ids = append(ids, p.batch(50, 50)...)
			p.wantOutput(ids)
			p.stop(w)
		})
	}
}

// reset begins a new generation.
func (p *pipeline) reset(args ...string) {
	p.t.Helper()
	code, out, errs := p.command(append([]string{"reset", p.file}, args...)...)
	if code != 0 {
		p.t.Fatalf("reset: exit code %d\n%s%s", code, out, errs)
	}
}

// refused starts a worker and wants it to end with this exit code and these
// words.
func (p *pipeline) refused(code int, words ...string) {
	p.t.Helper()
	w := p.start(0)
	got := w.exit()
	last := w.last()
	for _, word := range words {
		if !strings.Contains(last, word) {
			p.t.Errorf("the refusal does not say %q", word)
		}
	}
	if got != code {
		p.t.Errorf("exit code %d, want %d", got, code)
	}
	p.t.Logf("%s", lastLine(last))
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\nexactly:")+1:]
}

// TestTransactionTimeoutRefused: brokers that allow less than the settings come
// to are no surprise in the middle of a run.
func TestTransactionTimeoutRefused(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 1, Settings: "transaction.max.timeout.ms=60000", Own: true})
	p := newPipeline(t, c, shape{Sinks: []string{"enriched"}, Tasks: 2})
	p.refused(2, "2m0.2s", "the brokers allow 1m0s", "transaction.max.timeout.ms", "lower epoch.timeout to at most 59.8s")
	p.Epoch = "{ timeout: 59s }"
	p.write()
	w := p.start(0)
	p.wantOutput(p.batch(0, 50))
	p.stop(w)
}

// TestSourceRecreatedUnderWorkers: a running worker notices as well.
func TestSourceRecreatedUnderWorkers(t *testing.T) {
	p := newPipeline(t, services.Kafka(t, one), shape{Sinks: []string{"enriched"}, Tasks: 2})
	ids := p.batch(0, 50)
	w := p.start(0)
	p.wantOutput(ids)
	check(t, w.Freeze(t.Context())) // or it may see the topic missing, which is another answer
	p.recreate()
	check(t, w.Thaw())
	if code := w.exit(); code != 3 || !strings.Contains(w.last(), "was deleted and made again") {
		t.Errorf("exit code %d, %s", code, w.last())
	}
}
