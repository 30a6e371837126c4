//go:build services

package acceptance

import (
	"strings"
	"testing"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestRefusedStarts: what would lose or double records stops the start, with
// the cause and what to do.
func TestRefusedStarts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(p *rig.Pipeline) // the pipeline has run, and is stopped
		code   int
		want   []string
		remedy func(p *rig.Pipeline) // as the refusal says
	}{
		{
			"source topic deleted and made again", (*rig.Pipeline).Recreate, 3,
			[]string{"was deleted and made again", "exactly reset"},
			func(p *rig.Pipeline) { p.Reset("--to", "earliest") },
		},
		{
			"same name, other tasks", func(p *rig.Pipeline) { p.Tasks = 3; p.Write() }, 3,
			[]string{"tasks", "2 there and 3 here", "made 20", " by "},
			func(p *rig.Pipeline) { p.Reset() },
		},
		{
			"same name, other source", func(p *rig.Pipeline) { p.Raw = p.Cluster.Topic(p.T, "other", 4, nil); p.Write() }, 3,
			[]string{"source.topics", "exactly reset"},
			func(p *rig.Pipeline) { p.Reset("--to", "earliest") },
		},
		{
			"offsets moved by hand", func(p *rig.Pipeline) { p.MoveOffset(-3) }, 3,
			[]string{"the committed offset is", "exactly reset --to", "or move it back"},
			func(p *rig.Pipeline) { p.MoveOffset(3) },
		},
		{
			"offsets moved by hand, reset", func(p *rig.Pipeline) { p.MoveOffset(-3) }, 3,
			[]string{"exactly reset --to"},
			func(p *rig.Pipeline) { p.Reset() },
		},
		{
			"journal with finite retention", func(p *rig.Pipeline) { p.SetTopic(p.Journal(), "retention.ms", "604800000") }, 3,
			[]string{"retention.ms", "604800000", "kafka-configs", ".g1.journal"},
			func(p *rig.Pipeline) { p.SetTopic(p.Journal(), "retention.ms", "-1") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := rig.New(t, services.Kafka(t, one), rig.Shape{Sinks: []string{"enriched"}, Tasks: 2})
			ids := p.Batch(0, 50)
			w := p.Run(0)
			p.WantOutput(ids)
			p.Stop(w)
			tt.before(p)
			p.Refused(tt.code, tt.want...)
			tt.remedy(p)
			w = p.Run(0)
			ids = append(ids, p.Batch(50, 50)...)
			p.WantOutput(ids)
			p.Stop(w)
		})
	}
}

// TestTransactionTimeoutRefused: brokers that allow less than the settings come
// to are no surprise in the middle of a run.
func TestTransactionTimeoutRefused(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 1, Settings: "transaction.max.timeout.ms=60000", Own: true})
	p := rig.New(t, c, rig.Shape{Sinks: []string{"enriched"}, Tasks: 2})
	p.Refused(2, "2m0.2s", "the brokers allow 1m0s", "transaction.max.timeout.ms", "lower epoch.timeout to at most 59.8s")
	p.Epoch = "{ timeout: 59s }"
	p.Write()
	w := p.Run(0)
	p.WantOutput(p.Batch(0, 50))
	p.Stop(w)
}

// TestSourceRecreatedUnderWorkers: a running worker notices as well.
func TestSourceRecreatedUnderWorkers(t *testing.T) {
	p := rig.New(t, services.Kafka(t, one), rig.Shape{Sinks: []string{"enriched"}, Tasks: 2})
	ids := p.Batch(0, 50)
	w := p.Run(0)
	p.WantOutput(ids)
	rig.Check(t, w.Freeze(t.Context())) // or it may see the topic missing, which is another answer
	p.Recreate()
	rig.Check(t, w.Thaw())
	if code := w.Exit(); code != 3 || !strings.Contains(w.Last(), "was deleted and made again") {
		t.Errorf("exit code %d, %s", code, w.Last())
	}
}
