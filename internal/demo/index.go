package demo

import (
	"sync"

	"exactly/internal/payments"
	"exactly/internal/watch"
)

// index knows of every payment where it stands in the source, and which sinks
// have shown it.
type index struct {
	topic string

	mu    sync.RWMutex
	byID  map[string]int64 // number of the payment
	at    []position       // by number; offset -1: not yet acknowledged
	acked int64
	sinks map[string]*arrivals
}

type position struct {
	partition int32
	offset    int64
}

// arrivals is what one sink has shown.
type arrivals struct {
	seen     []bool // by number
	distinct int64
	effects  int64
}

func newIndex(topic string, n int64) *index {
	x := &index{topic: topic, byID: make(map[string]int64, n), at: make([]position, n), sinks: map[string]*arrivals{}}
	for i := range n {
		x.byID[payments.ID(i)] = i
		x.at[i].offset = -1
	}
	for _, name := range sinkNames {
		x.sinks[name] = &arrivals{seen: make([]bool, n)}
	}
	return x
}

// put notes where the broker has stored payment i.
func (x *index) put(i int64, partition int32, offset int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at[i] = position{partition, offset}
	x.acked++
}

// locate implements watch.Config.Locate.
func (x *index) locate(id string) (watch.Position, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.byID[id]
	if !ok || x.at[i].offset < 0 {
		return watch.Position{}, false
	}
	return watch.Position{Topic: x.topic, Partition: x.at[i].partition, Offset: x.at[i].offset}, true
}

// arrive notes that a sink has shown a payment.
func (x *index) arrive(sink, id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.sinks[sink]
	a.effects++
	if i, ok := x.byID[id]; ok && !a.seen[i] {
		a.seen[i] = true
		a.distinct++
	}
}

// distinct gives how many payments a sink has shown.
func (x *index) distinct(sink string) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.sinks[sink].distinct
}

// written gives how many payments the source holds.
func (x *index) written() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.acked
}

// complete reports whether every sink has shown every payment.
func (x *index) complete() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, a := range x.sinks {
		if a.distinct < int64(len(x.at)) {
			return false
		}
	}
	return true
}

// Merchant is how many payments of one merchant there are, in the source and in
// each sink.
type Merchant struct {
	Merchant string           `json:"merchant"`
	Source   int64            `json:"source"`
	Sinks    map[string]int64 `json:"sinks"`
}

func (x *index) merchants() []Merchant {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ms := make([]Merchant, min(payments.Merchants, len(x.at)))
	for i := range ms {
		ms[i] = Merchant{Merchant: payments.Merchant(int64(i)), Sinks: map[string]int64{}}
	}
	for i := range x.at {
		m := &ms[i%payments.Merchants]
		m.Source++
		for name, a := range x.sinks {
			if a.seen[i] {
				m.Sinks[name]++
			}
		}
	}
	return ms
}
