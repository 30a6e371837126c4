//go:build services

package database

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"exactly/internal/services"
	"exactly/test/rig"
)

func TestMain(m *testing.M) { os.Exit(services.MainTimed(m)) }

var (
	one   = services.Options{Nodes: 1}
	three = services.Options{Nodes: 3}
)

// forever lets a pipeline go on after any number of failures.
const forever = "{ max: 1000, delay: 50ms, max_delay: 1s }"

// TestStorm: workers are killed, frozen past their session and restarted in turn,
// brokers and the database are killed and come back. Every table ends right, in
// every way to write, with nothing undecided ever seen, and nothing left open.
func TestStorm(t *testing.T) {
	// Small: all tables in one pipeline. Full: each in one of its own, but for two.
	sets := rig.Sized(t,
		[][]string{{"upserted", "appended", "staged", "staged_log", "paired", "balances"}},
		[][]string{{"upserted"}, {"appended", "balances"}, {"staged"}, {"staged_log"}, {"paired"}})
	for _, tables := range sets {
		t.Run(fmt.Sprint(tables), func(t *testing.T) {
			p := rig.New(t, services.Kafka(t, three), rig.Shape{
				Tasks: 4, Sinks: append([]string{"enriched"}, tables...), Postgres: services.Postgres(t, true), Restart: forever,
				Totals: totals(tables),
			})
			p.Behind()
			rig.Storm{
				Payments: rig.Sized(t, int64(8_000), 100_000), Rate: rig.Sized(t, 250.0, 400), Workers: 3,
				Kills: rig.Sized(t, 6, 100), Zombies: rig.Sized(t, 1, 3), BrokerKills: rig.Sized(t, 1, 10),
				Restarts: rig.Sized(t, 2, 5), Rolls: 1, Guests: rig.Sized(t, 1, 5),
				Moves: rig.Sized(t, 1, 10), Cuts: rig.Sized(t, 1, 10), Delays: rig.Sized(t, 1, 5),
			}.Over(p)
		})
	}
}

// totals is the table whose sums are kept, by mode replace.
func totals(tables []string) string {
	for _, name := range []string{"upserted", "appended", "staged"} {
		if slices.Contains(tables, name) {
			return name
		}
	}
	return ""
}

// TestKillMatrix kills a worker with SIGKILL at each fail point, for each way to
// write; replace has to have the rows of another.
func TestKillMatrix(t *testing.T) {
	c := services.Kafka(t, three)
	server := services.Postgres(t, false)
	for _, sink := range rig.Sized(t, []string{"upserted", "staged", "balances"}, []string{"upserted", "appended", "staged", "staged_log", "balances"}) {
		t.Run(sink, func(t *testing.T) {
			s := rig.MatrixShape(sink)
			s.Postgres = server
			if sink == "upserted" {
				s.Totals = sink
			}
			rig.KillAtEachPoint(rig.New(t, c, s))
		})
	}
}

// TestScheduleOfASeed: the same seed is the same storm, another one is another.
func TestScheduleOfASeed(t *testing.T) {
	s := rig.Storm{Workers: 3, Kills: 100, Zombies: 3, BrokerKills: 10, Restarts: 5, Rolls: 1, Guests: 5, Moves: 4, Cuts: 3, Delays: 2}
	first := s.Schedule(1, 3)
	if again := s.Schedule(1, 3); !slices.Equal(first, again) {
		t.Errorf("one seed gives two schedules: %v and %v", first, again)
	}
	if other := s.Schedule(2, 3); slices.Equal(first, other) {
		t.Errorf("two seeds give one schedule")
	}
	count := map[string]int{}
	for _, step := range first {
		count[step.Kind]++
	}
	for kind, want := range map[string]int{"kill worker": 100, "freeze worker": 3, "kill broker": 10, "start broker": 10, "crash database": 5, "move leaders": 4, "cut connections": 3, "delay answers": 2} {
		if count[kind] != want {
			t.Errorf("%s: got %d steps, want %d", kind, count[kind], want)
		}
	}
}
