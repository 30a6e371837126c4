//go:build services

package acceptance

import (
	"testing"
	"time"

	"exactly/internal/services"
)

// sessionTimeout is the default, the least that brokers allow.
const sessionTimeout = 6 * time.Second

// TestThreeWorkers: under steady load one worker is stopped gracefully, which
// aborts nothing; one is killed, and its tasks go on elsewhere within the
// session time-out and a second; one is added.
func TestThreeWorkers(t *testing.T) {
	c := services.Kafka(t, three)
	// Epochs that leave a small machine with three brokers some room: what is
	// timed is the takeover, not a queue.
	p := newPipeline(t, c, shape{
		Partitions: 6, Outputs: 2, Tasks: 6, Epoch: "{ interval: 250ms }",
	})
	l := p.load(sized(t, 100.0, 1000), 0)
	l.watch(p.Tasks, nil)
	out := p.outputs()
	ws := []*worker{p.start(0), p.start(1), p.start(2)}
	p.awaitTasks(6, ws...)
	l.atLeast(1000)
	out.current(l)

	aborts := p.aborts()
	left := ws[0].tasks()
	p.stop(ws[0])
	handed := out.since(l, time.Now(), left)
	t.Logf("tasks %v of the stopped worker gave output again after %s", left, handed)
	ws = ws[1:]
	p.awaitTasks(6, ws...)
	out.current(l)
	if now := p.aborts(); now != aborts {
		t.Errorf("the graceful stop aborted transactions: %d abort markers, before it %d", now, aborts)
	}

	lost := ws[0].tasks()
	from := time.Now()
	check(t, ws[0].Kill())
	took := out.since(l, from, lost)
	ws = ws[1:]
	t.Logf("tasks %v of the killed worker gave output again after %s", lost, took)
	if limit := sessionTimeout + time.Second; took > limit {
		t.Errorf("tasks %v were taken over after %s, want %s at most", lost, took, limit)
	}
	out.current(l)
	if p.aborts() == aborts {
		t.Error("a killed worker left no abort marker: the check above can see none")
	}

	aborts = p.aborts()
	ws = append(ws, p.start(3))
	p.awaitTasks(6, ws...)
	out.current(l)
	if now := p.aborts(); now != aborts {
		t.Errorf("handing tasks to the added worker aborted transactions: %d abort markers, before it %d", now, aborts)
	}

	n := l.stop()
	p.partner.calm()
	l.complete(ws...)
	p.stop(ws...)
	l.wantDecided()
	p.wantRight(n)
}
