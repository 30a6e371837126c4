package bench

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// Parts of a run.
const (
	PartThroughput = "throughput"
	PartLatency    = "latency"
	PartRestart    = "restart"
)

// Parts lists all of them, in the order of the report.
func Parts() []string { return []string{PartThroughput, PartLatency, PartRestart} }

// Options say what is measured. Default gives the full table, Quick a smoke
// test of it.
type Options struct {
	Brokers    []string
	Postgres   string // a postgres:// URL; "": no restart with tables
	Parts      []string
	Records    int64           // payments in the backlog
	Partitions int32           // of every topic
	Tasks      int             // of the engine; 0: its default
	Rounds     int             // of everything, interleaved
	Intervals  []time.Duration // of the engine at exactly_once
	Rates      []float64       // payments per second, for latency
	Measure    time.Duration   // at each rate, per round
	Kills      int             // of each contestant, per round
	StaticOnly bool            // leave out the restart of the loop that waits for a session time-out

	Exe      string       // this program
	Dir      string       // for pipeline files and logs of contestants
	Profiles string       // folder for a CPU profile of each contestant; "": none
	Progress io.Writer    // a line per measurement
	Log      *slog.Logger // of our own clients
}

// Default is the full table, about a quarter of an hour.
func Default() Options {
	return Options{
		Parts: Parts(), Records: 5_000_000, Partitions: 4, Rounds: 3,
		Intervals: []time.Duration{
			5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
			100 * time.Millisecond, time.Second,
		},
		Rates: []float64{2000, 10_000}, Measure: 4 * time.Second, Kills: 3,
	}
}

// Quick is everything once and small: its times mean nothing, its counts do.
func Quick() Options {
	o := Default()
	o.Records, o.Rounds, o.Kills, o.StaticOnly = 20_000, 1, 1, true
	o.Intervals = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond}
	o.Rates, o.Measure = []float64{500}, time.Second
	return o
}

// Validate says what is wrong with o, in the words of the flags of `exactly
// bench`.
func (o Options) Validate() error {
	switch {
	case len(o.Brokers) == 0:
		return errors.New("brokers: give the address of a Kafka; `make bench` starts one")
	case o.Records < 1:
		return errors.New("records: must be at least 1")
	case o.Partitions < 1 || o.Partitions > 64:
		return errors.New("partitions: must be 1 to 64")
	case o.Rounds < 1:
		return errors.New("rounds: must be at least 1")
	case o.Kills < 1:
		return errors.New("kills: must be at least 1")
	case o.Measure < 100*time.Millisecond:
		return errors.New("measure: must be at least 100ms")
	case len(o.Intervals) == 0:
		return errors.New("intervals: give at least one")
	}
	for _, i := range o.Intervals {
		if i < time.Millisecond || i > time.Minute {
			return fmt.Errorf("intervals: %s is not within 1ms to 1m", i)
		}
	}
	for _, r := range o.Rates {
		if !(r >= 1 && r <= 1e6) {
			return fmt.Errorf("rates: %v is not within 1 and 1000000", r)
		}
	}
	for _, p := range o.Parts {
		if !slices.Contains(Parts(), p) {
			return fmt.Errorf("parts: there is no %q; there are %v", p, Parts())
		}
	}
	return nil
}
