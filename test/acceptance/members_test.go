//go:build services

package acceptance

import (
	"testing"
	"time"

	"exactly/internal/services"
	"exactly/test/rig"
)

// sessionTimeout is the default, the least that brokers allow.
const sessionTimeout = 6 * time.Second

// TestThreeWorkers: under steady load one worker is stopped gracefully, which
// aborts nothing; one is killed, and its tasks go on elsewhere within the
// session time-out and a second; one is added.
func TestThreeWorkers(t *testing.T) {
	// One broker, and epochs that leave a small machine some room: what is timed is
	// the takeover, not a queue for the processors.
	c := services.Kafka(t, one)
	p := rig.New(t, c, rig.Shape{
		Partitions: 6, Outputs: 2, Tasks: 6, Epoch: "{ interval: 250ms }",
	})
	l := p.Load(rig.Sized(t, 100.0, 1000), 0)
	l.Watch(p.Tasks, nil)
	out := p.Follow()
	ws := []*rig.Worker{p.Run(0), p.Run(1), p.Run(2)}
	p.AwaitTasks(6, ws...)
	l.AtLeast(1000)
	out.Current(l)

	aborts := p.Aborts()
	left := ws[0].Tasks()
	p.Stop(ws[0])
	handed := out.Since(l, time.Now(), left)
	t.Logf("tasks %v of the stopped worker gave output again after %s", left, handed)
	ws = ws[1:]
	p.AwaitTasks(6, ws...)
	out.Current(l)
	if now := p.Aborts(); now != aborts {
		t.Errorf("the graceful stop aborted transactions: %d abort markers, before it %d", now, aborts)
	}

	lost := ws[0].Tasks()
	from := time.Now()
	rig.Check(t, ws[0].Kill())
	took := out.Since(l, from, lost)
	ws = ws[1:]
	t.Logf("tasks %v of the killed worker gave output again after %s", lost, took)
	if limit := sessionTimeout + time.Second; took > limit {
		t.Errorf("tasks %v were taken over after %s, want %s at most", lost, took, limit)
	}
	out.Current(l)
	if p.Aborts() == aborts {
		t.Error("a killed worker left no abort marker: the check above can see none")
	}

	aborts = p.Aborts()
	ws = append(ws, p.Run(3))
	p.AwaitTasks(6, ws...)
	out.Current(l)
	if now := p.Aborts(); now != aborts {
		t.Errorf("handing tasks to the added worker aborted transactions: %d abort markers, before it %d", now, aborts)
	}

	n := l.Stop()
	p.Partner.Calm()
	l.Complete(ws...)
	p.Stop(ws...)
	l.WantDecided()
	p.WantRight(n)
}
