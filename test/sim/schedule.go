//go:build synctests

package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"exactly/internal/failpoint"
)

// schedule is one simulated life of a pipeline. It is all that a run depends on.
type schedule struct {
	Seed  uint64     `json:"seed"`
	Shape shape      `json:"shape"`
	Steps []incident `json:"steps"`
}

// shape is what stays the same for a whole run.
type shape struct {
	Brokers    int           `json:"brokers"`
	Partitions int32         `json:"partitions"`
	Tasks      int32         `json:"tasks"`
	Workers    int           `json:"workers"`
	Records    int           `json:"records"`
	Interval   time.Duration `json:"interval"`
	Timeout    time.Duration `json:"timeout"` // epoch.timeout
	MaxRecords int           `json:"max_records"`
	Renew      time.Duration `json:"renew"`
	Roll       int           `json:"roll"` // records of one staged file
	Old        bool          `json:"old"`  // brokers without transaction version 2
	Recreate   bool          `json:"recreate"`
	Sinks      string        `json:"sinks"`             // beside the topic
	Bare       bool          `json:"bare,omitempty"`    // rows keeps no verdicts
	Collect    bool          `json:"collect,omitempty"` // db writes at the end of an epoch
	Follow     bool          `json:"follow,omitempty"`  // sums follows rows and db
	Memory     int64         `json:"memory"`            // bytes of a task: unacknowledged, and handed over; 0: what is usual
}

// servers names the sinks that have one.
func (h shape) servers() []string {
	names := strings.Fields(h.Sinks)
	if h.Follow && (slices.Contains(names, "rows") || slices.Contains(names, "db")) {
		names = append(names, sums)
	}
	return names
}

// kind of an incident.
type kind string

// The incidents.
const (
	kill      kind = "kill"        // a worker's process, started again after For
	freeze    kind = "freeze"      // a worker for For: a zombie if that is long
	stopIt    kind = "stop"        // gracefully, started again after For
	join      kind = "join"        // one more worker, which stops after For
	atPoint   kind = "fail point"  // Point's Nth hit: Do
	network   kind = "network"     // Key's Nth request: Fault
	brokerErr kind = "broker"      // Nth requests of Key are answered with an error
	moved     kind = "leaders"     // leaders and coordinators move
	outage    kind = "outage"      // the server of Sink, or every one, is away for For
	crashSink kind = "sink crash"  // it loses its open sessions
	loseSink  kind = "sink answer" // the Nth answer of any server is lost
	grow      kind = "partition"   // the source gets one more partition
	bump      kind = "generation"  // workers stop, a reset begins the next generation, with Nth tasks
	abortTxn  kind = "aborted"     // a transaction of another producer in the source is aborted
	duel      kind = "duel"        // a worker sleeps at Point for For; those who take over are slow to fence
	jump      kind = "clock"       // nobody does anything for For, and then everybody's time is up
)

func kinds() []kind {
	return []kind{kill, freeze, stopIt, join, atPoint, network, brokerErr, moved, outage, crashSink, loseSink, grow, bump, abortTxn, duel, jump}
}

func faults() []fault {
	return []fault{dropRequest, dropAnswer, cutBefore, cutAfter, delayIt, delayAnswer, repeatIt, lieAbout}
}

// incident is something that happens. Fields beside At and Kind as the kind
// says.
type incident struct {
	At     time.Duration   `json:"at"`
	Kind   kind            `json:"kind"`
	Worker int             `json:"worker,omitempty"`
	For    time.Duration   `json:"for,omitempty"`
	Point  failpoint.Point `json:"point,omitempty"`
	Do     string          `json:"do,omitempty"` // kill, freeze, error, delay
	Key    int16           `json:"key,omitempty"`
	Nth    int             `json:"nth,omitempty"`
	Fault  fault           `json:"fault,omitempty"`
	Sink   string          `json:"sink,omitempty"`
	Deaf   bool            `json:"deaf,omitempty"` // of a sleeper: that it has lost its tasks reaches it late; of a bump: a worker sleeps through it
}

func (i incident) String() string {
	b, err := json.Marshal(i)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// span is how long input comes in and incidents begin.
const span = 20 * time.Second

// generate makes the schedule of a seed.
func generate(seed uint64) schedule {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	s := schedule{Seed: seed, Shape: shape{
		Brokers: pick(rng, 1, 1, 3), Partitions: pick[int32](rng, 1, 2, 3, 4), Workers: pick(rng, 1, 2, 2, 3),
		Records: pick(rng, 60, 120, 200), Interval: pick[time.Duration](rng, 20, 50, 100, 300, 1000) * time.Millisecond,
		Timeout: pick[time.Duration](rng, 5, 20, 120) * time.Second, MaxRecords: pick(rng, 3, 20, 1000),
		Renew: pick[time.Duration](rng, time.Second, time.Second, 3*time.Second, time.Hour), Roll: pick(rng, 1, 5, 25),
		Old: rng.IntN(8) == 0, Recreate: rng.IntN(6) == 0,
		Sinks: pick(rng, everySink, everySink, everySink, "rows files", "rows files", "files", "rows db", "db", ""),
		// Of a generator of its own, so that seeds that found something keep their schedules.
		Memory: pick[int64](rand.New(rand.NewPCG(seed, 0x3e3)), 0, 0, 512, 4096),
	}}
	of := rand.New(rand.NewPCG(seed, 0x51d5)) // as above
	s.Shape.Bare, s.Shape.Collect = of.IntN(2) == 0, of.IntN(2) == 0
	s.Shape.Follow = rand.New(rand.NewPCG(seed, 0xf0110)).IntN(3) == 0
	s.Shape.Tasks = 1 + rng.Int32N(s.Shape.Partitions)
	for range 1 + rng.IntN(9) {
		s.Steps = append(s.Steps, s.random(rng))
	}
	if rng.IntN(5) == 0 {
		s.Steps = append(s.Steps, incident{
			Deaf: of.IntN(2) == 0,
			At:   span/4 + at(rng, span/2), Kind: bump, Nth: 1 + rng.IntN(4),
			Point: pick[failpoint.Point](rng, "", failpoint.ResetSealed, failpoint.ResetMoved, failpoint.ResetBegun, failpoint.ClaimAfter, failpoint.FenceB, failpoint.EndAfter),
		})
	}
	slices.SortStableFunc(s.Steps, func(a, b incident) int { return int(a.At - b.At) })
	return s
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// at is a moment below a limit, in whole milliseconds.
func at(rng *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(below))).Round(time.Millisecond)
}

// faultyKeys are the requests that the network's faults pick from; those that
// decide are more likely.
func faultyKeys() []kmsg.Key {
	return []kmsg.Key{
		kmsg.EndTxn, kmsg.EndTxn, kmsg.EndTxn, kmsg.Produce, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.InitProducerID,
		kmsg.InitProducerID, kmsg.Fetch, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.ListOffsets,
		kmsg.OffsetFetch, kmsg.FindCoordinator, kmsg.Metadata, kmsg.DeleteRecords, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn,
	}
}

func (s *schedule) random(rng *rand.Rand) incident {
	i := incident{At: at(rng, span), Worker: rng.IntN(s.Shape.Workers)}
	i.Kind = pick(rng, kill, kill, freeze, freeze, stopIt, join, atPoint, atPoint, atPoint, atPoint, network, network, network, network,
		brokerErr, brokerErr, moved, outage, crashSink, loseSink, grow, abortTxn, jump, duel, duel)
	short := func() time.Duration {
		return pick(rng, 50*time.Millisecond, 500*time.Millisecond, 3*time.Second, 9*time.Second)
	}
	switch i.Kind {
	case kill, stopIt, join:
		i.For = short()
	case outage:
		i.For, i.Sink = pick(rng, 500*time.Millisecond, 3*time.Second, 9*time.Second, 25*time.Second), s.sink(rng)
	case crashSink:
		i.Sink = s.sink(rng)
	case freeze:
		i.For = pick(rng, 500*time.Millisecond, 5*time.Second, 8*time.Second, 8*time.Second, 15*time.Second, 40*time.Second)
		i.Deaf = rng.IntN(2) == 0
	case jump:
		i.For = pick(rng, 10*time.Second, 3*time.Minute)
	case atPoint:
		points := failpoint.Points()
		i.Point, i.Nth = points[rng.IntN(len(points))].Point, 1+rng.IntN(4)
		i.Do = pick(rng, "kill", "freeze", "error", "delay")
		i.For = pick(rng, 100*time.Millisecond, 2*time.Second, 8*time.Second, 15*time.Second)
	case network:
		i.Key, i.Nth = int16(pick(rng, faultyKeys()...)), 1+rng.IntN(6)
		i.Fault = pick(rng, faults()...)
		i.For = pick(rng, 30*time.Millisecond, time.Second, 4*time.Second, 9*time.Second)
	case brokerErr:
		i.Key, i.Nth = int16(pick(rng, faultyKeys()...)), 1+rng.IntN(5)
		i.For = time.Duration(rng.IntN(len(brokerErrors())))
		if rng.IntN(2) == 0 { // the error that says nothing
			i.For = time.Duration(slices.Index(brokerErrors(), kerr.UnknownServerError))
		}
	case duel:
		i.Point = pick(rng, failpoint.EndBefore, failpoint.EndBefore, failpoint.OffsetsBefore, failpoint.JournalAfter, failpoint.Filled,
			failpoint.PrepareBefore, failpoint.CommitBefore, failpoint.ApplyBefore, failpoint.ClaimBefore, failpoint.FenceB)
		// The session of the sleeper ends after 6 s.
		i.For, i.Nth, i.Deaf = 6500*time.Millisecond+at(rng, 3*time.Second), 1+rng.IntN(4), rng.IntN(2) == 0
	case loseSink:
		i.Nth = 1 + rng.IntN(6)
	}
	return i
}

// sink is one of the schedule's with a server, or "" for all of them.
func (s *schedule) sink(rng *rand.Rand) string {
	names := append(strings.Fields(s.Shape.Sinks), "")
	if n := rng.IntN(len(names)); n < len(names)-1 || !s.Shape.Follow {
		return names[n]
	}
	return pick(rand.New(rand.NewPCG(s.Seed, uint64(len(s.Steps)))), append(s.Shape.servers(), "")...)
}

// shrinks are smaller schedules to try in place of a failing one.
func (s schedule) shrinks() []schedule {
	var out []schedule
	for n := len(s.Steps) / 2; n > 0; n /= 2 {
		for from := 0; from+n <= len(s.Steps); from += n {
			t := s
			t.Steps = slices.Concat(s.Steps[:from], s.Steps[from+n:])
			out = append(out, t)
		}
	}
	smaller := func(f func(*shape)) {
		t := s
		if f(&t.Shape); t.Shape != s.Shape {
			out = append(out, t)
		}
	}
	smaller(func(h *shape) { h.Brokers = 1 })
	smaller(func(h *shape) { h.Old = false })
	smaller(func(h *shape) { h.Recreate = false })
	smaller(func(h *shape) { h.Renew = time.Hour })
	smaller(func(h *shape) { h.Records = max(10, h.Records/2) })
	smaller(func(h *shape) { h.Tasks = 1 })
	smaller(func(h *shape) { h.Partitions = max(h.Tasks, h.Partitions-1) })
	smaller(func(h *shape) { h.MaxRecords = 1000 })
	smaller(func(h *shape) { h.Memory = 0 })
	smaller(func(h *shape) { h.Bare = false })
	smaller(func(h *shape) { h.Collect = false })
	for _, name := range strings.Fields(s.Shape.Sinks) {
		smaller(func(h *shape) { h.Sinks = strings.Join(strings.Fields(strings.Replace(h.Sinks, name, "", 1)), " ") })
	}
	return out
}

func (s schedule) String() string {
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(b)
}
