//go:build services

package failures

import (
	"strings"
	"testing"

	"exactly/internal/failpoint"
	"exactly/internal/services"
	"exactly/test/rig"
)

// TestKillMatrix kills a worker with SIGKILL at each fail point, for each sink by
// itself. Those of PostgreSQL are in test/database.
func TestKillMatrix(t *testing.T) {
	c := services.Kafka(t, three)
	for _, sink := range []string{"enriched", "records", "lake", "partner"} {
		t.Run(sink, func(t *testing.T) {
			rig.KillAtEachPoint(rig.New(t, c, rig.MatrixShape(sink)))
		})
	}
}

// TestKillsInReset kills the command that begins a new generation at each of
// its points; called again, it goes on where it stopped.
func TestKillsInReset(t *testing.T) {
	c := services.Kafka(t, three)
	p := rig.New(t, c, rig.Shape{Tasks: 2, Restart: forever, RollAge: "100ms"})
	l := p.Load(200, 0)
	n := 0
	for _, place := range failpoint.Points() {
		at := place.Point
		if !strings.HasPrefix(string(at), "reset/") && !strings.HasPrefix(string(at), "takeover/") {
			continue
		}
		w := p.Run(0)
		p.AwaitTasks(2, w)
		l.AtLeast(l.Written() + 50)
		p.Stop(w)
		p.ResetKilled(string(at) + ":hit=1=kill")
		p.Reset()
		n++
	}
	w := p.Run(0)
	total := l.Stop()
	p.Partner.Calm()
	l.WaitOutput(total) // watchers know the first generation only
	p.Stop(w)
	// A lake may still hold back what is decided when its worker stops; a reset
	// leaves nothing behind.
	p.Reset()
	p.WantRight(total)
	t.Logf("%d resets killed and called again", n)
}
