package bench

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Result is the outcome of a run; its JSON is part of the interface.
type Result struct {
	Right    bool      `json:"right"`    // every output was what it has to be
	Problems []string  `json:"problems"` // if not
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Machine  Machine   `json:"machine"`
	Records  int64     `json:"records"` // in the backlog
	Rounds   int       `json:"rounds"`

	Throughput []Throughput `json:"throughput"`
	Latency    []Latency    `json:"latency"`
	Restart    []Restart    `json:"restart"`
	Wanted     []Wanted     `json:"wanted"`
}

// Machine is where it was measured.
type Machine struct {
	OS   string `json:"os"`
	CPU  string `json:"cpu"` // "": this system does not tell
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Spread is a figure over all rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Throughput is how a contestant worked through the backlog.
type Throughput struct {
	Contestant string `json:"contestant"`
	Rate       Spread `json:"records_per_second"`
	CPU        Spread `json:"cpu_seconds_per_million"`
	Peak       Spread `json:"peak_mib"`
	Start      Spread `json:"start_ms"` // until the first record was written
	Counts     Counts `json:"counts"`   // over all rounds
}

// Latency is from the making of a payment to its arrival at a read_committed
// reader.
type Latency struct {
	Contestant string  `json:"contestant"`
	Rate       float64 `json:"rate"`
	P50        Spread  `json:"p50_ms"`
	P99        Spread  `json:"p99_ms"`
	Max        Spread  `json:"max_ms"`
	Samples    int     `json:"samples"` // per round
	Counts     Counts  `json:"counts"`  // over all rounds, at all rates
}

// Restart is from SIGKILL to the first output of the next process.
type Restart struct {
	Contestant string `json:"contestant"`
	Kills      int    `json:"kills"`
	Took       Spread `json:"ms"`
	Counts     Counts `json:"counts"` // over all rounds
}

// Wanted is a figure that is aimed at.
type Wanted struct {
	What    string  `json:"what"`
	Want    string  `json:"want"`
	Got     float64 `json:"got"`
	Reached bool    `json:"reached"`
}

func (r *run) result(begin time.Time) (*Result, error) {
	res := &Result{
		Right: len(r.problems) == 0, Problems: r.problems, Started: begin.UTC().Truncate(time.Second),
		Seconds: time.Since(begin).Seconds(), Records: r.o.Records, Rounds: r.o.Rounds,
		Machine:    Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpuModel(), CPUs: runtime.NumCPU(), Go: runtime.Version()},
		Throughput: []Throughput{}, Latency: []Latency{}, Restart: []Restart{},
	}
	for _, c := range r.o.throughputContestants() {
		if ts := r.throughputs[c]; len(ts) > 0 {
			res.Throughput = append(res.Throughput, r.throughputOf(c, ts))
		}
	}
	for _, c := range r.o.latencyContestants() {
		for _, rate := range r.o.Rates {
			if ls := r.latencies[c][rate]; len(ls) > 0 {
				res.Latency = append(res.Latency, latencyOf(c, rate, ls))
			}
		}
	}
	for _, c := range r.o.restartContestants(0) {
		if re := r.restarts[c]; re != nil {
			res.Restart = append(res.Restart, Restart{
				Contestant: c.name(), Kills: len(re.took), Counts: re.counts,
				Took: spread(re.took, ms),
			})
		}
	}
	res.Wanted = res.wanted()
	return res, nil
}

func (r *run) throughputOf(c contestant, ts []throughput) Throughput {
	t := Throughput{
		Contestant: c.name(),
		Rate:       spread(ts, func(t throughput) float64 { return t.rate }),
		CPU:        spread(ts, r.perMillion),
		Peak:       spread(ts, func(t throughput) float64 { return float64(t.peak) / (1 << 20) }),
		Start: spread(ts, func(t throughput) float64 {
			return ms(t.whole) - 1e3*float64(r.o.Records)/t.rate
		}),
	}
	for _, x := range ts {
		t.Counts = t.Counts.plus(x.counts)
	}
	return t
}

func latencyOf(c contestant, rate float64, ls []latency) Latency {
	l := Latency{
		Contestant: c.name(), Rate: rate, Samples: ls[0].samples,
		P50: spread(ls, func(l latency) float64 { return ms(l.p50) }),
		P99: spread(ls, func(l latency) float64 { return ms(l.p99) }),
		Max: spread(ls, func(l latency) float64 { return ms(l.max) }),
	}
	for _, x := range ls {
		l.Counts = l.Counts.plus(x.counts)
	}
	return l
}

// spread gives the median (of an even number, the mean of the middle two) and
// the ends. xs is not empty.
func spread[T any](xs []T, figure func(T) float64) Spread {
	vs := make([]float64, len(xs))
	for i, x := range xs {
		vs[i] = figure(x)
	}
	slices.Sort(vs)
	mid := len(vs) / 2
	median := vs[mid]
	if len(vs)%2 == 0 {
		median = (vs[mid-1] + vs[mid]) / 2
	}
	return Spread{Median: median, Min: vs[0], Max: vs[len(vs)-1]}
}

// wanted compares with what is aimed at, as far as it was measured.
func (r *Result) wanted() []Wanted {
	var (
		ws     = []Wanted{}
		loop   = contestant{interval: baseline}.name()
		least  = contestant{guarantee: "at_least_once", interval: baseline}.name()
		once   = contestant{guarantee: "exactly_once", interval: baseline}.name()
		onceIn = contestant{guarantee: "exactly_once", interval: quick}.name()
	)
	rates := map[string]float64{}
	for _, t := range r.Throughput {
		rates[t.Contestant] = t.Rate.Median
	}
	if rates[once] > 0 {
		of, than := rates[once]/rates[least], rates[once]/rates[loop]
		ws = append(ws,
			Wanted{What: "throughput of " + once + " against " + least, Want: "at least 0.95", Got: of, Reached: of >= 0.95},
			Wanted{What: "throughput of " + once + " against " + loop, Want: "at least 1", Got: than, Reached: than >= 1})
	}
	for _, l := range r.Latency {
		if l.Contestant == onceIn && l.Rate == 10_000 {
			ws = append(ws,
				Wanted{What: "p50 of " + onceIn + " at 10000/s, ms", Want: "at most 12", Got: l.P50.Median, Reached: l.P50.Median <= 12},
				Wanted{What: "p99 of " + onceIn + " at 10000/s, ms", Want: "at most 40", Got: l.P99.Median, Reached: l.P99.Median <= 40})
		}
	}
	for _, k := range r.Restart {
		if strings.HasPrefix(k.Contestant, "exactly_once") {
			ws = append(ws, Wanted{What: "SIGKILL to new output of " + k.Contestant + ", ms", Want: "at most 200", Got: k.Took.Median, Reached: k.Took.Median <= 200})
		}
	}
	return ws
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(b) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
